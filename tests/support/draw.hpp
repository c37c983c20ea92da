#pragma once
// Random grids, shapes and distributions for tests on several ranks.

#include <algorithm>
#include <random>

#include "tessera/tensor/tensor.hpp"

namespace tessera::testing {

/// The same on every rank, for all the random things are drawn from a seed alone.
class Draw {
  public:
    explicit Draw(unsigned seed) : random_(seed) {}
    int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    double unit() { return static_cast<double>(random_()) / 4294967296.0; }

    /// Tiles of up to 8 elements.
    Tiling tiling(std::int64_t extent) {
        std::vector<std::int64_t> sizes;
        for (std::int64_t left = extent; left > 0; left -= sizes.back())
            sizes.push_back(1 + below(static_cast<int>(std::min<std::int64_t>(left, 8))));
        return Tiling::from_sizes(sizes);
    }
    TileGrid grid() {
        std::vector<Tiling> tilings;
        const int rank = below(5);
        for (int d = 0; d < rank; ++d) {
            std::vector<std::int64_t> sizes;
            for (int t = 1 + below(5); t > 0; --t) sizes.push_back(1 + below(7));
            tilings.push_back(Tiling::from_sizes(sizes));
        }
        return TileGrid(std::move(tilings));
    }
    Shape shape(const TileGrid& grid, double density) {
        std::vector<ShapeEntry> entries;
        for (std::int64_t o = 0; o < grid.tile_total(); ++o)
            if (unit() < density) entries.push_back({TileOrdinal{o}, 0.5 + unit()});
        return Shape(grid, std::move(entries));
    }
    Distribution distribution(const TileGrid& grid, int ranks) {
        if (below(5) == 0) return Distribution(ranks, {});
        if (below(5) == 0) return Distribution::even(grid, ranks);
        std::vector<Distribution::Axis> axes(static_cast<std::size_t>(grid.rank()));
        int left = ranks;
        for (std::size_t i = axes.size(); i > 0; --i) {
            auto& axis = axes[static_cast<std::size_t>(below(static_cast<int>(axes.size())))];
            if (axis.ranks > 1) continue;
            axis = {1 + below(left), static_cast<Distribution::Deal>(below(3))};
            if (axis.deal == Distribution::Deal::mapped)
                for (auto t = grid.tiling(static_cast<int>(&axis - axes.data())).tile_count(); t > 0; --t)
                    axis.map.push_back(below(axis.ranks));
            left /= axis.ranks;
        }
        return Distribution(ranks, std::move(axes));
    }

  private:
    std::mt19937 random_;
};

}  // namespace tessera::testing
