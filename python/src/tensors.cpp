// Block-sparse tensors: made from NumPy's arrays, read by tiles, added and permuted.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "module.hpp"
#include "python_array.hpp"
#include "python_tensor.hpp"
#include "tessera/index/permutation.hpp"
#include "tessera/tensor/builder.hpp"
#include "tessera/tensor/symmetric.hpp"

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

/// Where a tensor of this grid is stored: here, or by all of the ranks.
Placement placement_on(Communicator* ranks, const TileGrid& grid) {
    return ranks ? Placement(*ranks, Distribution::even(grid, ranks->size())) : Placement();
}

/// Blocks that were given, checked; `kind` is what holds all of their elements.
struct Blocks {
    std::vector<PythonArray> arrays;
    std::optional<ScalarKind> kind;
};
Blocks checked_blocks(const TileGrid& grid, const Ordinals& ordinals, const nb::list& blocks,
                      const std::optional<std::string>& dtype) {
    const auto count = ordinals.size();
    Blocks out;
    auto& [arrays, kind] = out;
    arrays.reserve(count);
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
    return out;
}

PythonTensor from_blocks(const Sizes& tilings, const Ordinals& ordinals, const nb::list& blocks,
                         const std::optional<std::string>& dtype, int threads) {
    const TileGrid grid = grid_of(tilings);
    const auto count = ordinals.size();
    auto [arrays, kind] = checked_blocks(grid, ordinals, blocks, dtype);
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

/// What every rank has to say; its errors, which would leave the others waiting, are thrown on all of them.
std::vector<std::string> gather_text(Communicator& ranks, const std::function<std::string()>& say) {
    std::string text, error;
    try {
        text = "=" + say();
    } catch (const UserError& e) {
        text = "!" + std::string(e.what());
    }
    const nb::gil_scoped_release others_run;
    std::vector<std::string> all;
    for (const auto& bytes : ranks.all_gather(std::as_bytes(std::span(text))))
        all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text[0] == '!') throw UserError(text.substr(1));
    for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r][0] == '!') throw UserError("rank " + std::to_string(r) + ": " + all[r].substr(1));
    for (auto& one : all) one.erase(0, 1);
    return all;
}

/// Each rank gives some of the blocks; each goes to the rank that owns its tile. Collective.
PythonTensor from_blocks_on(Communicator& ranks, const Sizes& tilings, const Ordinals& ordinals, const nb::list& blocks,
                            const std::optional<std::string>& dtype, int threads) {
    const TileGrid grid = grid_of(tilings);
    Blocks mine;
    auto kind = ScalarKind::f32;
    bool some = false;
    for (const auto& theirs : gather_text(ranks, [&] {
             mine = checked_blocks(grid, ordinals, blocks, dtype);
             return mine.kind ? std::string(name(*mine.kind)) : std::string();
         }))
        if (!theirs.empty()) {
            kind = some ? common_kind(kind, kind_of(theirs)) : kind_of(theirs);
            some = true;
        }
    return with_scalar(some ? kind : ScalarKind::f64, [&](auto type) {
        using T = decltype(type);
        TensorBuilder<T> builder(grid, placement_on(&ranks, grid));
        gather_text(ranks, [&] {
            std::vector<T> block;
            for (std::size_t i = 0; i < mine.arrays.size(); ++i) {
                const auto x = std::move(mine.arrays[i]).as(ScalarTraits<T>::kind);
                block.resize(static_cast<std::size_t>(x.extents.product()));
                copy_array<T>(x.template view<const T>(), {block.data(), x.extents});
                builder.put(grid.coordinates(TileOrdinal{ordinals.data()[i]}), block);
            }
            return std::string();
        });
        const nb::gil_scoped_release others_run;
        return PythonTensor(builder.finalize(threads));
    });
}

PythonTensor from_dense(const Sizes& tilings, nb::object array, double drop, Communicator* ranks) {
    const PythonArray x(std::move(array), "the array");  // row-major: the Python part sees to it
    const TileGrid grid = grid_of(tilings);
    return with_scalar(x.kind(), [&](auto type) {
        using T = decltype(type);
        const std::span<const T> elements(x.view<const T>().data, static_cast<std::size_t>(x.extents.product()));
        const nb::gil_scoped_release others_run;
        return PythonTensor(Tensor<T>::from_dense(grid, elements, drop, placement_on(ranks, grid)));
    });
}

PythonTensor random(const Sizes& tilings, const Ordinals& ordinals, const Numbers& norms, std::uint64_t seed,
                    const std::string& dtype, int threads, Communicator* ranks) {
    const Shape shape = shape_of(tilings, ordinals, norms);
    return with_scalar(kind_of(dtype), [&](auto type) {
        const nb::gil_scoped_release others_run;
        return PythonTensor(Tensor<decltype(type)>::random(shape, seed, threads, placement_on(ranks, shape.grid())));
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

/// None where another rank stores it.
nb::object tile_of(const PythonTensor& x, std::int64_t slot) {
    if (!read(x, [&](const auto& t) { return t.is_local(slot); })) return nb::none();
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

/// Into an array of zeros.
void to_dense(const PythonTensor& x, nb::object out) {
    const auto to = PythonArray::result(std::move(out), "out");
    read(x, [&]<Scalar T>(const Tensor<T>& t) {
        const nb::gil_scoped_release others_run;
        if (t.communicator().size() > 1 || !t.shape().symmetry().none()) {
            const std::vector<T> all = t.to_dense();
            copy_array<T>(ArrayView<const T>(all.data(), to.extents), to.view<T>());
            return;
        }
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

/// A tensor that every rank has whole, dealt to them: each keeps its own tiles, nothing is sent.
PythonTensor deal(const PythonTensor& x, Communicator& ranks, int threads) {
    return read(x, [&]<Scalar T>(const Tensor<T>& t) {
        if (&t.communicator() == &ranks) return PythonTensor(t);
        if (t.communicator().size() > 1) throw UserError("the tensor is on another communicator");
        const nb::gil_scoped_release others_run;
        const auto own = [&](const TileInfo& info, std::span<T> tile) {
            const auto from = t.tile(*t.shape().find(info.tile));
            std::copy(from.begin(), from.end(), tile.begin());
        };
        return PythonTensor(Tensor<T>::generate(t.shape(), own, threads, placement_on(&ranks, t.grid())));
    });
}

PythonTensor gather_on(const PythonTensor& x, int root) {
    return read(x, [&](const auto& t) {
        const int size = t.communicator().size();
        if (root < 0 || root >= size)
            throw UserError("root " + std::to_string(root) + " is no rank of 0.." + std::to_string(size - 1));
        const nb::gil_scoped_release others_run;
        return PythonTensor(gather(t, root));
    });
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
        .def_static("from_blocks_on", &from_blocks_on, "ranks"_a, "tilings"_a, "ordinals"_a, "blocks"_a,
                    "dtype"_a.none(), "threads"_a)
        .def_static("from_dense", &from_dense, "tilings"_a, "array"_a, "drop"_a, "ranks"_a.none())
        .def_static("random", &random, "tilings"_a, "ordinals"_a, "norms"_a, "seed"_a, "dtype"_a, "threads"_a,
                    "ranks"_a.none())
        .def("deal", &deal, "ranks"_a, "threads"_a)
        .def("gather", &gather_on, "root"_a)
        .def_prop_ro("ranks", [](const PythonTensor& x) { return x.ranks().size(); })
        .def("owner",
             [](const PythonTensor& x, std::int64_t slot) { return read(x, [&](auto& t) { return t.owner(slot); }); })
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
        .def("tile", &tile_of, "slot"_a, nb::sig("def tile(self, slot: int) -> numpy.typing.NDArray | None"))
        .def("to_dense", &to_dense, "out"_a)
        .def("filter",
             [](const PythonTensor& x, double threshold) {
                 return read(x, [&](auto& t) { return PythonTensor(filter(t, threshold)); });
             })
        .def_prop_ro("symmetry",
                     [](const PythonTensor& x) { return read(x, [](auto& t) { return t.shape().symmetry().text(); }); })
        .def(
            "with_symmetry",
            [](const PythonTensor& x, const std::string& relations, double tolerance) {
                return read(x, [&](auto& t) { return PythonTensor(with_symmetry(t, relations, tolerance)); });
            },
            "relations"_a, "tolerance"_a)
        .def(
            "from_stored",
            [](const PythonTensor& x, const std::string& relations) {
                return read(x, [&](auto& t) { return PythonTensor(from_stored(t, relations)); });
            },
            "relations"_a)
        .def("desymmetrise",
             [](const PythonTensor& x) { return read(x, [](auto& t) { return PythonTensor(desymmetrise(t)); }); })
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
