#pragma once
// The streams of a device.

#include <cstdint>

namespace tessera {

/// What runs in order on a device; each is a stream.
enum class Lane : std::uint8_t { load, make, compute, store, copy };
inline constexpr int kLaneCount = 5;

/// Moves data; the others work.
constexpr bool is_transfer(Lane lane) { return lane != Lane::make && lane != Lane::compute; }

}  // namespace tessera
