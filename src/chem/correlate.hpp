#pragma once
// Steps that the calculations of closed shells, of open ones and over integrals of a file have in common.

#include <functional>
#include <string>

#include "chem/triples_energy.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

CcsdOptions ccsd_options(const EnergyOptions& options);
/// electrons: those that are correlated, which the T1 diagnostic counts.
void take_ccsd(const CcsdResult& found, std::int64_t electrons, EnergyResult& result);
/// Tells `log` of (T) and how far it is, and puts what it found into the result. Returns why no device was used, if one
/// was asked for.
std::string take_triples(const std::function<void(const std::string&)>& log,
                         const std::function<TriplesResult(const TriplesProgress&)>& run, EnergyResult& result);
/// Tells `log` which virtual orbitals are left.
void tell_kept(const NaturalOrbitals& fno, bool spins, const std::function<void(const std::string&)>& log);

}  // namespace tessera::chem
