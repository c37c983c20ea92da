#pragma once
// What a Tensor holds; for the executor and the file readers.

#include <memory>
#include <vector>

#include "storage/buffer.hpp"
#include "storage/tile_source.hpp"
#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Where the tiles of a shape lie in the memory of a rank.
struct TilePlaces {
    std::vector<std::int64_t>
        offsets;                      // of each slot, in elements, cache-line aligned; -1: another rank's; and the end
    std::vector<std::int64_t> local;  // this rank's slots; empty with one rank, whose slots are all of them
    std::int64_t bytes() const {
        return static_cast<std::int64_t>((offsets.capacity() + local.capacity()) * sizeof(std::int64_t));
    }
};
template <Scalar T>
TESSERA_API std::shared_ptr<const TilePlaces> tile_places(const Shape& shape, const Placement& where);

template <Scalar T>
struct Tensor<T>::Impl {
    explicit Impl(Shape s, MemoryBudget* budget = nullptr, const std::string& what = "tensor");
    Impl(Shape s, Placement where, MemoryBudget* budget = nullptr, const std::string& what = "tensor");
    /// places: those of such a tensor, found before.
    Impl(Shape s, Placement where, std::shared_ptr<const TilePlaces> places, MemoryBudget* budget = nullptr,
         const std::string& what = "tensor");

    /// Of a tile stored here.
    T* tile(std::int64_t slot) { return reinterpret_cast<T*>(buffer.data()) + places->offsets[slot]; }
    const T* tile(std::int64_t slot) const { return reinterpret_cast<const T*>(buffer.data()) + places->offsets[slot]; }
    StoredTiles<T> tiles() const {
        return {reinterpret_cast<const T*>(buffer.data()), places->offsets.data(), nullptr};
    }
    bool is_local(std::int64_t slot) const { return places->offsets[slot] >= 0; }
    std::int64_t elements(std::int64_t slot) const { return shape.grid().tile_elements(shape.tile(slot)); }
    int owner(std::int64_t slot) const {
        return one_rank() ? 0 : placement.distribution.owner(shape.grid(), shape.tile(slot));
    }
    bool one_rank() const { return placement.communicator->size() == 1; }
    /// Norms of this rank's tiles, zeros for the others: becomes everyone's norms on every rank.
    void set_norms(std::vector<double> norms);
    /// Zeros between the tiles.
    void clear_padding();
    /// One number per slot, zeros for remote tiles: becomes everyone's on every rank.
    void collect(std::span<double> per_slot) const {
        if (!one_rank()) placement.communicator->sum(per_slot);
    }

    Shape shape;
    Placement placement;
    std::shared_ptr<const TilePlaces> places;
    Buffer buffer;

    std::int64_t local_count() const {
        return one_rank() ? shape.tile_count() : static_cast<std::int64_t>(places->local.size());
    }
    std::int64_t local_slot(std::int64_t i) const { return one_rank() ? i : places->local[i]; }
};

/// Bytes that the tiles of a shape take in a Tensor.
std::int64_t tile_storage_bytes(const Shape& shape, std::int64_t element_bytes);
/// Likewise, those of one rank.
std::int64_t tile_storage_bytes(const Shape& shape, std::int64_t element_bytes, const Distribution& distribution,
                                int rank);

}  // namespace tessera
