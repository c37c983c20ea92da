// Algebra of tensors that live on devices: one launch for many tiles of a device, the host's loop for tiles it has.

#include <algorithm>
#include <array>
#include <functional>

#include "base/check.hpp"
#include "device/host_store.hpp"
#include "kernels/tile_math.hpp"
#include "tensor/resident.hpp"

namespace tessera::resident {

namespace {

template <Scalar T>
void* place(const Tensor<T>& x, std::int64_t slot) {
    return const_cast<typename Tensor<T>::Impl&>(x.impl()).anywhere(slot);
}

/// One operation on each tile of `out`: its job says where the operands are, in the same memory.
template <Scalar T>
void over_tiles(Tensor<T>& out, ElementOperation operation, const ElementOptions& options,
                const std::function<ElementJob(std::int64_t slot)>& job_of) {
    auto& to = out.impl();
    const auto job = [&](std::int64_t s) {
        auto j = job_of(s);
        j.out = to.anywhere(s);
        j.n = j.x || j.y || operation == ElementOperation::scale ? to.elements(s) : 0;
        return j;
    };
    for_each_home(
        *to.places, to.shape.tile_count(), to.one_rank(), to.placement.devices,
        [&](std::int64_t s) { elements_on_host(ScalarTraits<T>::kind, operation, job(s), options); },
        [&](DeviceStore& store, std::span<const std::int64_t> slots) {
            std::vector<ElementJob> jobs;
            for (const auto s : slots) jobs.push_back(job(s));
            store.elements(ScalarTraits<T>::kind, operation, jobs, options, store.stream());
        });
    out.tiles_changed();
}

/// x with each tile where `to` has it.
template <Scalar T>
const Tensor<T>& beside(const Tensor<T>& x, const Tensor<T>& to, std::optional<Tensor<T>>& moved) {
    Homes homes(static_cast<std::size_t>(x.tile_count()), -1);
    for (std::int64_t s = 0; s < x.tile_count(); ++s)
        if (const auto at = to.tiles().find(x.tiles().tile(s)); at && to.impl().is_local(*at))
            homes[static_cast<std::size_t>(s)] = static_cast<std::int16_t>(to.impl().home(*at));
        else
            homes[static_cast<std::size_t>(s)] = -1;
    return at_homes(x, to.placement().devices, homes, moved);
}

template <Scalar T>
std::function<const void*(std::int64_t)> tiles_of(const Tensor<T>& x, const Tensor<T>& like) {
    return [&](std::int64_t slot) -> const void* {
        const auto s = x.tiles().find(like.tiles().tile(slot));
        return s ? place(x, *s) : nullptr;
    };
}

/// A result of these tiles: each where the first of the two that has it has it.
template <Scalar T>
Tensor<T> result_of(const Shape& shape, const Tensor<T>& x, const Tensor<T>& y) {
    Placement where(x.communicator(), x.distribution());
    where.devices = x.on_devices() ? x.placement().devices : y.placement().devices;
    auto homes = x.on_devices() ? homes_like(shape, x, &y) : homes_like(shape, y, &x);
    return uninitialised<T>(shape, std::move(where), std::move(homes));
}

}  // namespace

template <Scalar T>
void scale(Tensor<T>& x, T factor) {
    over_tiles(x, ElementOperation::scale, {.alpha = factor}, [](std::int64_t) { return ElementJob{}; });
}

template <Scalar T>
Tensor<T> add(const Shape& shape, T alpha, const Tensor<T>& x, T beta, const Tensor<T>& y) {
    auto out = result_of(shape, x, y);
    std::optional<Tensor<T>> moved_x, moved_y;
    const auto &a = beside(x, out, moved_x), &b = beside(y, out, moved_y);
    const auto xs = tiles_of(a, out), ys = tiles_of(b, out);
    over_tiles(out, ElementOperation::combine, {.alpha = alpha, .beta = beta}, [&](std::int64_t s) {
        return ElementJob{xs(s), ys(s)};
    });
    return out;
}

template <Scalar T>
void axpy(T alpha, const Tensor<T>& x, Tensor<T>& y) {
    std::optional<Tensor<T>> moved;
    const auto& a = beside(x, y, moved);
    const auto xs = tiles_of(a, y);
    over_tiles(y, ElementOperation::add_to, {.alpha = alpha}, [&](std::int64_t s) { return ElementJob{xs(s)}; });
}

template <Scalar T>
std::vector<T> dots(const Tensor<T>& x, const Tensor<T>& y) {
    std::optional<Tensor<T>> moved;
    const auto& b = beside(y, x, moved);
    const auto ys = tiles_of(b, x);
    std::vector<T> out(static_cast<std::size_t>(x.tile_count()));
    const auto& from = x.impl();
    for_each_home(
        *from.places, from.shape.tile_count(), from.one_rank(), from.placement.devices,
        [&](std::int64_t s) {
            if (const auto* other = static_cast<const T*>(ys(s)))
                out[static_cast<std::size_t>(s)] = tile_dot(from.tile(s), other, from.elements(s));
        },
        [&](DeviceStore& store, std::span<const std::int64_t> slots) {
            std::vector<ElementJob> jobs;
            for (const auto s : slots) {
                const auto* other = ys(s);
                jobs.push_back({place(x, s), other, nullptr, other ? from.elements(s) : 0});
            }
            std::vector<std::complex<double>> sums(jobs.size());
            store.dots(ScalarTraits<T>::kind, jobs, sums);
            for (std::size_t i = 0; i < jobs.size(); ++i) {
                auto& sum = out[static_cast<std::size_t>(slots[i])];
                if constexpr (is_complex<T>)
                    sum = T(static_cast<RealOf<T>>(sums[i].real()), static_cast<RealOf<T>>(sums[i].imag()));
                else
                    sum = static_cast<T>(sums[i].real());
            }
        });
    return out;
}

template <Scalar T>
Tensor<T> multiply(const Shape& shape, const Tensor<T>& x, const Tensor<T>& y) {
    auto out = result_of(shape, x, y);
    std::optional<Tensor<T>> moved_x, moved_y;
    const auto &a = beside(x, out, moved_x), &b = beside(y, out, moved_y);
    const auto xs = tiles_of(a, out), ys = tiles_of(b, out);
    over_tiles(out, ElementOperation::multiply, {.overwrite = true}, [&](std::int64_t s) {
        return ElementJob{xs(s), ys(s)};
    });
    return out;
}

template <Scalar T>
Tensor<T> part(const Shape& shape, const Tensor<T>& x) {
    auto out = result_of<T>(shape, x, x);
    auto& to = out.impl();
    for (std::int64_t i = 0; i < to.local_count(); ++i) {
        const auto s = to.local_slot(i);
        const auto bytes = to.elements(s) * static_cast<std::int64_t>(sizeof(T));
        const auto* from = place(x, *x.tiles().find(to.shape.tile(s)));
        if (to.home(s) < 0)
            std::copy_n(static_cast<const T*>(from), to.elements(s), to.tile(s));
        else
            to.store(to.home(s)).copy(to.device_tile(s), from, bytes);
    }
    return out;
}

#define TESSERA_INSTANTIATE(T)                                                      \
    template void scale(Tensor<T>&, T);                                             \
    template Tensor<T> add(const Shape&, T, const Tensor<T>&, T, const Tensor<T>&); \
    template void axpy(T, const Tensor<T>&, Tensor<T>&);                            \
    template std::vector<T> dots(const Tensor<T>&, const Tensor<T>&);               \
    template Tensor<T> multiply(const Shape&, const Tensor<T>&, const Tensor<T>&);  \
    template Tensor<T> part(const Shape&, const Tensor<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera::resident

namespace tessera {

void divide_by_sums(Tensor<double>& x, std::span<const std::vector<double>> terms, int threads) {
    const int rank = x.rank();
    require(rank >= 1 && rank <= DivideJob::kMostIndices && static_cast<int>(terms.size()) == rank,
            "divide_by_sums: {} terms for a tensor of rank {}", terms.size(), rank);
    for (int d = 0; d < rank; ++d)
        require(static_cast<std::int64_t>(terms[static_cast<std::size_t>(d)].size()) == x.grid().tiling(d).extent(),
                "divide_by_sums: {} numbers for {} elements of index {}", terms[static_cast<std::size_t>(d)].size(),
                x.grid().tiling(d).extent(), d);
    using Terms = std::array<const double*, DivideJob::kMostIndices>;
    const auto job_of = [&](const TileInfo& info, double* tile, const Terms& from) {
        DivideJob job;
        job.out = tile;
        job.indices = rank;
        job.n = 1;
        for (int d = 0; d < rank; ++d) {
            job.term[d] = from[static_cast<std::size_t>(d)] + info.begin[d];
            job.extent[d] = static_cast<std::int32_t>(info.extents[d]);
            job.n *= info.extents[d];
        }
        return job;
    };
    Terms here{};
    for (int d = 0; d < rank; ++d) here[static_cast<std::size_t>(d)] = terms[static_cast<std::size_t>(d)].data();
    if (!x.on_devices())
        return x.update_tiles(
            [&](const TileInfo& info, std::span<double> tile) { divide_on_host(job_of(info, tile.data(), here)); },
            threads);
    auto& to = x.impl();
    const auto info_of = [&](std::int64_t s) { return tile_info(to.shape.grid(), to.shape.tile(s)); };
    for_each_home(
        *to.places, to.shape.tile_count(), to.one_rank(), to.placement.devices,
        [&](std::int64_t s) { divide_on_host(job_of(info_of(s), to.tile(s), here)); },
        [&](DeviceStore& store, std::span<const std::int64_t> slots) {
            std::int64_t numbers = 0;
            for (const auto& t : terms) numbers += static_cast<std::int64_t>(t.size());
            const auto room = store.allocate(8 * numbers, "terms of denominators");
            auto* at = reinterpret_cast<double*>(room.get());
            Terms there{};
            for (std::size_t d = 0; d < terms.size(); ++d) {
                store.copy_in(at, terms[d].data(), static_cast<std::int64_t>(8 * terms[d].size()));
                there[d] = at;
                at += terms[d].size();
            }
            std::vector<DivideJob> jobs;
            for (const auto s : slots)
                jobs.push_back(job_of(info_of(s), static_cast<double*>(static_cast<void*>(to.device_tile(s))), there));
            store.divide(jobs);
        });
    x.tiles_changed();
}

}  // namespace tessera
