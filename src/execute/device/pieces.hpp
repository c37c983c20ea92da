#pragma once
// How copies between host and device are cut.

#include <algorithm>

#include "execute/device/device_tiles.hpp"

namespace tessera {

/// What one worker packs, and one copy carries: enough for the link's full rate, little enough to spread over workers.
inline constexpr std::int64_t kPieceBytes = std::int64_t{2} << 20;

/// Plain tiles are cut at rows, others travel whole.
inline std::int64_t rows_per_piece(const DeviceTiles::Layout& l, std::int64_t element_bytes) {
    if (!l.plain) return l.all_rows();
    return std::clamp<std::int64_t>(kPieceBytes / (l.ld * element_bytes), 1, std::max<std::int64_t>(1, l.all_rows()));
}
inline std::int64_t largest_piece(const DeviceTiles::Layout& l, std::int64_t element_bytes) {
    const auto rows = rows_per_piece(l, element_bytes);
    if (rows >= l.all_rows()) return l.bytes;
    return std::min(l.bytes, rows * l.ld * element_bytes + l.bytes - l.all_rows() * l.ld * element_bytes);
}

}  // namespace tessera
