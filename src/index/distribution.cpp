#include "tessera/index/distribution.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera {

namespace {

/// Which of n ranks has tile t of `tiles`, in contiguous blocks: the first tiles % n ranks have one more than the
/// others.
std::int64_t block_owner(std::int64_t t, std::int64_t tiles, std::int64_t n) {
    const std::int64_t each = tiles / n, longer = tiles % n;
    const std::int64_t in_longer = longer * (each + 1);
    return t < in_longer ? t / (each + 1) : longer + (t - in_longer) / each;
}

}  // namespace

Distribution::Distribution(int ranks, std::vector<Axis> axes) : ranks_(ranks), axes_(std::move(axes)) {
    require(ranks >= 1, "distribution: {} ranks, at least 1 is needed", ranks);
    require(axes_.size() <= static_cast<std::size_t>(kMaxRank), "distribution: {} axes, a tensor has at most {}",
            axes_.size(), kMaxRank);
    std::int64_t product = 1;
    for (std::size_t d = 0; d < axes_.size(); ++d) {
        require(axes_[d].ranks >= 1, "distribution: index {} is dealt to {} ranks, at least 1 is needed", d,
                axes_[d].ranks);
        product = checked_multiply(product, axes_[d].ranks, "distribution: ranks");
    }
    require(product <= ranks, "distribution: a grid of {} ranks, but there are {}", product, ranks);
}

Distribution Distribution::even(const TileGrid& grid, int ranks) {
    require(ranks >= 1, "distribution: {} ranks, at least 1 is needed", ranks);
    std::vector<Axis> axes(static_cast<std::size_t>(grid.rank()));
    if (grid.rank() == 0) return Distribution(ranks, std::move(axes));
    // The two indices with the most tiles, the earlier one first among equals.
    const IndexVector tiles = grid.tile_counts();
    int first = 0, second = -1;
    for (int d = 1; d < grid.rank(); ++d) {
        if (tiles[d] > tiles[first])
            second = first, first = d;
        else if (second < 0 || tiles[d] > tiles[second])
            second = d;
    }
    std::int32_t long_side = ranks, short_side = 1;
    if (second >= 0) {
        // The squarest factors, unless a less square pair lets more ranks have a tile.
        std::int64_t most = 0;
        for (std::int32_t p = 1; static_cast<std::int64_t>(p) * p <= ranks; ++p) {
            if (ranks % p != 0) continue;
            const std::int64_t q = ranks / p;
            const std::int64_t busy =
                std::min<std::int64_t>(p, tiles[second]) * std::min<std::int64_t>(q, tiles[first]);
            if (busy >= most) most = busy, short_side = p, long_side = ranks / p;
        }
        axes[static_cast<std::size_t>(second)].ranks = short_side;
    }
    axes[static_cast<std::size_t>(first)].ranks = long_side;
    return Distribution(ranks, std::move(axes));
}

int Distribution::owner(const TileGrid& grid, TileOrdinal tile) const {
    require(grid.contains(tile), "distribution: tile number {} is outside 0..{}", tile.value, grid.tile_total() - 1);
    if (axes_.empty()) return 0;
    require(static_cast<int>(axes_.size()) == grid.rank(), "distribution: {} axes for a tensor of {} indices",
            axes_.size(), grid.rank());
    std::int64_t owner = 0, rest = tile.value;
    for (int d = 0; d < grid.rank(); ++d) {
        const std::int64_t stride = grid.ordinal_strides()[d], at = rest / stride;
        rest -= at * stride;
        const Axis& axis = axes_[static_cast<std::size_t>(d)];
        if (axis.ranks == 1) continue;
        owner =
            owner * axis.ranks +
            (axis.deal == Deal::cyclic ? at % axis.ranks : block_owner(at, grid.tiling(d).tile_count(), axis.ranks));
    }
    return static_cast<int>(owner);
}

std::string to_string(const Distribution& d) {
    std::string text = fmt::format("{} rank{}", d.ranks(), d.ranks() == 1 ? "" : "s");
    for (std::size_t i = 0; i < d.axes().size(); ++i) {
        const auto& axis = d.axes()[i];
        text += fmt::format("{}{}{}", i == 0 ? " as " : " x ", axis.ranks,
                            axis.deal == Distribution::Deal::blocked && axis.ranks > 1 ? " blocked" : "");
    }
    return text;
}

}  // namespace tessera
