#pragma once
// The product of the doubles with integrals over four virtual orbitals, the steepest term of CCSD, in two ways.

#include <memory>

#include "chem/orbitals.hpp"

namespace tessera::chem {

class AbcdTerm {
  public:
    virtual ~AbcdTerm() = default;
    /// sum over c, d of tau(i,j,c,d) (ac|bd), with t1 where `dressed()`.
    virtual RealTensor apply(const RealTensor& tau, const RealTensor& t1, TensorWork& work) = 0;
    /// True where a and b are dressed with t1, that is, stand for a - sum over k of t1(k,a) k.
    virtual bool dressed() const = 0;
};

/// With the integrals of transform(..., four_virtuals); refers to them.
std::unique_ptr<AbcdTerm> stored_abcd(const RealTensor& vvvv, const Tiling& occupied);

}  // namespace tessera::chem
