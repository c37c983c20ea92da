#pragma once
// Two indices with i >= j as one: the compound index of symmetric pairs of basis functions and of orbitals.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tessera/tensor/generated_tensor.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::chem {

/// Place of the pair (i, j) in its tile, i >= j where the tile is diagonal.
inline std::int64_t pair_place(bool diagonal, std::int64_t columns, std::int64_t i, std::int64_t j) {
    return diagonal ? i * (i + 1) / 2 + j : i * columns + j;
}

/// A tile of pairs for each pair of tiles I >= J of one index: all of i, j where they differ, i >= j where I = J.
/// Within a tile i runs slowest.
class PairIndex {
  public:
    explicit PairIndex(Tiling single);
    const Tiling& single() const { return single_; }
    const Tiling& pairs() const { return pairs_; }
    /// Of two tiles in either order.
    std::int64_t tile_of(std::int64_t i, std::int64_t j) const {
        const auto high = std::max(i, j);
        return high * (high + 1) / 2 + std::min(i, j);
    }
    std::int64_t tile_i(std::int64_t pair_tile) const { return tile_i_[pair_tile]; }
    std::int64_t tile_j(std::int64_t pair_tile) const { return pair_tile - tile_of(tile_i_[pair_tile], 0); }
    std::int64_t size(std::int64_t tile) const { return single_.size(TileIndex{tile}); }
    std::int64_t begin(std::int64_t tile) const { return single_.begin(TileIndex{tile}).value; }

    /// Calls visit(i, j, place) for the pairs of a tile: i and j from the beginning of their tiles.
    template <class Visit>
    void for_each(std::int64_t pair_tile, Visit&& visit) const {
        const auto ti = tile_i(pair_tile), tj = tile_j(pair_tile);
        std::int64_t place = 0;
        for (std::int64_t i = 0; i < size(ti); ++i)
            for (std::int64_t j = 0; j < (ti == tj ? i + 1 : size(tj)); ++j) visit(i, j, place++);
    }

    /// At i n + j: where the pair of elements i, j (in either order) stands among all pairs.
    std::vector<std::int64_t> positions() const;

  private:
    Tiling single_, pairs_;
    std::vector<std::int64_t> tile_i_;
};

/// The numbers (ab|cd) of four tiles in any order, where a tile of pairs of pairs has them.
class PairView {
  public:
    /// values: the tile (ab|cd), or (cd|ab) where `turned`; empty where it is zero.
    PairView(const PairIndex& pairs, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d,
             std::span<const double> values, bool turned);
    /// (ab|cd) is left(a, b)[right_row(c)[d]] and right(c, d)[left_row(a)[b]].
    const double* left(std::int64_t a, std::int64_t b) const { return values_ + left_[a * width_b_ + b]; }
    const std::int64_t* left_row(std::int64_t a) const { return left_.data() + a * width_b_; }
    const double* right(std::int64_t c, std::int64_t d) const { return values_ + right_[c * width_d_ + d]; }
    const std::int64_t* right_row(std::int64_t c) const { return right_.data() + c * width_d_; }

  private:
    std::int64_t width_b_, width_d_;
    const double* values_;
    std::vector<std::int64_t> left_, right_;
};

/// x(..., p) in parts, each with a run of the tiles of p: what is made block by block and then needed as a whole.
class PairParts {
  public:
    explicit PairParts(PairIndex pairs) : pairs_(std::move(pairs)) {}
    const PairIndex& pairs() const { return pairs_; }
    /// The next tiles of p, with the other indices as in the parts before.
    void add(Tensor<double> part);
    void clear();
    const Tensor<double>& part(std::size_t n) const { return parts_.at(n); }
    /// x(r, ..., p) for tiles of the other indices and of p; empty where it is zero.
    std::span<const double> tile(IndexVector rest, std::int64_t pair_tile) const;
    /// x(..., i, j), made on demand, equal to x(..., j, i); of the first index the tiles first to last (excluded) only.
    /// This must outlive it.
    GeneratedTensor<double> unpacked() const;
    GeneratedTensor<double> unpacked(std::int64_t first, std::int64_t last) const;

  private:
    PairIndex pairs_;
    std::vector<Tensor<double>> parts_;
    std::vector<std::int64_t> part_of_, first_of_;  // of each tile of p: its part; of each part: its first tile
};

/// x(i, j, p) with x(j, i, p) = x(i, j, p), tiles I >= J, as x(q, p).
Tensor<double> pack_first(const Tensor<double>& x, const PairIndex& pairs, int threads);
/// The tiles I >= J of a grid (i, j, p).
Shape lower_tiles(const TileGrid& grid);

/// x(i, j, a, b) with x(j, i, b, a) = x(i, j, a, b): its pairs i >= j as x(p, a, b), and back.
Tensor<double> pack_pairs(const Tensor<double>& x, const PairIndex& pairs);
Tensor<double> unpack_pairs(const Tensor<double>& x, const PairIndex& pairs);

}  // namespace tessera::chem
