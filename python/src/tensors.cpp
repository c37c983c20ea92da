// Block-sparse tensors: made from NumPy's arrays, read by tiles, added and permuted.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "module.hpp"
#include "python_array.hpp"
#include "python_tensor.hpp"
#include "tessera/index/permutation.hpp"

namespace tessera::python {

using namespace nb::literals;

namespace {

using Sizes = std::vector<std::vector<std::int64_t>>;
using Ordinals = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

TileGrid grid_of(const Sizes& tilings) {
    std::vector<Tiling> indices;
    for (const auto& sizes : tilings) indices.push_back(Tiling::from_sizes(sizes));
    return TileGrid(std::move(indices));
}

Shape shape_of(const Sizes& tilings, const Ordinals& ordinals, const Numbers& norms) {
    std::vector<ShapeEntry> entries(ordinals.size());
    for (std::size_t i = 0; i < entries.size(); ++i)
        entries[i] = {TileOrdinal{ordinals.data()[i]}, norms.data()[norms.size() == 1 ? 0 : i]};
    return Shape(grid_of(tilings), std::move(entries));
}

ScalarKind kind_of(const std::string& text) {
    for (const auto kind : {ScalarKind::f32, ScalarKind::f64, ScalarKind::c64, ScalarKind::c128})
        if (text == name(kind)) return kind;
    throw UserError("dtype " + text + "; float32, float64, complex64 and complex128 are possible");
}

/// A NumPy array that owns these values.
template <class V>
nb::object owned(std::vector<V> values) {
    auto* kept = new std::vector<V>(std::move(values));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<V>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, V, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

/// Element by element, runs that are contiguous on both sides at once.
template <class T>
void copy_strided(const T* from, const std::int64_t* from_strides, T* to, const std::int64_t* to_strides,
                  const std::int64_t* extents, int rank) {
    if (rank == 0) {
        *to = *from;
    } else if (rank == 1 && from_strides[0] == 1 && to_strides[0] == 1) {
        std::copy_n(from, extents[0], to);
    } else {
        for (std::int64_t i = 0; i < extents[0]; ++i)
            copy_strided(from + i * from_strides[0], from_strides + 1, to + i * to_strides[0], to_strides + 1,
                         extents + 1, rank - 1);
    }
}
template <class T>
void copy_array(const ArrayView<const T>& from, const ArrayView<T>& to) {
    if (from.extents.product() > 0)
        copy_strided(from.data, from.strides.begin(), to.data, to.strides.begin(), to.extents.begin(), to.rank());
}

PythonTensor from_blocks(const Sizes& tilings, const Ordinals& ordinals, const nb::list& blocks,
                         const std::optional<std::string>& dtype, int threads) {
    const TileGrid grid = grid_of(tilings);
    const auto count = ordinals.size();
    std::vector<PythonArray> arrays;
    arrays.reserve(count);
    std::optional<ScalarKind> kind;
    if (dtype) kind = kind_of(*dtype);
    for (std::size_t i = 0; i < count; ++i) {
        const TileOrdinal tile{ordinals.data()[i]};
        const auto name = [&] { return "block " + std::to_string(i) + " at " + to_string(grid.coordinates(tile)); };
        try {
            arrays.emplace_back(nb::object(blocks[i]), "");
        } catch (const UserError& e) {
            throw UserError(name() + e.what());
        }
        const auto& x = arrays.back();
        if (!(x.extents == grid.tile_extents(tile)))
            throw UserError(name() + " has shape " + to_string(x.extents) + ", its tile has " +
                            to_string(grid.tile_extents(tile)));
        if (dtype && common_kind(*kind, x.kind()) != *kind)
            throw UserError(name() + " has elements of type " + std::string(tessera::name(x.kind())) + ", dtype is " +
                            *dtype);
        if (!dtype) kind = kind ? common_kind(*kind, x.kind()) : x.kind();
    }
    for (auto& x : arrays)
        if (x.kind() != *kind) x = std::move(x).as(*kind);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return ordinals.data()[a] < ordinals.data()[b]; });
    std::vector<ShapeEntry> entries;
    for (const auto i : order) entries.push_back({TileOrdinal{ordinals.data()[i]}, 0});
    const Shape shape(grid, std::move(entries));
    return with_scalar(kind.value_or(ScalarKind::f64), [&](auto type) {
        using T = decltype(type);
        const nb::gil_scoped_release others_run;
        return PythonTensor(Tensor<T>::generate(
            shape,
            [&](const TileInfo& info, std::span<T> tile) {
                const auto& x = arrays[order[static_cast<std::size_t>(*shape.find(info.tile))]];
                copy_array<T>(x.view<const T>(), {tile.data(), info.extents});
            },
            threads));
    });
}

PythonTensor from_dense(const Sizes& tilings, nb::object array, double drop) {
    const PythonArray x(std::move(array), "the array");  // row-major: the Python part sees to it
    const TileGrid grid = grid_of(tilings);
    return with_scalar(x.kind(), [&](auto type) {
        using T = decltype(type);
        const std::span<const T> elements(x.view<const T>().data, static_cast<std::size_t>(x.extents.product()));
        const nb::gil_scoped_release others_run;
        return PythonTensor(Tensor<T>::from_dense(grid, elements, drop));
    });
}

PythonTensor random(const Sizes& tilings, const Ordinals& ordinals, const Numbers& norms, std::uint64_t seed,
                    const std::string& dtype, int threads) {
    const Shape shape = shape_of(tilings, ordinals, norms);
    return with_scalar(kind_of(dtype), [&](auto type) {
        const nb::gil_scoped_release others_run;
        return PythonTensor(Tensor<decltype(type)>::random(shape, seed, threads));
    });
}

/// Fills tiles by calling Python, one thread at a time. The function gets an array of its own: it may keep it.
template <Scalar T>
TileGenerator<T> python_generator(nb::object fill) {
    const std::shared_ptr<nb::object> call(new nb::object(std::move(fill)), [](nb::object* p) {
        const nb::gil_scoped_acquire python;
        delete p;
    });
    return [call](const TileInfo& info, std::span<T> tile) {
        const nb::gil_scoped_acquire python;
        nb::object array = empty_array(info.extents, ScalarTraits<T>::kind);
        const auto numbers = [](const IndexVector& v) { return std::vector<std::int64_t>(v.begin(), v.end()); };
        (*call)(numbers(info.coordinates), numbers(info.extents), numbers(info.begin), array);
        const PythonArray filled(std::move(array), "the tile that fill made");
        copy_array<T>(filled.view<const T>(), {tile.data(), info.extents});
    };
}

PythonGenerated generated(const Sizes& tilings, const Ordinals& ordinals, const Numbers& norms, nb::object fill,
                          const std::string& dtype) {
    const Shape shape = shape_of(tilings, ordinals, norms);
    return with_scalar(kind_of(dtype), [&](auto type) {
        using T = decltype(type);
        return PythonGenerated(GeneratedTensor<T>{shape, python_generator<T>(std::move(fill))});
    });
}

/// Reading: f(tensor) with its own type.
template <class F>
decltype(auto) read(const PythonTensor& x, F&& f) {
    const auto kept = x.get();
    return std::visit(std::forward<F>(f), *kept);
}

Sizes sizes_of(const TileGrid& grid) {
    Sizes out;
    for (const auto& tiling : grid.tilings()) out.push_back(tiling.sizes());
    return out;
}

nb::object ordinals_of(const PythonTensor& x) {
    return read(x, [](const auto& t) {
        const auto values = t.shape().ordinals();
        return owned(std::vector<std::int64_t>(values.begin(), values.end()));
    });
}
nb::object norms_of(const PythonTensor& x) {
    return read(x, [](const auto& t) {
        const auto values = t.shape().norms();
        return owned(std::vector<double>(values.begin(), values.end()));
    });
}

nb::object tile_of(const PythonTensor& x, std::int64_t slot) {
    auto* kept = new std::shared_ptr<const Stored>(x.get());
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::shared_ptr<const Stored>*>(p); });
    return std::visit(
        [&]<Scalar T>(const Tensor<T>& t) {
            const auto extents = t.grid().tile_extents(t.shape().tile(slot));
            std::array<std::size_t, kMaxRank> shape{};
            std::copy(extents.begin(), extents.end(), shape.begin());
            return nb::cast(nb::ndarray<nb::numpy, const T>(
                t.tile(slot).data(), static_cast<std::size_t>(extents.size()), shape.data(), owner));
        },
        **kept);
}

/// Every block in an array of its own, which may be written to.
nb::list copies_of(const PythonTensor& x) {
    return read(x, []<Scalar T>(const Tensor<T>& t) {
        nb::list out;
        for (std::int64_t slot = 0; slot < t.tile_count(); ++slot) {
            const auto tile = t.tile(slot);
            const auto copy = PythonArray::result(
                empty_array(t.grid().tile_extents(t.shape().tile(slot)), ScalarTraits<T>::kind), "a copy");
            std::copy(tile.begin(), tile.end(), copy.template view<T>().data);
            out.append(copy.object());
        }
        return out;
    });
}

/// Into an array of zeros.
void to_dense(const PythonTensor& x, nb::object out) {
    const auto to = PythonArray::result(std::move(out), "out");
    read(x, [&]<Scalar T>(const Tensor<T>& t) {
        const nb::gil_scoped_release others_run;
        t.for_each_tile([&](const TileInfo& info, std::span<const T> tile) {
            auto place = to.view<T>();
            for (int d = 0; d < info.begin.size(); ++d) place.data += info.begin[d] * place.strides[d];
            place.extents = info.extents;
            copy_array<T>({tile.data(), info.extents}, place);
        });
    });
}

template <Scalar T>
T factor(std::complex<double> value, const char* what) {
    if constexpr (is_complex<T>) {
        return T(static_cast<RealOf<T>>(value.real()), static_cast<RealOf<T>>(value.imag()));
    } else {
        if (value.imag() != 0) throw UserError(std::string(what) + " is complex, the tensor is real");
        return static_cast<T>(value.real());
    }
}

/// Both of one type: f(x, y).
template <class F>
auto read_both(const PythonTensor& x, const PythonTensor& y, F&& f) {
    const auto one = x.get(), other = y.get();
    return std::visit(
        [&]<Scalar T>(const Tensor<T>& a) {
            const auto* b = std::get_if<Tensor<T>>(&*other);
            if (!b) throw UserError("tensors of different dtype; astype() converts one");
            return f(a, *b);
        },
        *one);
}

PythonTensor add_tensors(std::complex<double> alpha, const PythonTensor& x, std::complex<double> beta,
                         const PythonTensor& y) {
    return read_both(x, y, [&]<Scalar T>(const Tensor<T>& a, const Tensor<T>& b) {
        const T p = factor<T>(alpha, "a factor"), q = factor<T>(beta, "a factor");
        const nb::gil_scoped_release others_run;
        return PythonTensor(add(p, a, q, b));
    });
}

nb::object dot_tensors(const PythonTensor& x, const PythonTensor& y) {
    return read_both(x, y, []<Scalar T>(const Tensor<T>& a, const Tensor<T>& b) { return nb::cast(dot(a, b)); });
}

PythonTensor permute_tensor(const PythonTensor& x, const std::vector<int>& axes, int threads) {
    return read(x, [&](const auto& t) {
        const nb::gil_scoped_release others_run;
        return PythonTensor(permute(t, Permutation(axes), threads));
    });
}

PythonTensor convert_tensor(const PythonTensor& x, const std::string& dtype) {
    return with_scalar(kind_of(dtype), [&](auto type) {
        return read(x, [&](const auto& t) { return PythonTensor(convert<decltype(type)>(t)); });
    });
}

}  // namespace

void bind_tensors(nb::module_& module) {
    nb::class_<PythonGenerated>(module, "Generated");
    module.def("generated", &generated, "tilings"_a, "ordinals"_a, "norms"_a, "fill"_a, "dtype"_a);
    nb::class_<PythonTensor>(module, "Tensor")
        .def_static("from_blocks", &from_blocks, "tilings"_a, "ordinals"_a, "blocks"_a, "dtype"_a.none(), "threads"_a)
        .def_static("from_dense", &from_dense, "tilings"_a, "array"_a, "drop"_a)
        .def_static("random", &random, "tilings"_a, "ordinals"_a, "norms"_a, "seed"_a, "dtype"_a, "threads"_a)
        .def_prop_ro("tilings",
                     [](const PythonTensor& x) { return read(x, [](auto& t) { return sizes_of(t.grid()); }); })
        .def_prop_ro("dtype",
                     [](const PythonTensor& x) {
                         return read(
                             x, []<Scalar T>(const Tensor<T>&) { return std::string(name(ScalarTraits<T>::kind)); });
                     })
        .def_prop_ro("ordinals", &ordinals_of, nb::sig("def ordinals(self) -> numpy.typing.NDArray[numpy.int64]"))
        .def_prop_ro("norms", &norms_of, nb::sig("def norms(self) -> numpy.typing.NDArray[numpy.float64]"))
        .def_prop_ro("tile_count",
                     [](const PythonTensor& x) { return read(x, [](auto& t) { return t.tile_count(); }); })
        .def_prop_ro("elements",
                     [](const PythonTensor& x) { return read(x, [](auto& t) { return t.shape().elements(); }); })
        .def_prop_ro("density",
                     [](const PythonTensor& x) { return read(x, [](auto& t) { return t.shape().density(); }); })
        .def_prop_ro("norm", [](const PythonTensor& x) { return read(x, [](auto& t) { return norm(t); }); })
        .def_prop_ro("checksum", [](const PythonTensor& x) { return read(x, [](auto& t) { return checksum(t); }); })
        .def("find",
             [](const PythonTensor& x, std::int64_t ordinal) {
                 return read(x, [&](auto& t) { return t.shape().find(TileOrdinal{ordinal}); });
             })
        .def("tile", &tile_of, "slot"_a, nb::sig("def tile(self, slot: int) -> numpy.typing.NDArray"))
        .def("copies", &copies_of)
        .def("to_dense", &to_dense, "out"_a)
        .def("filter",
             [](const PythonTensor& x, double threshold) {
                 return read(x, [&](auto& t) { return PythonTensor(filter(t, threshold)); });
             })
        .def("permute", &permute_tensor, "axes"_a, "threads"_a)
        .def("convert", &convert_tensor, "dtype"_a)
        .def("equals", [](const PythonTensor& x, const PythonTensor& y) {
            return x.get()->index() == y.get()->index() &&
                   read_both(x, y, [](const auto& a, const auto& b) { return a == b; });
        });
    module.def("add", &add_tensors, "alpha"_a, "x"_a, "beta"_a, "y"_a);
    module.def("dot", &dot_tensors, "x"_a, "y"_a, nb::sig("def dot(x: Tensor, y: Tensor) -> complex"));
}

}  // namespace tessera::python
