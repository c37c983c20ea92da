#pragma once
// Tiles on their way between ranks, in batches that fit a small buffer.

#include <functional>

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Elements of the tiles [first, last), back to back in canonical order.
template <Scalar T>
using BatchVisit = std::function<void(std::int64_t first, std::int64_t last, std::span<const T> elements)>;
template <Scalar T>
using BatchFill = std::function<void(std::int64_t first, std::int64_t last, std::span<T> elements)>;

/// What the buffers of a stream hold at most, unless one tile is larger. There are two: one in use, one under way.
inline constexpr std::int64_t kBatchBytes = std::int64_t{16} << 20;

/// Collective. All tiles pass the root, batch by batch in canonical order: visit is called there with the elements, and
/// on the other ranks with none.
template <Scalar T>
TESSERA_API void stream_to_root(const Tensor<T>& x, int root, const BatchVisit<T>& visit,
                                std::int64_t batch_bytes = kBatchBytes);

/// Collective. Fill is called on the root for each batch of tiles, which then go to their owners. The norms of x are
/// left as they are.
template <Scalar T>
TESSERA_API void stream_from_root(Tensor<T>& x, int root, const BatchFill<T>& fill,
                                  std::int64_t batch_bytes = kBatchBytes);

/// The root's shape on every rank.
Shape broadcast(Communicator& ranks, const Shape& shape, int root);

}  // namespace tessera
