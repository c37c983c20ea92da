#pragma once
// A tensor assembled block by block, on any threads of any ranks, before anyone knows which tiles are nonzero.

#include <cstdint>
#include <memory>
#include <span>

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Every rank has a builder of the same tilings and placement, and gives it blocks of any tiles, its own and others'. A
/// block is a whole tile, row-major. What one of these calls refuses leaves the builder as it was; they may come from
/// several threads at once.
template <Scalar T>
class TensorBuilder {
  public:
    /// `memory`: bytes that blocks, this rank's and those that come to it, and its part of the tensor may take
    /// together; 0: no limit. BudgetError instead of going past it.
    explicit TensorBuilder(TileGrid grid, Placement where = {}, std::int64_t memory = 0);
    TensorBuilder(TensorBuilder&&) noexcept;
    TensorBuilder& operator=(TensorBuilder&&) noexcept;
    ~TensorBuilder();

    const TileGrid& grid() const;
    const Placement& placement() const;

    /// The tile will be stored: zeros, where nothing is given to it.
    void reserve(const IndexVector& tile);
    /// Adds to the tile. The sum is made here and now: one block is held for each tile. A rank's blocks are summed in
    /// the order in which they come, the ranks' sums in the order of ranks.
    void add(const IndexVector& tile, std::span<const T> block);
    /// The same with bits that depend on the blocks and their keys alone: the blocks of a tile are held, and summed at
    /// the end by ascending key (equal keys: by their bits), after what was added without a key.
    void add(const IndexVector& tile, std::span<const T> block, std::int64_t key);
    /// The tile will be this block. UserError, here or on all ranks at the end, where something else is put or added to
    /// the tile: no order of threads and ranks decides.
    void put(const IndexVector& tile, std::span<const T> block);

    /// Bytes that the blocks of this rank take so far.
    std::int64_t held_bytes() const;

    /// Collective: sends each block to the rank of its tile, and sums. The builder is empty afterwards, ready for
    /// another tensor; on an exception, which all ranks throw, it is as it was.
    Tensor<T> finalize(int threads = 0);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
