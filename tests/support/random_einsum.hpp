#pragma once
// Random einsums of any number of operands, with everything a label can do.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/random_shapes.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera::testing {

struct RandomEinsum {
    std::vector<std::string> operands;
    std::string result;
    std::vector<Shape> shapes;

    std::string text() const {
        std::string out;
        for (const auto& o : operands) out += (out.empty() && &o == operands.data() ? "" : ",") + o;
        return out + "->" + result;
    }
};

inline Shape random_tiles(Random& r, const TileGrid& grid, double occupancy) {
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (std::uniform_real_distribution<>(0, 1)(r) < occupancy)
            entries.push_back({TileOrdinal{o}, 1.0 + static_cast<double>(o % 3)});
    return Shape(grid, std::move(entries));
}

/// Up to 3 indices an operand (one may stand twice) of up to `most_labels`, each of up to most_tiles tiles of up to
/// `most` elements; one of `empty` (0: none) has no element.
inline RandomEinsum random_einsum(Random& r, int operands, int most_labels, std::int64_t most_tiles, std::int64_t most,
                                  double occupancy, int empty = 0) {
    RandomEinsum e;
    const std::string alphabet = "abcdefghij";
    const auto labels = alphabet.substr(0, static_cast<std::size_t>(pick(r, 1, most_labels)));
    std::map<char, Tiling> tilings;
    for (const char l : labels)
        tilings.emplace(l, empty > 0 && pick(r, 1, empty) == 1 ? Tiling() : random_tiling(r, most_tiles, most));
    std::string used;
    for (int o = 0; o < operands; ++o) {
        std::string own;
        for (auto n = pick(r, o == 0 ? 1 : 0, 3); n > 0; --n) {
            const char l = labels[static_cast<std::size_t>(pick(r, 0, static_cast<std::int64_t>(labels.size()) - 1))];
            if (own.find(l) == std::string::npos || pick(r, 0, 3) == 0) own += l;
        }
        std::vector<Tiling> of;
        for (const char l : own) {
            of.push_back(tilings.at(l));
            if (used.find(l) == std::string::npos) used += l;
        }
        e.operands.push_back(own);
        e.shapes.push_back(random_tiles(r, TileGrid(of), occupancy));
    }
    for (const char l : used)
        if (pick(r, 0, 2) == 0) e.result += l;
    std::shuffle(e.result.begin(), e.result.end(), r);
    return e;
}

}  // namespace tessera::testing
