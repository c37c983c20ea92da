#include "tessera/tensor/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "kernels/tile_math.hpp"
#include "tensor/tensor_impl.hpp"

namespace tessera {

namespace {

/// Offsets of the tiles in elements, each tile on a cache line of its own, and the end.
std::vector<std::int64_t> tile_offsets(const Shape& shape, std::int64_t element_bytes) {
    const std::int64_t unit = kTileAlignment / element_bytes;
    std::vector<std::int64_t> offsets;
    offsets.reserve(static_cast<std::size_t>(shape.tile_count()) + 1);
    std::int64_t at = 0;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        offsets.push_back(at);
        at = checked_add(at, align_up(shape.grid().tile_elements(shape.tile(s)), unit), "tensor: elements");
    }
    offsets.push_back(at);
    return offsets;
}

/// Copies between a tile (row-major, contiguous) and its place in a dense row-major array.
template <class Visit>
void for_each_row(const TileInfo& info, const IndexVector& dense_extents, Visit&& visit) {
    const int rank = dense_extents.size();
    const auto strides = row_major_strides(dense_extents);
    const std::int64_t run = rank == 0 ? 1 : info.extents[rank - 1];
    std::int64_t at = 0;
    for (int d = 0; d < rank; ++d) at += info.begin[d] * strides[d];
    IndexVector position = IndexVector::filled(rank, 0);
    for (std::int64_t in_tile = 0;;) {
        visit(at, in_tile, run);
        in_tile += run;
        int d = rank - 2;
        for (; d >= 0; --d) {
            at += strides[d];
            if (++position[d] < info.extents[d]) break;
            at -= strides[d] * info.extents[d];
            position[d] = 0;
        }
        if (d < 0) return;
    }
}

}  // namespace

std::int64_t tile_storage_bytes(const Shape& shape, std::int64_t element_bytes) {
    const std::int64_t unit = kTileAlignment / element_bytes;
    std::int64_t at = 0;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        at = checked_add(at, align_up(shape.grid().tile_elements(shape.tile(s)), unit), "tensor: elements");
    return checked_multiply(at, element_bytes, "tensor: bytes");
}

template <Scalar T>
Tensor<T>::Impl::Impl(Shape s, MemoryBudget* budget, const std::string& what)
    : shape(std::move(s)),
      offsets(tile_offsets(shape, sizeof(T))),
      buffer(checked_multiply(offsets.back(), sizeof(T), "tensor: bytes"), budget, what) {}

template <Scalar T>
void Tensor<T>::Impl::set_norms(std::vector<double> norms) {
    shape = Shape::from_sorted(shape.grid(), {shape.ordinals().begin(), shape.ordinals().end()}, std::move(norms));
}

template <Scalar T>
Tensor<T>::Tensor() : Tensor(Shape()) {}

template <Scalar T>
Tensor<T>::Tensor(Shape shape) : impl_(std::make_unique<Impl>(std::move(shape))) {
    if (impl_->buffer.bytes())
        std::memset(static_cast<void*>(impl_->buffer.data()), 0, static_cast<std::size_t>(impl_->buffer.bytes()));
    impl_->set_norms(std::vector<double>(static_cast<std::size_t>(tile_count()), 0.0));
}

template <Scalar T>
Tensor<T>::Tensor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

template <Scalar T>
Tensor<T>::Tensor(const Tensor& other) : impl_(std::make_unique<Impl>(other.shape())) {
    if (impl_->buffer.bytes())
        std::memcpy(static_cast<void*>(impl_->buffer.data()), other.impl_->buffer.data(),
                    static_cast<std::size_t>(impl_->buffer.bytes()));
}

template <Scalar T>
Tensor<T>::Tensor(Tensor&& other) noexcept = default;
template <Scalar T>
Tensor<T>& Tensor<T>::operator=(Tensor&& other) noexcept = default;
template <Scalar T>
Tensor<T>::~Tensor() = default;

template <Scalar T>
Tensor<T>& Tensor<T>::operator=(const Tensor& other) {
    if (this != &other) *this = Tensor(other);
    return *this;
}

template <Scalar T>
const Shape& Tensor<T>::shape() const {
    return impl_->shape;
}

template <Scalar T>
std::span<const T> Tensor<T>::tile(std::int64_t slot) const {
    require(slot >= 0 && slot < tile_count(), "tensor: slot {} is outside 0..{}", slot, tile_count() - 1);
    return {impl_->tile(slot), static_cast<std::size_t>(impl_->elements(slot))};
}

template <Scalar T>
std::span<const T> Tensor<T>::tile(const IndexVector& coordinates) const {
    const auto slot = shape().find(grid().ordinal(coordinates));
    return slot ? tile(*slot) : std::span<const T>();
}

template <Scalar T>
void Tensor<T>::for_each_tile(const std::function<void(const TileInfo&, std::span<const T>)>& visit) const {
    for (std::int64_t s = 0; s < tile_count(); ++s) visit(tile_info(grid(), shape().tile(s)), tile(s));
}

template <Scalar T>
void Tensor<T>::update_tiles(const std::function<void(const TileInfo&, std::span<T>)>& change, int threads) {
    std::vector<double> norms(static_cast<std::size_t>(tile_count()));
    parallel_for(tile_count(), threads, 1, [&](std::int64_t s) {
        const auto info = tile_info(grid(), shape().tile(s));
        const std::int64_t n = info.extents.product();
        std::fill(impl_->tile(s) + n, impl_->tile(s) + (impl_->offsets[s + 1] - impl_->offsets[s]), T{});
        change(info, {impl_->tile(s), static_cast<std::size_t>(n)});
        norms[s] = tile_norm(impl_->tile(s), n);
        require(std::isfinite(norms[s]), "tensor: tile {} holds NaN or infinity; its norm is needed",
                to_string(info.coordinates));
    });
    impl_->set_norms(std::move(norms));
}

template <Scalar T>
Tensor<T> Tensor<T>::generate(const Shape& shape, const TileGenerator<T>& generator, int threads) {
    Tensor t(std::make_unique<Impl>(shape));
    t.update_tiles(generator, threads);
    return t;
}

template <Scalar T>
Tensor<T> Tensor<T>::from_dense(const TileGrid& grid, std::span<const T> dense, double drop) {
    require(static_cast<std::int64_t>(dense.size()) == grid.element_total(),
            "from_dense: {} elements given, but the tilings have {}", dense.size(), grid.element_total());
    const auto extents = grid.extents();
    // Norms first, so that tiles to be dropped are never stored.
    std::vector<ShapeEntry> entries;
    std::vector<T> scratch;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
        const auto info = tile_info(grid, TileOrdinal{o});
        scratch.resize(static_cast<std::size_t>(info.extents.product()));
        for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
            std::copy_n(dense.data() + at, run, scratch.data() + in_tile);
        });
        const double n = tile_norm(scratch.data(), static_cast<std::int64_t>(scratch.size()));
        require(std::isfinite(n), "from_dense: tile {} holds NaN or infinity", to_string(info.coordinates));
        if (n > drop) entries.push_back({TileOrdinal{o}, n});
    }
    return generate(Shape(grid, std::move(entries)), [&](const TileInfo& info, std::span<T> tile) {
        for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
            std::copy_n(dense.data() + at, run, tile.data() + in_tile);
        });
    });
}

template <Scalar T>
std::vector<T> Tensor<T>::to_dense() const {
    std::vector<T> dense(static_cast<std::size_t>(grid().element_total()));
    const auto extents = grid().extents();
    for_each_tile([&](const TileInfo& info, std::span<const T> tile) {
        for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
            std::copy_n(tile.data() + in_tile, run, dense.data() + at);
        });
    });
    return dense;
}

template <Scalar T>
Tensor<T> Tensor<T>::random(const Shape& shape, std::uint64_t seed, int threads) {
    return generate(
        shape,
        [&](const TileInfo& info, std::span<T> tile) {
            const double norm = shape.norm_of(*shape.find(info.tile));
            hash_fill<T>(combine(mix64(seed), static_cast<std::uint64_t>(info.tile.value)),
                         hash_scale<T>(norm, static_cast<std::int64_t>(tile.size())), tile);
        },
        threads);
}

template <Scalar T>
std::int64_t Tensor<T>::tile_bytes() const {
    return impl_->buffer.bytes();
}

template <Scalar T>
std::int64_t Tensor<T>::metadata_bytes() const {
    return shape().metadata_bytes() + static_cast<std::int64_t>(impl_->offsets.capacity() * sizeof(std::int64_t)) +
           static_cast<std::int64_t>(sizeof(Impl) + sizeof(Tensor));
}

template class Tensor<float>;
template class Tensor<double>;
template class Tensor<std::complex<float>>;
template class Tensor<std::complex<double>>;

}  // namespace tessera
