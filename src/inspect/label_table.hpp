#pragma once
// Tables over the tiles of several labels, from which distributions by patches are made.

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "inspect/inspection.hpp"

namespace tessera {

/// Tiles of a group of labels, numbered with the last label fastest.
class LabelTable {
  public:
    static constexpr std::int64_t kLongest = std::int64_t{1} << 22;

    LabelTable(const Inspection& in, std::string labels) : labels_(std::move(labels)) {
        for (const char label : labels_) {
            const auto o = in.view.labels.c.find(label) != std::string::npos ? Operand::c : Operand::a;
            const auto d = static_cast<int>(in.view.labels[o].find(label));
            tiles_.push_back(in.shape(o).grid().tiling(d).tile_count());
            size_ = tiles_.back() == 0 || size_ > kLongest ? kLongest + 1 : size_ * tiles_.back();
        }
    }
    bool fits() const { return size_ <= kLongest; }
    std::int64_t size() const { return size_; }

    /// The entry of a tile of an operand that has all of these labels.
    std::int64_t entry(const Inspection& in, Operand o, std::int64_t slot) const {
        const auto& shape = in.shape(o);
        const auto at = shape.grid().coordinates(shape.tile(slot));
        std::int64_t out = 0;
        for (std::size_t i = 0; i < labels_.size(); ++i)
            out = out * tiles_[i] + at[static_cast<int>(in.view.labels[o].find(labels_[i]))];
        return out;
    }
    /// The same table for the indices of an operand that carry these labels, in the operand's own order.
    Distribution::Patches patches(const Inspection& in, Operand o, const std::vector<std::int32_t>& map) const {
        const auto& names = in.view.labels[o];
        Distribution::Patches out;
        std::vector<std::int64_t> strides;  // of the table, in the operand's order
        for (std::size_t d = 0; d < names.size(); ++d) {
            const auto i = labels_.find(names[d]);
            if (i == std::string::npos) continue;
            out.indices.push_back(static_cast<std::int32_t>(d));
            out.tiles.push_back(tiles_[i]);
            strides.push_back(std::accumulate(tiles_.begin() + static_cast<std::ptrdiff_t>(i) + 1, tiles_.end(),
                                              std::int64_t{1}, std::multiplies<>()));
        }
        out.map.resize(map.size());
        for (std::size_t entry = 0; entry < map.size(); ++entry) {
            auto rest = static_cast<std::int64_t>(entry);
            std::int64_t from = 0;
            for (std::size_t j = strides.size(); j-- > 0; rest /= out.tiles[j])
                from += rest % out.tiles[j] * strides[j];
            out.map[entry] = map[static_cast<std::size_t>(from)];
        }
        return out;
    }

  private:
    std::string labels_;
    std::vector<std::int64_t> tiles_;
    std::int64_t size_ = 1;
};

/// The distribution of an operand by these tables, of which those without an index of it say nothing.
inline Distribution lie_by(const Inspection& in, Operand o, std::vector<Distribution::Patches> patches) {
    std::erase_if(patches, [](const Distribution::Patches& p) { return p.indices.empty(); });
    return Distribution::from_patches(in.machine.ranks, in.shape(o).grid().rank(), std::move(patches));
}

}  // namespace tessera
