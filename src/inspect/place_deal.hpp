#pragma once
// stationary_b's deal by place: columns of C that lie together go to one rank, so that few ranks need each tile of A.

#include <optional>
#include <vector>

#include "inspect/inspection.hpp"

namespace tessera {

/// An assignment for a grid of p x q ranks; grid_row: of each row of C. Columns are cut in two again and again, across
/// the index along which they spread most, so that both sides get their share of the seconds. C stays where it is made,
/// A lies where it is needed. Nothing where the tables of the distributions would be too long.
std::optional<Assignment> place_deal(const Inspection& in, int p, int q, const std::vector<std::int32_t>& grid_row);
/// The sums of one rank in so many parts of whole columns, each part its share of the seconds and together in place.
std::vector<std::vector<std::int32_t>> columns_by_place(const Inspection& in, const std::vector<std::int32_t>& sums,
                                                        int parts);

}  // namespace tessera
