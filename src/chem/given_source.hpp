#pragma once
// Integrals of others for the equations of CCSD.

#include "chem/integral_source.hpp"
#include "tessera/chem/coupled_cluster.hpp"

namespace tessera::chem {

/// A dense tensor with the elements of a view.
RealTensor to_tensor(const ArrayView<const double>& x, const TileGrid& grid, int threads);
/// The elements of a dense tensor into a view of its extents.
void to_view(const RealTensor& x, const ArrayView<double>& out, int threads);

/// All but those over four virtual orbitals.
MoIntegrals read_integrals(const OrbitalIntegrals& from, const Tiling& occupied, const Tiling& virtuals, int threads);

/// The product with integrals over four virtual orbitals that are read when they are needed, or once.
std::unique_ptr<AbcdTerm> given_abcd(const OrbitalIntegrals& from, const Tiling& occupied, const Tiling& virtuals,
                                     TensorWork& work);

/// What a Fock matrix has besides the orbital energies on its diagonal, and the Fock matrix that CCSD dresses with it.
struct FockRest {
    RealTensor oo, ov, vv;
};
class GivenSource final : public IntegralSource {
  public:
    /// Refers to all three.
    GivenSource(const MoIntegrals& integrals, AbcdTerm* abcd, const FockRest& rest)
        : stored_(integrals, abcd), rest_(rest) {}
    std::shared_ptr<const RealTensor> exchange(TensorWork& w) const override { return stored_.exchange(w); }
    std::shared_ptr<const RealTensor> exchange_summed(TensorWork& w) const override {
        return stored_.exchange_summed(w);
    }
    double exchange_with(const RealTensor& x, TensorWork& w) const override { return stored_.exchange_with(x, w); }
    DressedFock dress(const RealTensor& t1, TensorWork& w) override;
    DressedSums sums(const RealTensor& u, TensorWork& w) const override { return stored_.sums(u, w); }
    RealTensor ki_ac(TensorWork& w) const override { return stored_.ki_ac(w); }
    RealTensor ai_kc(TensorWork& w) const override { return stored_.ai_kc(w); }
    void add_ladders(const Amplitudes& t, RealTensor& x, TensorWork& w) const override { stored_.add_ladders(t, x, w); }

  private:
    StoredSource stored_;
    const FockRest& rest_;
};

}  // namespace tessera::chem
