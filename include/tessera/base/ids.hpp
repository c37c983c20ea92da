#pragma once
// Integers that do not convert into each other: a tile number is not an element number.

#include <compare>
#include <cstdint>
#include <functional>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

template <class Tag>
struct Id {
    std::int64_t value = 0;
    constexpr Id() = default;
    constexpr explicit Id(std::int64_t v) : value(v) {}
    constexpr auto operator<=>(const Id&) const = default;
    constexpr Id& operator++() {
        ++value;
        return *this;
    }
};

/// Number of a tile along one index (0 .. Tiling::tile_count() - 1).
using TileIndex = Id<struct TileIndexTag>;
/// Number of an element along one index (0 .. Tiling::extent() - 1).
using ElementIndex = Id<struct ElementIndexTag>;
/// Row-major number of a tile in a tile grid.
using TileOrdinal = Id<struct TileOrdinalTag>;

}  // namespace tessera

template <class Tag>
struct std::hash<tessera::Id<Tag>> {
    std::size_t operator()(tessera::Id<Tag> id) const noexcept { return std::hash<std::int64_t>{}(id.value); }
};
