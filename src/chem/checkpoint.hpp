#pragma once
// Amplitudes kept in a file, with the orbitals they belong to.

#include <optional>
#include <string>

#include "chem/ccsd.hpp"

namespace tessera::chem {

/// What the amplitudes belong to, as the user gave it.
struct CheckpointOf {
    const Molecule& molecule;
    std::string basis;
    double converge = 0;
    /// The place of each basis function when atoms stand as the user gave them, which tiles may not change.
    const std::vector<std::int64_t>& rows;
};
/// Where CCSD stands.
struct CheckpointState {
    int iteration = 0;
    double energy = 0, residual = 0;
};
/// A file of named arrays; docs/FILE_FORMAT.md has its layout.
void write_checkpoint(const std::string& path, const CheckpointOf& of, const Orbitals& orbitals,
                      const Amplitudes& amplitudes, const CheckpointState& state);

/// What such a file holds.
struct Checkpoint {
    int iteration = 0;
    Matrix orbitals;  // functions in the present order, occupied and virtual ones side by side
    std::vector<double> t1, t2;
};
struct OrbitalCounts {
    std::int64_t functions = 0, occupied = 0, virtuals = 0, frozen = 0;
    bool operator==(const OrbitalCounts&) const = default;
};
/// Empty where there is no such file. UserError where it is foreign, or of another molecule, basis or frozen core: the
/// counts and the overlap of the functions are known before any orbitals are. With ranks (none: this process) rank 0
/// reads for all.
std::optional<Checkpoint> read_checkpoint(const std::string& path, const CheckpointOf& of, const OrbitalCounts& counts,
                                          const Matrix& overlap, Communicator* ranks);
/// Its amplitudes, rotated into the present orbitals: signs and the order of degenerate ones need not be the same.
/// UserError where the orbitals span another space.
Amplitudes amplitudes_of(const Checkpoint& checkpoint, const std::string& path, const Orbitals& orbitals,
                         const Matrix& overlap, TensorWork& work);

}  // namespace tessera::chem
