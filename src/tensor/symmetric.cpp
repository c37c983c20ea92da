#include "tessera/tensor/symmetric.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "kernels/tile_math.hpp"
#include "shape/require_whole.hpp"
#include "tensor/symmetric_tile.hpp"
#include "tensor/tensor_impl.hpp"
#include "tensor/tile_turns.hpp"
#include "tessera/shape/tile_views.hpp"

namespace tessera {

template <Scalar T>
void see(const TileView& view, const T* stored, const IndexVector& extents, T* tile) {
    const auto stored_strides = row_major_strides(view.order.apply(extents));
    IndexVector strides = stored_strides, at = IndexVector::filled(extents.size(), 0);
    for (int d = 0; d < extents.size(); ++d) strides[view.order[d]] = stored_strides[d];
    const auto factor = static_cast<RealOf<T>>(view.factor);
    if (extents.size() == 2) {
        if (strides[1] == 1 && strides[0] == extents[1] && factor == 1 && !view.conjugate) {
            std::copy_n(stored, extents.product(), tile);
            return;
        }
        for (std::int64_t i = 0; i < extents[0]; ++i)
            for (std::int64_t j = 0; j < extents[1]; ++j)
                *tile++ = factor * conjugate_if(stored[i * strides[0] + j * strides[1]], view.conjugate);
        return;
    }
    const auto elements = extents.product();
    std::int64_t from = 0;
    for (std::int64_t e = 0; e < elements; ++e) {
        tile[e] = factor * conjugate_if(stored[from], view.conjugate);
        for (int d = extents.size() - 1; d >= 0; --d) {
            from += strides[d];
            if (++at[d] < extents[d]) break;
            from -= at[d] * strides[d];
            at[d] = 0;
        }
    }
}

template <Scalar T>
void make_symmetric(const Symmetry& symmetry, const TileInfo& info, std::span<T> tile) {
    std::vector<T> sum(tile.begin(), tile.end()), seen(tile.size());
    int count = 0;
    for (const auto& e : symmetry.elements()) {
        if (!(e.order.apply(info.coordinates) == info.coordinates) || count++ == 0) continue;
        see<T>({e.order, static_cast<double>(e.sign), e.conjugate}, tile.data(), info.extents, seen.data());
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += seen[i];
    }
    if (count < 2) return;
    for (std::size_t i = 0; i < sum.size(); ++i) tile[i] = sum[i] / static_cast<RealOf<T>>(count);
}

template <Scalar T>
Tensor<T> desymmetrise(const Tensor<T>& x, int threads) {
    if (x.shape().symmetry().none()) return x;
    const auto whole = whole_shape(x.shape());
    const auto& shape = whole.shape;
    const auto& views = whole.views;
    auto out = std::make_unique<typename Tensor<T>::Impl>(shape, x.placement());
    std::vector<std::int64_t> stored(static_cast<std::size_t>(shape.tile_count()));  // slots of those that are
    for (std::int64_t s = 0, next = 0; s < shape.tile_count(); ++s)
        if (views.is_stored(static_cast<std::int32_t>(s))) stored[static_cast<std::size_t>(s)] = next++;
    const auto fill = [&](const Tensor<T>& from, int only) {
        parallel_for(out->local_count(), threads, tiles_of_a_turn<T>(*out, threads), [&](std::int64_t i) {
            const auto slot = out->local_slot(i);
            if (only >= 0 && views.view[static_cast<std::size_t>(slot)] != only) return;
            const auto place = stored[static_cast<std::size_t>(views.place(static_cast<std::int32_t>(slot)))];
            const auto extents = shape.grid().tile_extents(shape.tile(slot));
            T* tile = out->tile(slot);
            see(views[slot], from.impl().tile(place), extents, tile);
            const auto bytes = extents.product() * static_cast<std::int64_t>(sizeof(T));
            std::memset(reinterpret_cast<std::byte*>(tile) + bytes, 0,
                        static_cast<std::size_t>(align_up(bytes) - bytes));
        });
    };
    // On ranks view by view: the stored tiles move to the owners of those that are seen so in them.
    if (out->one_rank())
        fill(x, -1);
    else
        for (std::size_t v = 0; v < views.views.size(); ++v) {
            const auto there = x.distribution().permuted(views.views[v].order);
            if (there == x.distribution())
                fill(x, static_cast<int>(v));
            else
                fill(redistribute(x, there), static_cast<int>(v));
        }
    return Tensor<T>(std::move(out));
}

template <Scalar T>
Tensor<T> from_stored(Tensor<T> x, const Symmetry& symmetry) {
    const auto& old = x.shape();
    if (symmetry == old.symmetry()) return x;
    require_whole("from_stored", old);
    auto shape = Shape::from_sorted(old.grid(), {old.ordinals().begin(), old.ordinals().end()},
                                    {old.norms().begin(), old.norms().end()}, symmetry);
    x.impl().shape = std::move(shape);
    return x;
}

template <Scalar T>
Tensor<T> with_symmetry(const Tensor<T>& x, const Symmetry& symmetry, double tolerance) {
    require(tolerance >= 0 && std::isfinite(tolerance), "with_symmetry: tolerance {} is not a finite number >= 0",
            tolerance);
    if (symmetry == x.shape().symmetry()) return x;
    require_whole("with_symmetry", x.shape());
    auto stored = Tensor<T>::generate(
        x.shape().with_symmetry(symmetry),
        [&](const TileInfo& info, std::span<T> tile) {
            if (const auto slot = x.shape().find(info.tile))
                std::ranges::copy(x.tile(*slot), tile.begin());
            else
                std::ranges::fill(tile, T{});
        },
        0, x.placement());
    const auto difference = add(T(1), x, T(-1), desymmetrise(stored));
    const double most = tolerance * norm(x);
    for (std::int64_t s = 0; s < difference.tile_count(); ++s)
        if (difference.shape().norm_of(s) > most)
            user_error(
                "with_symmetry: tile {} differs from what follows from '{}' by a norm of {}, at most {} is allowed",
                to_string(x.grid().coordinates(difference.shape().tile(s))), symmetry.text(),
                difference.shape().norm_of(s), most);
    return stored;
}

#define TESSERA_INSTANTIATE(T)                                                    \
    template void see(const TileView&, const T*, const IndexVector&, T*);         \
    template void make_symmetric(const Symmetry&, const TileInfo&, std::span<T>); \
    template Tensor<T> desymmetrise(const Tensor<T>&, int);                       \
    template Tensor<T> with_symmetry(const Tensor<T>&, const Symmetry&, double);  \
    template Tensor<T> from_stored(Tensor<T>, const Symmetry&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
