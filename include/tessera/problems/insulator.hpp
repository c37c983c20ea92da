#pragma once
// A model of an insulator: a random Hamiltonian with a band of nonzero elements and a gap.

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Levels of energies -1 and 1 in turn, with random couplings between those up to `bandwidth` apart, so strong that
/// about the gap is left. The lower levels are occupied.
struct Insulator {
    std::string name;  // canonical text, as make_insulator takes it
    std::int64_t states = 0, tile = 32, bandwidth = 16;
    double gap = 1;
    std::uint64_t seed = 1;

    std::int64_t electrons() const { return (states + 1) / 2; }
    /// Of the Hamiltonian; about, and not less.
    double stored_bytes() const;
    TileGrid grid() const;
    Tensor<double> hamiltonian(const Placement& where = {}, int threads = 0) const;
};

/// purify:n[,tile,bandwidth,gap[,seed]]
bool is_insulator(std::string_view text);
/// UserError for anything else.
Insulator make_insulator(std::string_view text);

}  // namespace tessera
