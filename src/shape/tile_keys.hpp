#pragma once
// The tiles of two operands in the order in which their products are found: A by rows of C, B by its rows (batch, k).

#include <cstdint>
#include <vector>

#include "index/matrix_view.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

/// Three numbers that place a tile: the part of C's ordinal that its batch labels make, the part that its free labels
/// make, and the part of A's ordinal that its k labels make.
struct TileKey {
    std::int64_t batch, free, k;
    std::int32_t slot;
};

/// What the search for products reads of B, and no more.
struct TilesOfB {
    struct Row {
        std::int64_t batch, k;
        std::size_t begin, end;  // its tiles
    };
    std::vector<Row> rows;              // by (batch, k)
    std::vector<std::int64_t> columns;  // of C: the free keys there are, ascending
    // Of each tile, in the order of the rows.
    std::vector<std::int32_t> column, slot;
    std::vector<double> norm, free_elements;  // elements of B's free indices
};

struct TilesOfA {
    std::vector<TileKey> entries;        // by row of C, then k
    std::vector<std::int32_t> row_of_b;  // of each: those it is multiplied with; -1: none
    std::int64_t row(std::size_t i) const { return entries[i].batch + entries[i].free; }
};

TilesOfB tiles_of_b(const MatrixView& view, const Shape& b, const TileGrid& a, const TileGrid& c);
TilesOfA tiles_of_a(const MatrixView& view, const Shape& a, const TileGrid& c, const TilesOfB& b);

}  // namespace tessera
