#pragma once
// What a Tensor holds; for the executor and the file readers.

#include <vector>

#include "storage/buffer.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera {

template <Scalar T>
struct Tensor<T>::Impl {
    explicit Impl(Shape s, MemoryBudget* budget = nullptr, const std::string& what = "tensor");

    T* tile(std::int64_t slot) { return reinterpret_cast<T*>(buffer.data()) + offsets[slot]; }
    const T* tile(std::int64_t slot) const { return reinterpret_cast<const T*>(buffer.data()) + offsets[slot]; }
    std::int64_t elements(std::int64_t slot) const { return shape.grid().tile_elements(shape.tile(slot)); }
    /// New norms for the same tiles.
    void set_norms(std::vector<double> norms);

    Shape shape;
    std::vector<std::int64_t> offsets;  // of each slot, in elements, cache-line aligned
    Buffer buffer;
};

/// Bytes that the tiles of a shape take in a Tensor.
std::int64_t tile_storage_bytes(const Shape& shape, std::int64_t element_bytes);

}  // namespace tessera
