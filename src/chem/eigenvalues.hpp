#pragma once
// Eigenvalues for those who do not use Eigen.

#include <cstdint>
#include <vector>

namespace tessera::chem {

/// Ascending, of a dense symmetric matrix.
std::vector<double> symmetric_eigenvalues(const std::vector<double>& matrix, std::int64_t rows);

}  // namespace tessera::chem
