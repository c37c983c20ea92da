#pragma once
// What a Tensor holds; for the executor and the file readers.

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/check.hpp"
#include "device/store.hpp"
#include "storage/buffer.hpp"
#include "storage/tile_source.hpp"
#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Where the tiles of a shape lie in the memory of a rank: its host's, or that of a device.
struct TilePlaces {
    /// Of each slot in the memory it is in, in elements, cache-line aligned; -1: another rank's. And the host's end.
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> local;  // this rank's slots; empty with one rank, whose slots are all of them
    std::vector<std::int16_t> homes;  // of each slot: which of the placement's devices, -1: the host; empty: all there
    std::vector<std::int64_t> device_ends;  // of each device
    std::int64_t bytes() const {
        return static_cast<std::int64_t>((offsets.capacity() + local.capacity()) * sizeof(std::int64_t) +
                                         homes.capacity() * sizeof(std::int16_t));
    }
    int home(std::int64_t slot) const { return homes.empty() ? -1 : homes[static_cast<std::size_t>(slot)]; }
};
template <Scalar T>
TESSERA_API std::shared_ptr<const TilePlaces> tile_places(const Shape& shape, const Placement& where);
/// With the device of each tile given; empty: as the placement says.
template <Scalar T>
TESSERA_API std::shared_ptr<const TilePlaces> tile_places(const Shape& shape, const Placement& where,
                                                          std::vector<std::int16_t> homes);

template <Scalar T>
struct Tensor<T>::Impl {
    explicit Impl(Shape s, MemoryBudget* budget = nullptr, const std::string& what = "tensor");
    Impl(Shape s, Placement where, MemoryBudget* budget = nullptr, const std::string& what = "tensor");
    /// places: those of such a tensor, found before.
    Impl(Shape s, Placement where, std::shared_ptr<const TilePlaces> places, MemoryBudget* budget = nullptr,
         const std::string& what = "tensor");

    /// Of a tile stored on this host.
    T* tile(std::int64_t slot) {
        if (home(slot) >= 0) refuse(slot);
        return reinterpret_cast<T*>(buffer.data()) + places->offsets[slot];
    }
    const T* tile(std::int64_t slot) const { return const_cast<Impl*>(this)->tile(slot); }
    /// Those on the host.
    StoredTiles<T> tiles() const {
        return {reinterpret_cast<const T*>(buffer.data()), places->offsets.data(), nullptr};
    }
    [[noreturn]] void refuse(std::int64_t slot) const;

    bool resident() const { return !placement.devices.empty(); }
    /// Which of the placement's devices has the tile; -1: the host.
    int home(std::int64_t slot) const { return places->home(slot); }
    T* device_tile(std::int64_t slot) const {
        return reinterpret_cast<T*>(device[static_cast<std::size_t>(home(slot))].get()) + places->offsets[slot];
    }
    /// The tile's memory, wherever it is.
    T* anywhere(std::int64_t slot) { return home(slot) >= 0 ? device_tile(slot) : tile(slot); }
    DeviceStore& store(int home) const { return device_store(placement.devices[static_cast<std::size_t>(home)]); }
    /// Takes norms that were put off. A tile that is not finite is a UserError; it stays as it is.
    void settle();
    void put_off_norms() { pending = true; }
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
    std::vector<DeviceStore::Memory> device;  // of each of the placement's devices
    std::atomic<bool> pending{false};         // norms are not known yet
    std::mutex settling;

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
