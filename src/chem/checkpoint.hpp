#pragma once
// Amplitudes kept in a file, with the orbitals they belong to.

#include <optional>
#include <string>

#include "chem/ccsd.hpp"

namespace tessera::chem {

/// One tensor file (docs/FILE_FORMAT.md): a list of tiles [counts, orbitals, t1, t2]; docs/CHEMISTRY.md has the layout.
/// `rows`: the place of each basis function when atoms stand as the user gave them, which tiles may not change.
void write_checkpoint(const std::string& path, const Orbitals& orbitals, const std::vector<std::int64_t>& rows,
                      const Amplitudes& amplitudes, int iteration);

/// What such a file holds.
struct Checkpoint {
    int iteration = 0;
    Matrix orbitals;  // functions in the present order, occupied and virtual ones side by side
    std::vector<double> t1, t2;
};
struct OrbitalCounts {
    std::int64_t functions = 0, occupied = 0, virtuals = 0, frozen = 0;
};
/// Empty where there is no such file. UserError where it is foreign, or of another molecule, basis or frozen core: the
/// counts and the overlap of the functions are known before any orbitals are. With ranks (none: this process) rank 0
/// reads for all.
std::optional<Checkpoint> read_checkpoint(const std::string& path, const OrbitalCounts& counts,
                                          const std::vector<std::int64_t>& rows, const Matrix& overlap,
                                          Communicator* ranks);
/// Its amplitudes, rotated into the present orbitals: signs and the order of degenerate ones need not be the same.
/// UserError where the orbitals span another space.
Amplitudes amplitudes_of(const Checkpoint& checkpoint, const std::string& path, const Orbitals& orbitals,
                         const Matrix& overlap, TensorWork& work);

}  // namespace tessera::chem
