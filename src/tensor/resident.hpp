#pragma once
// Tensors whose tiles are in the memory of devices: moving them, and what algebra does there. Tiles that stay on the
// host beside them are done by the host.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tensor/tensor_impl.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera {

/// Which of the devices each tile is on, by slot; -1: the host. Empty: all on the host.
using Homes = std::vector<std::int16_t>;

/// The same tensor with its tiles there: itself where they are, else a copy in `made`.
template <Scalar T>
const Tensor<T>& at_homes(const Tensor<T>& x, const std::vector<int>& devices, const Homes& homes,
                          std::optional<Tensor<T>>& made);
/// Where the tiles of `shape` are if each is where the first of the two tensors that has it has it.
template <Scalar T>
Homes homes_like(const Shape& shape, const Tensor<T>& x, const Tensor<T>* y);

/// A tensor of these tiles there, not initialised; its norms are put off.
template <Scalar T>
Tensor<T> uninitialised(const Shape& shape, Placement where, Homes homes);

/// Calls on_host(slot) for each tile of this rank that the host has, on several threads, and on_device(store, slots)
/// once for each device that has some.
void for_each_home(const TilePlaces& places, std::int64_t tiles, bool one_rank, const std::vector<int>& devices,
                   const std::function<void(std::int64_t slot)>& on_host,
                   const std::function<void(DeviceStore& store, std::span<const std::int64_t> slots)>& on_device);

/// Norms of this rank's tiles, wherever they are, by slot; not a number where a tile is not finite.
template <Scalar T>
std::vector<double> norms_of_tiles(typename Tensor<T>::Impl& x);

// What algebra does, with the bits of the host; tensors.hpp and matrix.hpp say what. Operands are on the same ranks.
namespace resident {
template <Scalar T>
void scale(Tensor<T>& x, T factor);
/// Of these tiles: alpha x + beta y.
template <Scalar T>
Tensor<T> add(const Shape& shape, T alpha, const Tensor<T>& x, T beta, const Tensor<T>& y);
/// y has all tiles of x.
template <Scalar T>
void axpy(T alpha, const Tensor<T>& x, Tensor<T>& y);
/// Of each tile of x.
template <Scalar T>
std::vector<T> dots(const Tensor<T>& x, const Tensor<T>& y);
/// Of these tiles, which both have: element by element.
template <Scalar T>
Tensor<T> multiply(const Shape& shape, const Tensor<T>& x, const Tensor<T>& y);
/// Those tiles of x, where they are.
template <Scalar T>
Tensor<T> part(const Shape& shape, const Tensor<T>& x);
}  // namespace resident

/// Each element becomes itself divided by terms[0][p] + terms[1][q] + ... where it is x[p][q]..., wherever its tile is.
TESSERA_API void divide_by_sums(Tensor<double>& x, std::span<const std::vector<double>> terms, int threads = 0);

template <Scalar T>
void update_by_way_of_host(Tensor<T>& x, const std::function<void(const TileInfo&, std::span<T>)>& change, int threads);

}  // namespace tessera
