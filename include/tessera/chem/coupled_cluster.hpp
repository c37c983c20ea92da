#pragma once
// CCSD and (T) of a closed shell over integrals that the caller has: those of another program, or of a model.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tessera/base/api.hpp"
#include "tessera/contract/resources.hpp"
#include "tessera/tensor/array.hpp"

namespace TESSERA_API tessera {
namespace chem {

/// Real integrals (pq|rs) in chemists' notation over orthonormal orbitals: i, j, k, l occupied, a, b, c, d virtual. A
/// pair b >= c stands at b (b + 1) / 2 + c. What is a function fills `out` for `count` orbitals from `first`; it is
/// called by the thread that called in, and may read a file or make the numbers there and then.
struct OrbitalIntegrals {
    using Rows = std::function<void(std::int64_t first, std::int64_t count, std::span<double> out)>;
    ArrayView<const double> oooo;  // (ij|kl)
    ArrayView<const double> ooov;  // (ij|ka)
    ArrayView<const double> oovv;  // (ij|ab)
    ArrayView<const double> ovov;  // (ia|jb)
    Rows ovvv;                     // (ia|bc) as [i][a][bc], of some i
    /// Of the integrals over four virtual orbitals one of these; none where only (T) is asked for.
    ArrayView<const double> vvvv_pairs;  // (ac|bd) over pairs, as [ac][bd]; it must outlive CoupledCluster
    Rows vvvv;                           // (ac|bd) as [a][c][bd], of some a
    /// Where vvvv is over functions in place of virtual orbitals: their coefficients, functions x virtuals.
    ArrayView<const double> functions;
    /// Whether they are read once and held in a form that is fast (half the fourth power of the virtual orbitals, in
    /// doubles), or read anew in each iteration.
    bool keep_vvvv = true;
};

/// The equations over such integrals. Amplitudes are arrays t1[i][a] and t2[i][j][a][b] = t2[j][i][b][a].
class CoupledCluster {
  public:
    /// Reads all integrals but vvvv. fock: over all orbitals, occupied ones first; it need not be diagonal. UserError
    /// where extents do not agree. tile: about this many orbitals in a tile.
    CoupledCluster(OrbitalIntegrals integrals, const ArrayView<const double>& fock, const Resources& here = {},
                   std::int64_t tile = 32);
    ~CoupledCluster();
    CoupledCluster(CoupledCluster&&) noexcept;

    /// What residuals are divided by, and the denominators of (T): orbital energies, occupied ones first. Without this,
    /// the diagonal of the Fock matrix.
    void set_energies(std::span<const double> energies);

    /// The amplitudes of one iteration more: the residual divided by differences of energies, added to t.
    void next(const ArrayView<const double>& t1, const ArrayView<const double>& t2, const ArrayView<double>& next1,
              const ArrayView<double>& next2);
    /// The correlation energy of these amplitudes.
    double energy(const ArrayView<const double>& t1, const ArrayView<const double>& t2);
    /// What (T) adds. Elements of the Fock matrix between occupied orbitals, and between virtual ones, are not in it.
    /// progress (may be empty) hears how much of the work is done, and may throw to end it.
    double triples(const ArrayView<const double>& t1, const ArrayView<const double>& t2,
                   const std::function<void(double done, double total)>& progress = {});

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace chem
}  // namespace tessera
