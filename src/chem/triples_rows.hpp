#pragma once
// How (T) is cut. The energy of a triple of virtual orbitals, summed over all occupied ones, is the same for
// each order of the three: so every triple of virtual orbitals is looked at once, in tiles of 8, 4 and 4, against the
// cube of the occupied ones. There are many virtual orbitals, so tiles on the diagonal and past the end are few.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/orbit_row.hpp"

namespace tessera::chem {

/// Three ranges of virtual orbitals: the same three times, one and another one twice, or three in ascending order.
struct TriplesPart {
    std::array<std::int64_t, 3> begin{}, extent{};
    bool same(int x, int y) const { return begin[static_cast<std::size_t>(x)] == begin[static_cast<std::size_t>(y)]; }
};
/// Every triple of virtual orbitals in exactly one part, up to its order; ranges of at most `longest` orbitals, which
/// is a multiple of 8.
std::vector<TriplesPart> triples_parts(std::int64_t virtuals, std::int64_t longest);
/// Every triple of a part in exactly one row, up to its order; tiles are counted from the beginnings of its ranges.
std::vector<device::OrbitRow> device_rows(const TriplesPart& part);
/// The same for cores: blocks of at most 32, 8 and 8 orbitals, and what each counts.
struct TriplesBox {
    std::array<std::int64_t, 3> begin{}, extent{};
    double orders = 0;
};
std::vector<TriplesBox> core_boxes(const TriplesPart& part);

/// Rows that are summed together: the unit of progress, of sharing among devices and ranks, and of a restart. Depends
/// on nothing else.
struct TriplesChunk {
    std::size_t part = 0;
    std::int64_t first = 0, count = 0;
};
std::vector<TriplesChunk> triples_chunks(std::span<const std::vector<device::OrbitRow>> rows_of_parts,
                                         std::int64_t occupied, std::int64_t virtuals);

/// In a tree that depends on their number alone.
double tree_sum(std::span<const double> x);

}  // namespace tessera::chem
