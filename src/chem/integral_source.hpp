#pragma once
// What the equations of CCSD ask of integrals, so that they are written once for all kinds of them.

#include <memory>

#include "chem/abcd.hpp"
#include "chem/fitting.hpp"
#include "chem/fock.hpp"
#include "chem/orbitals.hpp"

namespace tessera::chem {

struct Amplitudes {
    RealTensor t1;  // [i][a]
    RealTensor t2;  // [i][j][a][b]
};
void scale(Amplitudes& x, double factor);
void axpy(double factor, const Amplitudes& x, Amplitudes& y);

/// 2 x[i][j][a][b] - x[i][j][b][a]
RealTensor spin_summed(const RealTensor& x, TensorWork& work);
/// t2 + t1 t1
RealTensor make_tau(const Amplitudes& t, TensorWork& work);

/// g(pq) = [2 (pq|lc) - (pc|lq)] t(l,c), of which CCSD makes its Fock matrix; ia stands for (ai).
struct DressedFock {
    RealTensor kc, kj, bc, ia;
};
/// Sums over integrals with u(kl,cd) = 2 t2(kl,cd) - t2(kl,dc).
struct DressedSums {
    RealTensor kj, bc;  // G(kj) = u(lj,cd) (lc|kd), G(bc) = u(kl,bd) (kc|ld)
    RealTensor ia;      // u(ki,cd) (kc|ad) - u(kl,ac) (ki|lc)
};

/// Integrals (pq|rs) over orbitals dressed with t1, a - t(k,a) k to the left and i + t(i,c) c to the right: (ki|ac) has
/// both at once. (kc|ld) stays what it is.
class IntegralSource {
  public:
    virtual ~IntegralSource() = default;
    /// (ia|jb) as [i][j][a][b]; lives while the pointer and this do.
    virtual std::shared_ptr<const RealTensor> exchange(TensorWork& work) const = 0;
    /// 2 (ia|jb) - (ib|ja) as [i][j][a][b]; likewise.
    virtual std::shared_ptr<const RealTensor> exchange_summed(TensorWork& work) const = 0;
    /// The sum of (ia|jb) x(ij,ab).
    virtual double exchange_with(const RealTensor& x, TensorWork& work) const = 0;

    /// What follows is dressed with these singles; returns their g.
    virtual DressedFock dress(const RealTensor& t1, TensorWork& work) = 0;
    virtual DressedSums sums(const RealTensor& u, TensorWork& work) const = 0;
    /// (ki|ac) and (ai|kc), both as [i][k][a][c]
    virtual RealTensor ki_ac(TensorWork& work) const = 0;
    virtual RealTensor ai_kc(TensorWork& work) const = 0;
    /// x(ij,ab) += what with x(ji,ba) adds up to (ai|bj) + (ac|bd) t2(ij,cd) + W(kl,ij) t2(kl,ab), with
    /// W(kl,ij) = (ki|lj) + (kc|ld) t2(ij,cd).
    virtual void add_ladders(const Amplitudes& t, RealTensor& x, TensorWork& work) const = 0;
};

/// With stored integrals; refers to them.
class StoredSource final : public IntegralSource {
  public:
    /// abcd: none where only exchange integrals are asked for.
    StoredSource(const MoIntegrals& integrals, AbcdTerm* abcd) : v_(integrals), abcd_(abcd) {}
    std::shared_ptr<const RealTensor> exchange(TensorWork&) const override {
        return {std::shared_ptr<const RealTensor>(), &v_.oovv};  // owned by others
    }
    std::shared_ptr<const RealTensor> exchange_summed(TensorWork& work) const override {
        return std::make_shared<const RealTensor>(spin_summed(v_.oovv, work));
    }
    double exchange_with(const RealTensor& x, TensorWork&) const override { return dot(v_.oovv, x); }
    DressedFock dress(const RealTensor& t1, TensorWork& work) override;
    DressedSums sums(const RealTensor& u, TensorWork& work) const override;
    RealTensor ki_ac(TensorWork& work) const override;
    RealTensor ai_kc(TensorWork& work) const override;
    void add_ladders(const Amplitudes& t, RealTensor& x, TensorWork& work) const override;

  private:
    const MoIntegrals& v_;
    AbcdTerm* abcd_;
    RealTensor t1_, ooov_;  // (ki|lc), dressed
};

/// With B(Q|pq), dressed; what has four indices is made where it is used. `field` makes the Fock matrix (none: only
/// exchange integrals are asked for). B may live on a device, with the amplitudes; orbitals and field are on the host.
class FittedSource final : public IntegralSource {
  public:
    /// by_tiles: (ac|bd) meets the doubles as it does on a device, with its bits.
    FittedSource(const FittedOrbitals& b, const Orbitals& orbitals, FittedField* field, bool by_tiles = false)
        : b_(b), orbitals_(orbitals), field_(field), by_tiles_(by_tiles) {}
    std::shared_ptr<const RealTensor> exchange(TensorWork& work) const override;
    std::shared_ptr<const RealTensor> exchange_summed(TensorWork& work) const override;
    double exchange_with(const RealTensor& x, TensorWork& work) const override;
    DressedFock dress(const RealTensor& t1, TensorWork& work) override;
    DressedSums sums(const RealTensor& u, TensorWork& work) const override;
    RealTensor ki_ac(TensorWork& work) const override;
    RealTensor ai_kc(TensorWork& work) const override;
    void add_ladders(const Amplitudes& t, RealTensor& x, TensorWork& work) const override;

  private:
    const FittedOrbitals& b_;
    const Orbitals& orbitals_;
    FittedField* field_;
    bool by_tiles_;
    // Where B lives on a device, which has the room: made once.
    mutable std::shared_ptr<const RealTensor> exchange_, exchange_summed_;
    RealTensor ki_, ai_, ac_;  // dressed B as [Q][k][i], [Q][i][a], [Q][a][c]
};

}  // namespace tessera::chem
