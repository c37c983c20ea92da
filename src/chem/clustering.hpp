#pragma once
// Points in space into groups of neighbours.

#include <cstdint>
#include <vector>

#include "tessera/chem/molecule.hpp"

namespace tessera::chem {

/// The group of each point: k-means from spread-out beginnings, the same for the same points on every machine. Groups
/// are numbered along the direction in which the points reach farthest; none is empty.
std::vector<std::int64_t> cluster(const std::vector<Point>& points, std::int64_t groups);

}  // namespace tessera::chem
