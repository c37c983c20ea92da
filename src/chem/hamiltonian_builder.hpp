#pragma once
// Integrals of a file, one after the other in any order, into a Hamiltonian.

#include <optional>
#include <string>
#include <vector>

#include "tessera/chem/hamiltonian.hpp"

namespace tessera::chem {

class HamiltonianBuilder {
  public:
    /// UserError unless it is a closed shell of so many orbitals, with `said` ("NELEC=") before the electrons;
    /// BudgetError where its integrals take more than `memory` bytes.
    HamiltonianBuilder(const std::string& name, std::int64_t orbitals, std::int64_t electrons, const char* said,
                       std::int64_t memory);
    /// (pq|rs), and h(pq), which stand for all that are equal by symmetry. Where one is known otherwise: its value.
    std::optional<double> two(std::int64_t p, std::int64_t q, std::int64_t r, std::int64_t s, double value);
    std::optional<double> one(std::int64_t p, std::int64_t q, double value);
    std::optional<double> constant(double value);
    Hamiltonian take() { return std::move(out_); }

  private:
    Hamiltonian out_;
    std::vector<bool> known_two_, known_one_;
    bool known_constant_ = false;
};

constexpr std::int64_t kMostOrbitals = 30000;  // their pairs of pairs can be counted in 64 bits

}  // namespace tessera::chem
