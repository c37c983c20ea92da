#pragma once
// The occupied pairs of the doubles in localised orbitals, where those of distant ones are small.

#include "chem/orbitals.hpp"

namespace tessera::chem {

/// Foster-Boys orbitals of the correlated occupied ones, clustered by their centres into tiles. Core orbitals that are
/// correlated are localised among themselves, never mixed with the others.
class LocalPairs {
  public:
    /// About `tile` orbitals in a tile.
    LocalPairs(const Integrals& integrals, const Orbitals& orbitals, std::int64_t tile);
    /// With a rotation that is known.
    explicit LocalPairs(RealTensor rotation) : rotation_(std::move(rotation)) {}
    /// [canonical][localised], orthogonal.
    const RealTensor& rotation() const { return rotation_; }
    /// Of one localised orbital.
    const Tiling& tiling() const { return rotation_.grid().tiling(1); }
    /// x(i, j, a, b) with i and j canonical to the same with i and j localised, and back.
    RealTensor to_local(const RealTensor& x, TensorWork& work) const;
    RealTensor to_canonical(const RealTensor& x, TensorWork& work) const;

  private:
    RealTensor rotation_;
};

}  // namespace tessera::chem
