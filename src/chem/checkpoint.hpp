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

struct Restart {
    Amplitudes amplitudes;
    int iteration = 0;
};
/// Empty where there is no such file. The amplitudes are rotated into the present orbitals: signs and the order of
/// degenerate ones need not be the same. UserError where the file is of another molecule, basis or frozen core.
std::optional<Restart> read_checkpoint(const std::string& path, const Orbitals& orbitals,
                                       const std::vector<std::int64_t>& rows, const Matrix& overlap, TensorWork& work);

}  // namespace tessera::chem
