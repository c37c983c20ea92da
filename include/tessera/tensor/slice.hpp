#pragma once
// The same elements in other tiles, and parts of a tensor. All of these are collective.

#include <cstdint>
#include <optional>
#include <span>

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Elements lo, lo + 1, ... hi - 1 of an index.
struct ElementRange {
    std::int64_t lo = 0, hi = 0;
    bool operator==(const ElementRange&) const = default;
};

/// The same elements in tiles of another grid with the same extents; nonzero are its tiles that meet one of x's. Dealt
/// as told; else as x is, where that can be, or evenly.
template <Scalar T>
TESSERA_API Tensor<T> retile(const Tensor<T>& x, const TileGrid& grid, std::optional<Distribution> where = {});

/// The part of x within a range of each index, as a tensor of its own: tiles are cut where a range cuts them, and each
/// stays with its rank.
template <Scalar T>
TESSERA_API Tensor<T> slice(const Tensor<T>& x, std::span<const ElementRange> ranges);
template <Scalar T>
TESSERA_API Tensor<T> slice(const Tensor<T>& x, std::initializer_list<ElementRange> ranges) {
    return slice(x, std::span<const ElementRange>(ranges.begin(), ranges.size()));
}

/// Makes y the part of x within the ranges, zeros of y included. Y has the ranges' extents, in tiles of any sizes, and
/// is on x's ranks, dealt in any way. On an exception x is as it was.
template <Scalar T>
TESSERA_API void assign_slice(Tensor<T>& x, std::span<const ElementRange> ranges, const Tensor<T>& y);
template <Scalar T>
TESSERA_API void assign_slice(Tensor<T>& x, std::initializer_list<ElementRange> ranges, const Tensor<T>& y) {
    assign_slice(x, std::span<const ElementRange>(ranges.begin(), ranges.size()), y);
}

}  // namespace tessera
