#pragma once
// The product of the doubles with integrals over four virtual orbitals, the steepest term of CCSD, in two ways. In both
// the pairs i, j are rotated to localised orbitals for it, and back.

#include <memory>

#include "chem/dense_array.hpp"
#include "chem/local_pairs.hpp"

namespace tessera::chem {

class AbcdTerm {
  public:
    virtual ~AbcdTerm() = default;
    /// sum over c, d of tau(i,j,c,d) (ac|bd), with t1 where `dressed()`.
    virtual RealTensor apply(const RealTensor& tau, const RealTensor& t1, TensorWork& work) = 0;
    /// True where a and b are dressed with t1, that is, stand for a - sum over k of t1(k,a) k.
    virtual bool dressed() const = 0;
};

/// tau and the integrals are parted into what is even and what is odd under the exchange of c and d: each part needs
/// the pairs i >= j, c >= d, a >= b only, half of the products in all.
class EvenOdd {
  public:
    /// Tiles of i, j and of a, b, c, d in tensors of four indices.
    EvenOdd(const Tiling& occupied, const Tiling& virtuals);
    const PairIndex& pairs() const { return pairs_; }
    /// (tau(ij,cd) + sign tau(ij,dc)) / 2 as [ij][cd], and half of it again where c = d: such a pair stands for one
    /// term, not two.
    RealTensor part(const DenseArray& tau, const PairIndex& cd, double sign, int threads) const;
    /// x(ij,ab) = even + odd, x(ij,ba) = even - odd, x(ji,ba) = x(ij,ab); from arrays [ij][ab].
    RealTensor join(const double* even, const double* odd, const PairIndex& ab, int threads) const;

  private:
    TileGrid grid_;
    PairIndex pairs_;
};

/// With the integrals of transform(..., ccsd_four_virtuals); refers to them.
std::unique_ptr<AbcdTerm> stored_abcd(const FourVirtuals& vvvv, LocalPairs local, const Tiling& virtuals);

constexpr std::int64_t kPairsInTile = 8;  // localised orbitals in a tile of DirectAbcd

/// From integrals over basis functions, made tile by tile when they are needed and never stored.
class DirectAbcd final : public AbcdTerm {
  public:
    /// Tiles whose Schwarz bound per element is below `screen` are skipped.
    DirectAbcd(const Integrals& integrals, const AoTiling& tiling, const Orbitals& orbitals, double screen,
               std::int64_t tile);
    /// For a DryRun: no tile is skipped, none is made.
    DirectAbcd(const AoTiling& tiling, const Orbitals& orbitals, LocalPairs local);
    RealTensor apply(const RealTensor& tau, const RealTensor& t1, TensorWork& work) override;
    bool dressed() const override { return true; }

    /// From here on apply() is the sum over the tiles that were skipped so far, and no others.
    void take_skipped();
    std::int64_t tiles() const { return tiles_; }
    /// In the last apply().
    std::int64_t tiles_made() const { return tiles_made_; }

  private:
    void prepare(const Orbitals& orbitals);
    void choose_tiles(bool skipped);
    void make_tile(const TileInfo& info, std::span<double> out);

    const Integrals* integrals_ = nullptr;
    const AoTiling& tiling_;
    std::unique_ptr<EnginePool<Integrals>> engines_;
    Matrix bounds_;  // of the norm of the block of pairs of two tiles
    LocalPairs local_;
    RealTensor occupied_, virtuals_;  // canonical, in the tiles of the integrals
    std::unique_ptr<PairIndex> pairs_;
    double screen_ = 0;
    GeneratedTensor<double> integrals_tensor_;  // [l][s][m][n] = (ml|ns), tiles (L,M) >= (S,N)
    std::int64_t tiles_ = 0, tiles_made_ = 0;
};

}  // namespace tessera::chem
