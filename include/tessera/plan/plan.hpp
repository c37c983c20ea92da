#pragma once
// What will happen in a contraction: a plain value with ids only, built by the inspector, run by the executor.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/scalar.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

enum class Operand : std::uint8_t { a, b, c };
/// How an operand's tiles come to be.
enum class SourceKind : std::uint8_t { stored, host_made };

/// Consecutive products of one result tile, ascending in k, on one share of the tile.
struct PlanChain {
    std::int32_t c = 0;         // slot of the result tile
    std::int32_t partial = -1;  // where the sum goes: a partial of the plan, or -1 for the tile itself
    std::int64_t first_product = 0;
    std::int32_t products = 0;
    std::uint16_t part = 0, parts = 1;  // which share of the tile's rows or columns
    bool starts = true;                 // the sum starts from zero here
    bool finishes = true;               // alpha, beta and the norm are taken here
    bool operator==(const PlanChain&) const = default;
};

/// A segment's running sum of one result tile, kept apart until the segments are joined.
struct PlanPartial {
    std::int32_t c = 0;
    std::int64_t offset = 0;  // in the arena, bytes
    bool operator==(const PlanPartial&) const = default;
};

/// A tile that is made during the run, and where in the arena it lives.
struct PlanMadeTile {
    Operand operand = Operand::b;
    std::int32_t slot = 0;
    std::int64_t offset = 0, bytes = 0;
    bool operator==(const PlanMadeTile&) const = default;
};

enum class StepKind : std::uint8_t {
    make,     // made_tiles [begin, end)
    compute,  // chains [begin, end)
    finish,   // result tiles [begin, end) of finish_tiles: join partials in the fixed tree, alpha, beta, norm
    join,     // nothing: stands for all it depends on
};

/// Steps are numbered in an order in which they may run; each waits for those it depends on.
struct PlanStep {
    StepKind kind = StepKind::join;
    std::int64_t begin = 0, end = 0;
    std::int64_t first_dependency = 0;
    std::int32_t dependencies = 0;
    bool operator==(const PlanStep&) const = default;
};

struct PlanCounts {
    double flops = 0;
    std::int64_t products = 0, made_tiles = 0, made_bytes = 0;
    std::int64_t bytes_a = 0, bytes_b = 0, bytes_c = 0;  // of tiles held for the whole run
    std::int64_t arena_bytes = 0;                        // for tiles made on demand and partial sums
    std::int64_t peak_host_bytes = 0;                    // all of the above
    double left_out_bound = 0;                           // norm of what the filter will skip before any work
    bool operator==(const PlanCounts&) const = default;
};

struct Plan {
    std::string spec, algorithm, reason;
    ScalarKind scalar = ScalarKind::f64;
    Shape a, b, c;  // c: the result's tiles with upper bounds of their norms
    SourceKind source_a = SourceKind::stored, source_b = SourceKind::stored;
    int threads = 1;
    int stages = 1;    // batches of made tiles
    int buffers = 0;   // how many of those batches are held at once
    int segments = 1;  // of the contracted range, joined by a fixed tree
    double filter = 0;
    std::vector<TileProduct> products;  // by result tile, ascending in k
    std::vector<PlanChain> chains;
    std::vector<PlanPartial> partials;
    std::vector<std::int32_t> finish_tiles;
    std::vector<PlanMadeTile> made_tiles;
    std::vector<PlanStep> steps;
    std::vector<std::int32_t> dependencies;
    std::vector<float> skipped;  // per result slot: norm bound of the products skipped; empty without a filter
    PlanCounts counts;

    std::int64_t metadata_bytes() const;
    bool operator==(const Plan&) const = default;
};

/// Proves that every surviving product is done exactly once and in order, that made tiles are there when they are
/// used and no two live ones overlap, that no step waits in a circle, and that bytes stay within the budget
/// (<= 0: none). Throws InternalError naming the first thing that is not so.
void validate(const Plan& plan, std::int64_t budget_bytes = 0);

/// The plan for a person: at most 100 columns.
std::string explain(const Plan& plan);
/// The same figures as one JSON object.
std::string explain_json(const Plan& plan);

}  // namespace tessera
