#include "tessera/index/distribution.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"

namespace tessera {

namespace {

/// Which of n ranks has tile t of `tiles`, in contiguous blocks: the first tiles % n ranks have one more than the
/// others.
std::int64_t block_owner(std::int64_t t, std::int64_t tiles, std::int64_t n) {
    const std::int64_t each = tiles / n, longer = tiles % n;
    const std::int64_t in_longer = longer * (each + 1);
    return t < in_longer ? t / (each + 1) : longer + (t - in_longer) / each;
}

/// The coordinate of tile t on an axis.
std::int64_t coordinate(const Distribution::Axis& axis, std::int64_t t, std::int64_t tiles) {
    switch (axis.deal) {
        case Distribution::Deal::cyclic:
            return t % axis.ranks;
        case Distribution::Deal::blocked:
            return block_owner(t, tiles, axis.ranks);
        case Distribution::Deal::mapped:
            break;
    }
    require(t < static_cast<std::int64_t>(axis.map.size()), "distribution: tile {} of an index dealt by a list of {}",
            t, axis.map.size());
    return axis.map[static_cast<std::size_t>(t)];
}

/// Steps of a grid whose last dimension counts fastest.
std::vector<std::int64_t> row_major_steps(const std::vector<Distribution::Axis>& axes) {
    std::vector<std::int64_t> steps(axes.size());
    std::int64_t step = 1;
    for (std::size_t d = axes.size(); d-- > 0; step *= axes[d].ranks) steps[d] = axes[d].ranks == 1 ? 0 : step;
    return steps;
}

std::uint64_t hash_of(const std::vector<std::int32_t>& map) {
    std::uint64_t h = map.size();
    for (const auto r : map) h = combine(h, static_cast<std::uint64_t>(r));
    return h >> 32;
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
        require(axes_[d].map.empty() || axes_[d].deal == Deal::mapped,
                "distribution: index {} has a list of {} tiles, but is not dealt by it", d, axes_[d].map.size());
        for (std::size_t t = 0; t < axes_[d].map.size(); ++t)
            require(axes_[d].map[t] >= 0 && axes_[d].map[t] < axes_[d].ranks,
                    "distribution: tile {} of index {} is dealt to {}, which is outside 0..{}", t, d, axes_[d].map[t],
                    axes_[d].ranks - 1);
        if (axes_[d].ranks == 1 && axes_[d].deal == Deal::mapped) axes_[d] = Axis{};
    }
    require(product <= ranks, "distribution: a grid of {} ranks, but there are {}", product, ranks);
    steps_ = row_major_steps(axes_);
}

Distribution Distribution::from_maps(int ranks, std::vector<std::vector<std::int32_t>> maps,
                                     std::vector<std::int32_t> sides) {
    require(sides.empty() || sides.size() == maps.size(), "distribution: a grid of {} dimensions for {} lists",
            sides.size(), maps.size());
    std::vector<Axis> axes;
    for (std::size_t d = 0; d < maps.size(); ++d) {
        Axis axis{1, Deal::mapped, std::move(maps[d])};
        if (!sides.empty())
            axis.ranks = sides[d];
        else if (!axis.map.empty())
            axis.ranks = std::max(0, *std::max_element(axis.map.begin(), axis.map.end())) + 1;
        axes.push_back(std::move(axis));
    }
    return Distribution(ranks, std::move(axes));
}

Distribution Distribution::from_patches(int ranks, int tensor_rank, std::vector<Patches> patches) {
    Distribution out(ranks, std::vector<Axis>(static_cast<std::size_t>(tensor_rank)));
    std::vector<bool> dealt(static_cast<std::size_t>(tensor_rank));
    std::int64_t last = 0;
    for (const auto& p : patches) {
        require(p.indices.size() == p.tiles.size() && !p.indices.empty(),
                "distribution: patches of {} indices with {} numbers of tiles", p.indices.size(), p.tiles.size());
        std::int64_t entries = 1;
        for (std::size_t i = 0; i < p.indices.size(); ++i) {
            const auto d = p.indices[i];
            require(d >= 0 && d < tensor_rank, "distribution: patches of index {}, which is outside 0..{}", d,
                    tensor_rank - 1);
            require(!dealt[static_cast<std::size_t>(d)] && (i == 0 || p.indices[i - 1] < d),
                    "distribution: patches name index {} twice, or out of order", d);
            dealt[static_cast<std::size_t>(d)] = true;
            entries = checked_multiply(entries, p.tiles[i], "distribution: tiles of patches");
        }
        require(static_cast<std::int64_t>(p.map.size()) == entries,
                "distribution: a table of {} entries for patches of {} tiles", p.map.size(), entries);
        std::int32_t most = 0;
        for (const auto adds : p.map) {
            require(adds >= 0, "distribution: an entry of a table of patches is {}", adds);
            most = std::max(most, adds);
        }
        last += most;
    }
    require(last < ranks, "distribution: tables of patches reach rank {}, but there are {} ranks", last, ranks);
    std::erase_if(patches, [](const Patches& p) { return std::ranges::all_of(p.map, [](auto x) { return x == 0; }); });
    out.patches_ = std::move(patches);
    return out;
}

Distribution Distribution::permuted(const Permutation& p) const {
    Distribution out = *this;
    if (axes_.empty()) return out;
    require(p.rank() == static_cast<int>(axes_.size()), "distribution: permutation {} of {} axes", to_string(p),
            axes_.size());
    for (int d = 0; d < p.rank(); ++d) {
        out.axes_[static_cast<std::size_t>(d)] = axes_[static_cast<std::size_t>(p[d])];
        out.steps_[static_cast<std::size_t>(d)] = steps_[static_cast<std::size_t>(p[d])];
    }
    for (std::size_t i = 0; i < patches_.size(); ++i) {
        // The new indices in ascending order, and the table walked in that order.
        const auto& old = patches_[i];
        std::vector<std::pair<std::int32_t, std::size_t>> order;  // new index, place among the old ones
        for (int d = 0; d < p.rank(); ++d)
            if (const auto at = std::find(old.indices.begin(), old.indices.end(), p[d]); at != old.indices.end())
                order.emplace_back(d, static_cast<std::size_t>(at - old.indices.begin()));
        auto& now = out.patches_[i];
        std::vector<std::int64_t> strides(old.tiles.size(), 1);
        for (std::size_t j = old.tiles.size(); j-- > 1;) strides[j - 1] = strides[j] * old.tiles[j];
        for (std::size_t j = 0; j < order.size(); ++j) {
            now.indices[j] = order[j].first;
            now.tiles[j] = old.tiles[order[j].second];
        }
        for (std::size_t entry = 0; entry < now.map.size(); ++entry) {
            auto rest = static_cast<std::int64_t>(entry);
            std::int64_t from = 0;
            for (std::size_t j = order.size(); j-- > 0; rest /= now.tiles[j])
                from += rest % now.tiles[j] * strides[order[j].second];
            now.map[entry] = old.map[static_cast<std::size_t>(from)];
        }
    }
    return out;
}

Distribution Distribution::sliced(const TileGrid& grid, const IndexVector& first, const IndexVector& count) const {
    require_fits(grid);
    Distribution out = *this;
    for (std::size_t d = 0; d < axes_.size(); ++d) {
        const int i = static_cast<int>(d);
        const std::int64_t tiles = grid.tiling(i).tile_count();
        Axis& axis = out.axes_[d];
        if (axis.ranks == 1 || count[i] == tiles || (axis.deal == Deal::cyclic && first[i] % axis.ranks == 0)) continue;
        axis.deal = Deal::mapped;
        axis.map.clear();
        for (std::int64_t t = first[i]; t < first[i] + count[i]; ++t)
            axis.map.push_back(static_cast<std::int32_t>(coordinate(axes_[d], t, tiles)));
    }
    for (auto& p : out.patches_) {
        const auto old = p;
        std::int64_t entries = 1;
        for (std::size_t j = 0; j < p.indices.size(); ++j) entries *= p.tiles[j] = count[p.indices[j]];
        p.map.resize(static_cast<std::size_t>(entries));
        for (std::int64_t entry = 0; entry < entries; ++entry) {
            std::int64_t rest = entry, from = 0, stride = 1;
            for (std::size_t j = p.indices.size(); j-- > 0; rest /= p.tiles[j], stride *= old.tiles[j])
                from += (rest % p.tiles[j] + first[p.indices[j]]) * stride;
            p.map[static_cast<std::size_t>(entry)] = old.map[static_cast<std::size_t>(from)];
        }
    }
    return out;
}

void Distribution::require_fits(const TileGrid& grid) const {
    if (axes_.empty()) return;
    require(static_cast<int>(axes_.size()) == grid.rank(), "tensor: {} indices dealt to {}", grid.rank(),
            to_string(*this));
    for (int d = 0; d < grid.rank(); ++d) {
        const Axis& axis = axes_[static_cast<std::size_t>(d)];
        require(axis.deal != Deal::mapped || static_cast<std::int64_t>(axis.map.size()) == grid.tiling(d).tile_count(),
                "tensor: index {} has {} tiles, but is dealt by a list of {}", d, grid.tiling(d).tile_count(),
                axis.map.size());
    }
    for (const auto& p : patches_)
        for (std::size_t j = 0; j < p.indices.size(); ++j)
            require(p.tiles[j] == grid.tiling(p.indices[j]).tile_count(),
                    "tensor: index {} has {} tiles, but is dealt in patches of {}", p.indices[j],
                    grid.tiling(p.indices[j]).tile_count(), p.tiles[j]);
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
        owner += steps_[static_cast<std::size_t>(d)] * coordinate(axis, at, grid.tiling(d).tile_count());
    }
    for (const auto& p : patches_) {
        std::int64_t entry = 0;
        for (std::size_t j = 0; j < p.indices.size(); ++j) {
            const auto& tiling = grid.tiling(p.indices[j]);
            require(tiling.tile_count() == p.tiles[j],
                    "distribution: index {} has {} tiles, but is dealt in patches of {}", p.indices[j],
                    tiling.tile_count(), p.tiles[j]);
            entry = entry * p.tiles[j] + tile.value / grid.ordinal_strides()[p.indices[j]] % p.tiles[j];
        }
        owner += p.map[static_cast<std::size_t>(entry)];
    }
    return static_cast<int>(owner);
}

std::string to_string(const Distribution& d) {
    std::string text = fmt::format("{} rank{}", d.ranks(), d.ranks() == 1 ? "" : "s");
    for (std::size_t i = 0; i < d.axes().size(); ++i) {
        const auto& axis = d.axes()[i];
        text += fmt::format("{}{}", i == 0 ? " as " : " x ", axis.ranks);
        if (axis.ranks == 1) continue;
        if (axis.deal == Distribution::Deal::blocked) text += " blocked";
        if (axis.deal != Distribution::Deal::mapped) continue;
        text += fmt::format(" by list {:08x}", hash_of(axis.map));
    }
    for (const auto& p : d.patches())
        text += fmt::format(", indices {} by table {:08x}", fmt::join(p.indices, " and "), hash_of(p.map));
    if (const auto& steps = d.steps(); steps != row_major_steps(d.axes()))
        text += fmt::format(", in steps of {}", fmt::join(steps, " x "));
    return text;
}

}  // namespace tessera
