#pragma once
// Tiles and their places in a dense row-major array.

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/check.hpp"
#include "tessera/base/api.hpp"
#include "tessera/storage/tile_source.hpp"

namespace TESSERA_API tessera {

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
TESSERA_API void copy_from_dense(const TileInfo& info, const IndexVector& extents, const T* dense, T* tile) {
    for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
        std::copy_n(dense + at, run, tile + in_tile);
    });
}

template <class T>
TESSERA_API void copy_to_dense(const TileInfo& info, const IndexVector& extents, const T* tile, T* dense) {
    for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
        std::copy_n(tile + in_tile, run, dense + at);
    });
}

/// Of a tile whose norm is not finite: the first element that is to blame, as the user counts it.
template <class T>
TESSERA_API std::string why_not_finite(const TileInfo& info, const T* tile) {
    const std::int64_t count = info.extents.product();
    for (std::int64_t e = 0; e < count; ++e) {
        if (std::isfinite(std::abs(tile[e]))) continue;
        IndexVector element = info.begin;
        std::int64_t rest = e;
        for (int d = element.size() - 1; d >= 0; --d) {
            element[d] += rest % info.extents[d];
            rest /= info.extents[d];
        }
        return fmt::format("element {} of tile {} is {}; a norm needs finite numbers", to_string(element),
                           to_string(info.coordinates), std::isnan(std::abs(tile[e])) ? "NaN" : "infinite");
    }
    return fmt::format("the norm of tile {} is past the largest number", to_string(info.coordinates));
}

}  // namespace tessera
