#pragma once
// Tiles and their places in a dense row-major array.

#include <algorithm>

#include "tessera/storage/tile_source.hpp"

namespace tessera {

/// Calls visit(place in the array, place in the tile, elements) for each row of a tile.
template <class Visit>
void for_each_row(const TileInfo& info, const IndexVector& dense_extents, Visit&& visit) {
    const int rank = dense_extents.size();
    const auto strides = row_major_strides(dense_extents);
    const std::int64_t run = rank == 0 ? 1 : info.extents[rank - 1];
    std::int64_t at = 0;
    for (int d = 0; d < rank; ++d) at += info.begin[d] * strides[d];
    IndexVector position = IndexVector::filled(rank, 0);
    for (std::int64_t in_tile = 0;;) {
        visit(at, in_tile, run);
        in_tile += run;
        int d = rank - 2;
        for (; d >= 0; --d) {
            at += strides[d];
            if (++position[d] < info.extents[d]) break;
            at -= strides[d] * info.extents[d];
            position[d] = 0;
        }
        if (d < 0) return;
    }
}

template <class T>
void copy_from_dense(const TileInfo& info, const IndexVector& extents, const T* dense, T* tile) {
    for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
        std::copy_n(dense + at, run, tile + in_tile);
    });
}

template <class T>
void copy_to_dense(const TileInfo& info, const IndexVector& extents, const T* tile, T* dense) {
    for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
        std::copy_n(tile + in_tile, run, dense + at);
    });
}

}  // namespace tessera
