#include "tessera/index/tiling.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera {

Tiling::Tiling() : offsets_(std::make_shared<const std::vector<std::int64_t>>(1, 0)) {}

Tiling::Tiling(std::initializer_list<std::int64_t> sizes)
    : Tiling(from_sizes(std::span<const std::int64_t>(sizes.begin(), sizes.size()))) {}

Tiling Tiling::from_sizes(std::span<const std::int64_t> sizes) {
    std::vector<std::int64_t> offsets;
    offsets.reserve(sizes.size() + 1);
    offsets.push_back(0);
    for (std::size_t t = 0; t < sizes.size(); ++t) {
        require(sizes[t] >= 1, "tiling: tile {} has size {}; every tile needs at least one element", t, sizes[t]);
        offsets.push_back(checked_add(offsets.back(), sizes[t], "tiling: extent"));
    }
    Tiling tiling;
    tiling.offsets_ = std::make_shared<const std::vector<std::int64_t>>(std::move(offsets));
    return tiling;
}

Tiling Tiling::uniform(std::int64_t extent, std::int64_t tile) {
    require(extent >= 0, "tiling: extent {} is negative", extent);
    require(tile >= 1, "tiling: tile size {} is not positive", tile);
    const std::int64_t count = extent / tile + (extent % tile != 0);
    require(count <= 100'000'000, "tiling: extent {} in tiles of {} makes {} tiles", extent, tile, count);
    std::vector<std::int64_t> offsets(count + 1);
    for (std::int64_t t = 0; t < count; ++t) offsets[t] = t * tile;
    offsets[count] = extent;
    Tiling tiling;
    tiling.offsets_ = std::make_shared<const std::vector<std::int64_t>>(std::move(offsets));
    return tiling;
}

TileIndex Tiling::tile_of(ElementIndex element) const {
    require(element.value >= 0 && element.value < extent(), "tiling: element {} is outside 0..{}", element.value,
            extent() - 1);
    const auto it = std::upper_bound(offsets_->begin(), offsets_->end(), element.value);
    return TileIndex{it - offsets_->begin() - 1};
}

std::int64_t Tiling::largest_tile() const {
    std::int64_t largest = 0;
    for (std::int64_t t = 0; t < tile_count(); ++t) largest = std::max(largest, size(TileIndex{t}));
    return largest;
}

std::vector<std::int64_t> Tiling::sizes() const {
    std::vector<std::int64_t> s(tile_count());
    for (std::int64_t t = 0; t < tile_count(); ++t) s[t] = size(TileIndex{t});
    return s;
}

bool Tiling::operator==(const Tiling& other) const {
    return offsets_ == other.offsets_ || *offsets_ == *other.offsets_;
}

std::string to_string(const Tiling& tiling) {
    if (tiling.tile_count() == 0) return "0 (no tiles)";
    const auto sizes = tiling.sizes();
    const auto [lo, hi] = std::minmax_element(sizes.begin(), sizes.end());
    const auto range = *lo == *hi ? fmt::format("{}", *lo) : fmt::format("{}..{}", *lo, *hi);
    return fmt::format("{} in {} tile{} of {}", tiling.extent(), sizes.size(), sizes.size() == 1 ? "" : "s", range);
}

std::string first_difference(const Tiling& one, const Tiling& other) {
    const std::int64_t both = std::min(one.tile_count(), other.tile_count());
    for (std::int64_t t = 0; t < both; ++t)
        if (one.size(TileIndex{t}) != other.size(TileIndex{t}))
            return fmt::format("tile {} has {} elements in one, {} in the other", t, one.size(TileIndex{t}),
                               other.size(TileIndex{t}));
    if (one.tile_count() == other.tile_count()) return {};
    return fmt::format("one has {} tiles, the other {}", one.tile_count(), other.tile_count());
}

}  // namespace tessera
