#pragma once
// Density fitting: (pq|rs) as the sum over Q of B(Q|pq) B(Q|rs), B = L^-1 (P|pq) with (P|Q) = L L^T.

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "chem/ao_integrals.hpp"
#include "chem/tensor_work.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera::chem {

constexpr std::int64_t kFittingBlock = 32 << 20;  // bytes of (P|mn) that are made at a time

/// One auxiliary basis with the basis of a molecule.
class Fitting {
  public:
    /// UserError where the auxiliary functions depend on each other.
    Fitting(const Integrals& integrals, const AoTiling& functions, Basis auxiliary, int threads);
    /// For a DryRun: nothing is made.
    Fitting(const AoTiling& functions, const Basis& auxiliary);
    ~Fitting();

    const PairIndex& pairs() const { return pairs_; }
    const Tiling& auxiliary() const { return auxiliary_.functions; }
    /// For runs of tiles P: use(columns P of L^-1 as [Q][P], (P|m n) as [P][p] over pairs of functions). The sum of
    /// their products is B.
    void in_blocks(const std::function<void(const RealTensor& inverse, RealTensor raw)>& use, int threads) const;
    /// Likewise, of L^-1 only these runs of tiles Q, a tensor each. Ranks, where they are given, make a share of the
    /// integrals each and all get them: a collective call then.
    using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;
    void in_blocks(const Runs& rows,
                   const std::function<void(std::span<const RealTensor> inverse, RealTensor raw)>& use, int threads,
                   Communicator* ranks = nullptr) const;

  private:
    /// Tiles Q and tiles P of L^-1, from the first to the last (excluded).
    RealTensor inverse(std::pair<std::int64_t, std::int64_t> q, std::pair<std::int64_t, std::int64_t> p,
                       int threads) const;
    AoTiling functions_, auxiliary_;
    PairIndex pairs_;
    std::unique_ptr<FittingIntegrals> integrals_;  // none in a dry run
    Matrix inverse_;                               // L^-1
};

struct Orbitals;
enum class Transform;

/// B over orbitals.
struct FittedOrbitals {
    RealTensor oo, ov, vv;  // [Q][i][j], [Q][i][a], [Q][a][b]
};
/// In the memory of a device.
FittedOrbitals to_device(const FittedOrbitals& b, int device);
/// With Transform::mp2 only ov.
FittedOrbitals transform(const Fitting& fitting, const Orbitals& orbitals, Transform what, TensorWork& work);
/// x[Q][a][c] of the a from `first`, as many as the tiling has, in tiles of that tiling.
RealTensor rows_of(const RealTensor& x, std::int64_t first, const Tiling& rows, int threads);
/// x[Q][k][c] of the c from `first`, likewise.
RealTensor columns_of(const RealTensor& x, std::int64_t first, const Tiling& columns, int threads);

}  // namespace tessera::chem
