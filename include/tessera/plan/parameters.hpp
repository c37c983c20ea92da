#pragma once
// How the work of devices is cut: what may be set by hand.

#include <cstdint>
#include <optional>

namespace tessera {

/// Upper limits of what a device holds at a time. What is not given is computed from the device's memory and the
/// shapes. No setting changes a bit of the result.
struct PlanParameters {
    /// Of a device's memory, one block of C and the B that stays with it.
    std::optional<double> block_share = {};
    /// Likewise, one chunk of A and B.
    std::optional<double> chunk_share = {};
    /// Tile rows and tile columns of C in a block (b x c).
    std::optional<int> block_rows = {}, block_cols = {};
    /// Places along k in a chunk (worst_fit: tiles of each row of A) (d).
    std::optional<int> depth = {};
    /// Chunks that come while one is worked on; 0: none.
    std::optional<int> lookahead = {};
    bool operator==(const PlanParameters&) const = default;
    bool any() const { return block_share || chunk_share || block_rows || block_cols || depth || lookahead; }
};

}  // namespace tessera
