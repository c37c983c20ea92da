#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "kernels/tile_math.hpp"
#include "storage/dry_run.hpp"
#include "tensor/checksum.hpp"
#include "tensor/resident.hpp"
#include "tensor/tensor_impl.hpp"
#include "tensor/two_tensors.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera {

namespace {

/// A pass over few bytes is done before a thread wakes.
int threads_over(std::int64_t bytes) { return bytes < (std::int64_t{256} << 10) ? 1 : 0; }

/// Tiles that are in either shape, norms zero.
Shape united(const Shape& x, const Shape& y) {
    std::vector<std::int64_t> ordinals;
    ordinals.reserve(static_cast<std::size_t>(std::max(x.tile_count(), y.tile_count())));
    std::set_union(x.ordinals().begin(), x.ordinals().end(), y.ordinals().begin(), y.ordinals().end(),
                   std::back_inserter(ordinals));
    std::vector<double> norms(ordinals.size(), 0.0);
    return Shape::from_sorted(x.grid(), std::move(ordinals), std::move(norms), x.symmetry());
}

/// A factor is finite: it would leave nothing. It keeps a symmetry that conjugates only where it is real.
template <Scalar T>
void require_factor(const char* operation, const Symmetry& symmetry, T factor) {
    require(std::isfinite(std::real(factor)) && std::isfinite(std::imag(factor)),
            "{}: a factor of {} + {}i is not finite", operation, std::real(factor), std::imag(factor));
    const bool conjugates = std::ranges::any_of(symmetry.elements(), [](const auto& e) { return e.conjugate; });
    require(!conjugates || conjugate_if(factor, true) == factor,
            "{}: a factor of {} + {}i is not real, and the tensor has the symmetry '{}': desymmetrise it first",
            operation, std::real(factor), std::imag(factor), symmetry.text());
}

template <Scalar T>
void require_same_symmetry(const char* operation, const Tensor<T>& x, const Tensor<T>& y) {
    const auto &one = x.tiles().symmetry(), &other = y.tiles().symmetry();
    require(one == other, "{}: one tensor has the symmetry '{}', the other '{}': desymmetrise them first", operation,
            one.text(), other.text());
}

}  // namespace

template <Scalar T>
bool operator==(const Tensor<T>& a, const Tensor<T>& given) {
    if (!(a.grid() == given.grid()) || !(a.tiles().symmetry() == given.tiles().symmetry()) ||
        !std::ranges::equal(a.tiles().ordinals(), given.tiles().ordinals()))
        return false;
    if (a.on_devices()) return to_host(a) == given;
    if (given.on_devices()) return a == to_host(given);
    const DealtLike<T> dealt("==", given, a);
    const Tensor<T>& b = *dealt;
    const auto same_bits = [&](std::int64_t s) {
        const auto x = a.tile(s), y = b.tile(s);
        return std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
    };
    std::int64_t i = 0;
    while (i < a.impl().local_count() && same_bits(a.impl().local_slot(i))) ++i;
    std::int64_t unequal = i < a.impl().local_count() ? 1 : 0;
    a.communicator().sum(std::span(&unequal, 1));
    return unequal == 0;
}

template <Scalar T>
void scale(Tensor<T>& x, T factor) {
    require_factor("scale", x.tiles().symmetry(), factor);
    if (x.on_devices()) return resident::scale(x, factor);
    x.update_tiles([&](const TileInfo&, std::span<T> tile) {
        for (auto& e : tile) e *= factor;
    });
}

template <Scalar T>
Tensor<T> add(T alpha, const Tensor<T>& x, T beta, const Tensor<T>& given) {
    require_same_grid("add", x, given);
    require_same_symmetry("add", x, given);
    require_factor("add", x.tiles().symmetry(), alpha);
    require_factor("add", x.tiles().symmetry(), beta);
    const DealtLike<T> dealt("add", given, x);
    const Tensor<T>& y = *dealt;
    if (x.on_devices() || y.on_devices()) return resident::add(united(x.tiles(), y.tiles()), alpha, x, beta, y);
    return Tensor<T>::generate(
        united(x.shape(), y.shape()),
        [&](const TileInfo& info, std::span<T> out) {
            const auto xs = x.shape().find(info.tile), ys = y.shape().find(info.tile);
            const T *a = xs ? x.impl().tile(*xs) : nullptr, *b = ys ? y.impl().tile(*ys) : nullptr;
            for (std::size_t i = 0; i < out.size(); ++i) {
                if (a && b)
                    out[i] = alpha * a[i] + beta * b[i];
                else
                    out[i] = a ? alpha * a[i] : beta * b[i];
            }
        },
        0, x.placement());
}

template <Scalar T>
void axpy(T alpha, const Tensor<T>& given, Tensor<T>& y) {
    require_same_grid("axpy", given, y);
    require_same_symmetry("axpy", given, y);
    require_factor("axpy", y.tiles().symmetry(), alpha);
    const DealtLike<T> dealt("axpy", given, y);
    const Tensor<T>& x = *dealt;
    if (!std::ranges::includes(y.tiles().ordinals(), x.tiles().ordinals())) {
        auto sum = add(alpha, x, T(1), y);
        y = std::move(sum);
        return;
    }
    if (y.on_devices()) return resident::axpy(alpha, x, y);
    if (x.on_devices()) return axpy(alpha, to_host(x), y);
    y.update_tiles([&](const TileInfo& info, std::span<T> out) {
        const auto slot = x.shape().find(info.tile);
        if (!slot) return;
        const T* a = x.impl().tile(*slot);
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += alpha * a[i];
    });
}

namespace {

/// A stored tile's part of a dot product is that of each tile that follows from it, or its conjugate.
template <Scalar T>
T of_all_it_stands_for(const Shape& shape, std::int64_t slot, T part) {
    const auto& symmetry = shape.symmetry();
    if (symmetry.none()) return part;
    std::int64_t plain = 0, conjugated = 0;
    for (const auto& seen : symmetry.images(shape.grid(), shape.tile(slot)))
        ++(symmetry.elements()[static_cast<std::size_t>(seen.by)].conjugate ? conjugated : plain);
    return static_cast<RealOf<T>>(plain) * part + static_cast<RealOf<T>>(conjugated) * conjugate_if(part, true);
}

}  // namespace

template <Scalar T>
T dot(const Tensor<T>& x, const Tensor<T>& given) {
    require_same_grid("dot", x, given);
    require_same_symmetry("dot", x, given);
    const DealtLike<T> dealt("dot", given, x);
    const Tensor<T>& y = *dealt;
    if (DryRun::current()) return T{};
    if (x.on_devices() || y.on_devices()) return sum_of_tiles(x.communicator(), resident::dots(x, y));
    std::vector<T> partial(static_cast<std::size_t>(x.tile_count()));
    parallel_for(x.impl().local_count(), threads_over(x.tile_bytes()), 16, [&](std::int64_t i) {
        const std::int64_t s = x.impl().local_slot(i);
        if (const auto other = y.shape().find(x.shape().tile(s)))
            partial[s] = of_all_it_stands_for(x.shape(), s,
                                              tile_dot(x.impl().tile(s), y.impl().tile(*other), x.impl().elements(s)));
    });
    return sum_of_tiles(x.communicator(), std::move(partial));
}

template <Scalar T>
double norm(const Tensor<T>& x) {
    return x.shape().norm();
}

template <Scalar T>
double max_abs(const Tensor<T>& x) {
    if (x.on_devices()) return max_abs(to_host(x));
    std::vector<double> partial(static_cast<std::size_t>(x.impl().local_count()));
    parallel_for(x.impl().local_count(), threads_over(x.tile_bytes()), 16, [&](std::int64_t i) {
        const std::int64_t s = x.impl().local_slot(i);
        partial[i] = tile_max_abs(x.impl().tile(s), x.impl().elements(s));
    });
    double top = partial.empty() ? 0.0 : *std::max_element(partial.begin(), partial.end());
    x.communicator().max(std::span(&top, 1));
    return top;
}

template <Scalar T>
Tensor<T> filter(const Tensor<T>& x, double threshold) {
    require(threshold >= 0 && std::isfinite(threshold), "filter: threshold {} is not a finite number >= 0", threshold);
    std::vector<std::int64_t> kept;
    std::vector<double> norms;
    for (std::int64_t s = 0; s < x.tile_count(); ++s)
        if (x.shape().norm_of(s) >= threshold) {
            kept.push_back(x.shape().tile(s).value);
            norms.push_back(x.shape().norm_of(s));
        }
    if (x.on_devices()) return resident::part(Shape::from_sorted(x.grid(), std::move(kept), std::move(norms)), x);
    return Tensor<T>::generate(
        Shape::from_sorted(x.grid(), std::move(kept), std::move(norms), x.shape().symmetry()),
        [&](const TileInfo& info, std::span<T> out) {
            std::ranges::copy(x.tile(*x.shape().find(info.tile)), out.begin());
        },
        0, x.placement());
}

template <Scalar To, Scalar From>
Tensor<To> convert(const Tensor<From>& x) {
    if (x.on_devices()) return to_devices(convert<To>(to_host(x)), x.placement().devices, x.placement().device_memory);
    return Tensor<To>::generate(
        x.shape(),
        [&](const TileInfo& info, std::span<To> out) {
            const auto in = x.tile(*x.shape().find(info.tile));
            for (std::size_t i = 0; i < out.size(); ++i) {
                if constexpr (is_complex<From> && is_complex<To>) {
                    out[i] = To(static_cast<RealOf<To>>(in[i].real()), static_cast<RealOf<To>>(in[i].imag()));
                } else if constexpr (is_complex<From>) {
                    require(in[i].imag() == 0, "convert: tile {} has an imaginary part of {}; {} has none",
                            to_string(info.coordinates), in[i].imag(), name(ScalarTraits<To>::kind));
                    out[i] = static_cast<To>(in[i].real());
                } else {
                    out[i] = To(static_cast<RealOf<To>>(in[i]));
                }
            }
        },
        0, x.placement());
}

std::uint64_t tile_checksum(TileOrdinal tile, const void* elements, std::int64_t bytes) {
    return hash_bytes(static_cast<std::uint64_t>(tile.value), elements, bytes);
}

std::uint64_t join_checksums(ScalarKind kind, const TileGrid& grid, std::span<const std::int64_t> tiles) {
    std::uint64_t h = combine(static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(grid.rank()));
    for (const auto& t : grid.tilings())
        h = hash_bytes(h, t.offsets().data(), static_cast<std::int64_t>(t.offsets().size_bytes()));
    return hash_bytes(h, tiles.data(), static_cast<std::int64_t>(tiles.size_bytes()));
}

template <Scalar T>
std::uint64_t checksum(const Tensor<T>& x) {
    if (x.on_devices()) return checksum(to_host(x));
    std::vector<std::int64_t> partial(static_cast<std::size_t>(x.tile_count()));
    parallel_for(x.impl().local_count(), threads_over(x.tile_bytes()), 16, [&](std::int64_t i) {
        const std::int64_t s = x.impl().local_slot(i);
        const auto t = x.tile(s);
        partial[s] = std::bit_cast<std::int64_t>(
            tile_checksum(x.shape().tile(s), t.data(), static_cast<std::int64_t>(t.size_bytes())));
    });
    if (!x.impl().one_rank()) x.communicator().sum(partial);
    return join_checksums(ScalarTraits<T>::kind, x.grid(), partial);
}

#define TESSERA_INSTANTIATE(T)                                                           \
    template bool operator==(const Tensor<T>&, const Tensor<T>&);                        \
    template void scale(Tensor<T>&, T);                                                  \
    template Tensor<T> add(T, const Tensor<T>&, T, const Tensor<T>&);                    \
    template void axpy(T, const Tensor<T>&, Tensor<T>&);                                 \
    template T dot(const Tensor<T>&, const Tensor<T>&);                                  \
    template double norm(const Tensor<T>&);                                              \
    template double max_abs(const Tensor<T>&);                                           \
    template Tensor<T> filter(const Tensor<T>&, double);                                 \
    template std::uint64_t checksum(const Tensor<T>&);                                   \
    template Tensor<float> convert<float>(const Tensor<T>&);                             \
    template Tensor<double> convert<double>(const Tensor<T>&);                           \
    template Tensor<std::complex<float>> convert<std::complex<float>>(const Tensor<T>&); \
    template Tensor<std::complex<double>> convert<std::complex<double>>(const Tensor<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
