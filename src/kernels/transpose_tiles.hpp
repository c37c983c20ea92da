#pragma once
// The transpose as a device runs it: tiles small enough for shared memory, moved by offset tables. Pure host code,
// so that tables are tested without a device.

#include <cstdint>
#include <vector>

#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels {

/// A loop over tiles along one axis; tile t is at coordinate t / period % count.
struct TileLoop {
    std::uint32_t period = 1, count = 1;
    std::uint32_t block = 1;   // elements of the axis in a tile
    std::int64_t extent = 1;   // elements of the axis
    std::int64_t in_step = 0;  // elements from one tile to the next
    std::int64_t out_step = 0;
};

/// A tile is read in input order into shared memory and written from there in output order, by accesses of `in_word`
/// and `out_word` elements: access a brings its elements from in_offset[a] to the slots from store[a] on, and takes
/// those of out_offset[a] from the slots load[a * out_word], load[a * out_word + 1], ... Direct tiles skip shared
/// memory: access a is the same element on both sides.
struct TileTables {
    TransposePlan plan;  // blocks are tiles
    bool direct = false;
    std::uint32_t volume = 0;  // elements of a tile
    std::uint32_t slots = 0;   // of shared memory, padding included
    int in_word = 1, out_word = 1;
    std::int64_t tiles = 0;
    std::int64_t cut_tiles = 1;   // along the cut axes: ragged ones come back with this period
    std::vector<TileLoop> loops;  // cut axes first: at most two, and only they have ragged last tiles
    std::vector<std::int64_t> in_offset, out_offset;  // of an access from the tile's first element
    std::vector<std::uint16_t> store, load;           // slots
    /// Coordinates of an access on the axes of loops 0 (low half) and 1 (high half), where those are cut. A tile has
    /// all elements of an access or none.
    std::vector<std::uint32_t> in_coordinate, out_coordinate;
    std::int64_t largest_offset = 0;
    double conflicts = 1;  // mean accesses per shared-memory wavefront, by simulation
};

/// Tiles of at most `volume` elements. Runs of `row_bytes` and more that both sides share make direct tiles. Each side
/// is accessed in words of `word_bytes` where its runs, strides and cuts are multiples of that, else by elements.
TileTables make_tiles(const TransposePlan& plan, std::int64_t volume, std::int64_t run_bytes, std::int64_t row_bytes,
                      int word_bytes);

/// The same transpose in words of up to 16 bytes, where both sides have the same fastest index and strides allow
/// it; element_bytes is unchanged where not.
TransposePlan widen(const TransposePlan& plan);

}  // namespace tessera::kernels
