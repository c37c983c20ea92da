#pragma once
// How a contraction is planned: what may be chosen by hand. No choice changes a bit of the result.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// One file each in src/inspect/ (docs/DESIGN.md, section 3). automatic: the cheapest by counting and simulating.
enum class Algorithm : std::uint8_t { automatic, stationary_b, outer_product, split_k, replicate_b, split_grid };
/// How devices form blocks of the result. stay and strips are the planner's own: they cannot be asked for.
enum class Blocks : std::uint8_t { automatic, columns, patches, worst_fit, stay, strips };
/// How stationary_b deals columns of B to ranks: by flops in mirrored cyclic order (published), or in patches of
/// columns that lie together, hence need the same tiles of A. automatic: the cheaper by counting.
enum class Deal : std::uint8_t { automatic, mirrored, place };
/// "auto", "stationary_b"...; "auto", "columns"...; "auto", "mirrored", "place".
const char* name(Algorithm algorithm);
const char* name(Blocks blocks);
const char* name(Deal deal);
/// Joined by commas.
std::string names(const std::vector<Blocks>& blocks);
/// The value of a name. UserError with the list of names that can be asked for.
Algorithm parse_algorithm(std::string_view text);
Blocks parse_blocks(std::string_view text);
Deal parse_deal(std::string_view text);

/// Upper limits of what a device holds at a time. What is not given is computed from the device's memory and the
/// shapes.
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

/// How to plan.
struct PlanOptions {
    Algorithm algorithm = Algorithm::automatic;
    Blocks blocks = Blocks::automatic;
    Deal deal = Deal::automatic;
    int grid_rows = 0, grid_cols = 0;  // of ranks; 0: from the shapes
    PlanParameters parameters = {};    // of device blocks and chunks
    bool operator==(const PlanOptions&) const = default;
};

}  // namespace tessera
