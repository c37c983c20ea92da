#pragma once
// How the work of one rank's cores is cut into turns, where the tiles of other ranks that it needs pass through a ring.

#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "inspect/plan_writer.hpp"

namespace tessera {

/// Part of the sums in the order of a worker, up to a place along k.
struct Piece {
    std::size_t begin, end;
    std::int32_t k_end;  // products up to, not including, this place along k
};

struct StageTile {
    std::int32_t slot;
    std::int64_t offset, bytes;
};

struct Stage {
    std::vector<Piece> pieces;
    std::vector<StageTile> tiles;  // that are made for it
    std::vector<RingUse> uses;     // tiles of other ranks, where these pass through a ring
};

/// Numbers of panels for the places in an order: a new one where the sum is not of the same panel as the one before.
template <class SameAsBefore>
std::vector<std::int32_t> panels(std::size_t places, SameAsBefore same) {
    std::vector<std::int32_t> out(places, 0);
    for (std::size_t i = 1; i < places; ++i) out[i] = out[i - 1] + !same(i);
    return out;
}

/// Stored tiles of other ranks that the panels of an order need, panel after panel along k.
class Passing {
  public:
    struct Need {
        std::int32_t panel, k;
        Operand operand;
        std::int32_t slot;
        std::int64_t bytes;
        auto key() const { return std::tuple(panel, k, operand, slot); }
    };
    /// order: of a rank's sums; panel_of: per place in it, ascending.
    Passing(const PlanWriter& w, int rank, const std::vector<std::int32_t>& order,
            const std::vector<std::int32_t>& panel_of);
    std::span<const Need> of(std::int32_t panel) const { return range({panel, INT32_MIN}, {panel, INT32_MAX}); }
    std::span<const Need> of(std::int32_t panel, std::int32_t k) const { return range({panel, k}, {panel, k}); }
    /// Bytes of A, B or both that one panel needs at one place along k.
    std::int64_t largest_slice(bool a = true, bool b = true) const;

  private:
    using Place = std::pair<std::int32_t, std::int32_t>;  // panel, k
    std::span<const Need> range(Place first, Place last) const;
    std::vector<Need> needs_;
};

/// X x Y patches of rows and columns, as few as have slices of `most` bytes (Herault et al., ScalA 2019, section
/// III.B): tiles of A pass by Y times, of B X times. The order becomes that of the patches; returns the panels.
std::vector<std::int32_t> cut_into_patches(const PlanWriter& w, int rank, std::vector<std::int32_t>& order,
                                           std::int64_t most);
/// Neighbouring groups, none across one of these ends, as many as have slices of `most` bytes together.
std::vector<std::int32_t> join_groups(const PlanWriter& w, const Passing& needs, std::vector<std::int32_t> group_of,
                                      const std::vector<std::size_t>& ends, std::int64_t most);
/// Panel after panel along k, each turn as much as needs `most` bytes.
std::vector<Stage> turns_along_k(const Passing& needs, const std::vector<std::int32_t>& panel_of, std::int64_t most);

}  // namespace tessera
