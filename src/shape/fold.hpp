#pragma once
// Sums over indices that both operands may exchange, taken over c <= d alone.

#include "tessera/index/contraction_spec.hpp"
#include "tessera/shape/tile_views.hpp"

namespace tessera {

/// The tiles of A (whole) that are left, each counting for those that are gone; B's symmetry says whether it is
/// exchanged likewise. Only powers of two are counted, which are exact. A itself where there is nothing to fold.
WholeShape folded(const ContractionSpec& spec, WholeShape a, const Symmetry& b);

}  // namespace tessera
