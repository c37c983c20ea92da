#pragma once
// What will happen in a contraction, on every rank and device: a plain value with ids only, built by the inspector,
// printed, checked, simulated and run.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/kept_vector.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/index/distribution.hpp"
#include "tessera/index/operand.hpp"
#include "tessera/plan/plan_options.hpp"
#include "tessera/shape/shape.hpp"
#include "tessera/shape/tile_views.hpp"

namespace TESSERA_API tessera {

/// How an operand's tiles come to be: stored on the ranks of its distribution, or made where they are needed.
enum class SourceKind : std::uint8_t { stored, host_made, device_made };

/// Where the two tiles of a product are in the memory of the one who multiplies: arrivals (Plan::arrivals), or -1 for
/// the tile where the rank, or the device, stores it.
struct ProductPlaces {
    std::int32_t a = -1, b = -1;
    bool operator==(const ProductPlaces&) const = default;
};

/// A tile of A or B comes into a memory: made, received, loaded or copied there by the step that lists it.
struct PlanArrival {
    Operand operand = Operand::b;
    std::int32_t slot = 0;
    std::int32_t from = -1;              // load, copy: the arrival it is taken from; -1: the tile stored there
    std::int64_t offset = 0, bytes = 0;  // in the arena of the step's memory
    bool operator==(const PlanArrival&) const = default;
};

/// A running sum of one result tile in some memory. A result tile has one per segment of k, and one for each further
/// memory that a sum passes through.
struct PlanSum {
    std::int32_t c = 0;  // slot of the result tile
    std::int32_t rank = 0;
    std::int16_t device = -1;  // -1: the rank's host memory
    std::int64_t offset = -1;  // in that memory's arena; -1: the result tile that is stored there
    bool operator==(const PlanSum&) const = default;
};

/// One sum goes to another: copied (store, send), or added (merge).
struct PlanMove {
    std::int32_t from = 0, to = 0;
    bool operator==(const PlanMove&) const = default;
};

/// Consecutive products of one sum, ascending in k, on one share of the tile.
struct PlanChain {
    std::int32_t sum = 0;
    std::int32_t products = 0;
    std::int64_t first_product = 0;
    std::uint16_t part = 0, parts = 1;  // which share of the tile's rows or columns
    bool starts = true;                 // the sum starts from zero here
    bool finishes = false;              // the tile is finished right here (its one sum is the stored tile)
    bool operator==(const PlanChain&) const = default;
};

enum class StepKind : std::uint8_t {
    make,          // arrivals [begin, end), by the generator
    send,          // arrivals [begin, end) of the peer rank, from the stored tiles
    receive,       // arrivals [begin, end), from the peer rank
    load,          // arrivals [begin, end), host to device
    copy,          // arrivals [begin, end), from the peer device of the same rank: tiles stored there are laid anew
    evict,         // arrivals [begin, end) of a device are given up: their memory is used anew from here on
    compute,       // chains [begin, end)
    store,         // moves [begin, end), device to host; or, where the peer is the device, into tiles stored on it
    send_sums,     // moves [begin, end), to the peer rank
    receive_sums,  // moves [begin, end), from the peer rank
    merge,         // moves [begin, end), added within the rank's host memory
    finish,        // finish_sums [begin, end): alpha, beta, norm of the stored result tile, where it is
    join,          // nothing: stands for all it depends on
};
const char* name(StepKind kind);

/// Steps are numbered in an order in which they may run; each waits for those it depends on, all of its own rank, and a
/// receive for its send (the send with the same items).
struct PlanStep {
    StepKind kind = StepKind::join;
    std::int16_t device = -1;  // whose memory or arithmetic: a device of the rank, or -1 for its host
    std::int32_t rank = 0;
    std::int32_t peer = -1;  // the other rank, or the other device
    std::int32_t dependencies = 0;
    std::int64_t first_dependency = 0;
    std::int64_t begin = 0, end = 0;
    bool operator==(const PlanStep&) const = default;
};

/// Of one rank. Device figures are in DeviceCounts.
struct RankCounts {
    double flops = 0;
    std::int64_t products = 0, made_tiles = 0, made_bytes = 0;
    std::int64_t sent_bytes = 0, received_bytes = 0;
    std::int64_t stored_a = 0, stored_b = 0, stored_c = 0;  // tiles the rank owns, for the whole run
    std::int64_t arena_bytes = 0;                           // received, made and partial tiles
    std::int64_t peak_bytes = 0;                            // all of these
    std::int64_t& stored(Operand o) { return o == Operand::a ? stored_a : o == Operand::b ? stored_b : stored_c; }
    bool operator==(const RankCounts&) const = default;
};
struct DeviceCounts {
    double flops = 0;
    std::int64_t loaded_bytes = 0, stored_bytes = 0, copied_bytes = 0, made_bytes = 0, made_tiles = 0;
    std::int64_t loaded_a = 0, loaded_b = 0;  // of loaded + copied, by operand
    std::int64_t blocks = 0, chunks = 0;
    std::int64_t kept_bytes = 0;  // of tensors that live on the device: within the budget too
    std::int64_t peak_bytes = 0;  // arena, within the budget
    std::int64_t& loaded(Operand o) { return o == Operand::a ? loaded_a : loaded_b; }
    std::int64_t loaded(Operand o) const { return o == Operand::a ? loaded_a : loaded_b; }
    bool operator==(const DeviceCounts&) const = default;
};

struct PlanCounts {
    double flops = 0;
    std::int64_t products = 0, made_tiles = 0, made_bytes = 0;
    std::int64_t bytes_a = 0, bytes_b = 0, bytes_c = 0;                 // of tiles held for the whole run, all ranks
    std::int64_t sent_bytes = 0;                                        // between ranks, all of them
    std::int64_t loaded_bytes = 0, stored_bytes = 0, copied_bytes = 0;  // host to device, back, device to device
    std::int64_t arena_bytes = 0;                                       // largest of any rank
    std::int64_t peak_host_bytes = 0;                                   // largest of any rank
    std::int64_t peak_device_bytes = 0;                                 // largest of any device, what it keeps included
    double left_out_bound = 0;  // norm of what the filter will skip before any work
    /// What flops and the bytes of A, B and C would be without symmetry and folded sums; the same where there are none.
    double whole_flops = 0;
    std::int64_t whole_bytes = 0;
    bool operator==(const PlanCounts&) const = default;
};

/// Tiles of A and B that ranks send each other. Where a rank's host has no room for all that it needs of others, they
/// pass through a ring, turn after turn of its work, and may come again.
struct PlanStreams {
    int ranks = 0;                            // that have a ring
    std::int64_t ring_bytes = 0;              // the largest
    std::int64_t turns = 0, lookahead = 0;    // the most; how many turns before its own a tile may come, the least
    std::int64_t once_a = 0, once_b = 0;      // bytes if each tile came once to each rank that needs it
    std::int64_t sent_a = 0, sent_b = 0;      // as they are sent
    std::int64_t blocks_a = 0, blocks_b = 0;  // if none stayed from one turn to the next (ScalA 2019, section III.B)
    bool operator==(const PlanStreams&) const = default;
};

/// What a device's memory has room for: the published four cases (Herault et al., ScalA 2019, section III.B), of the
/// device that is worst off.
enum class MemoryCase : std::uint8_t {
    all_fits,      // A, B and a block of C: nothing comes twice
    c_fits,        // one block of C: A and B pass by once
    b_fits,        // columns of B stay, or pass by once, with their block of C; A comes for every block
    nothing_fits,  // A and B come again and again
};
const char* name(MemoryCase fits);

/// What was weighed before this plan was taken.
struct PlanCandidate {
    Algorithm algorithm = Algorithm::automatic;
    std::string reason = {};
    std::int64_t bytes_sent = 0;
    double seconds_predicted = 0;  // not simulated: by counting; 0 where nothing was weighed
    bool chosen = false, possible = true;
    std::vector<Blocks> blocks = {};  // how device blocks are formed: of all ranks, each way once
    std::int64_t bytes_loaded = 0;    // from the host into devices; not simulated: about, from anywhere
    bool simulated = false;           // a plan was written for it, and its steps simulated
    bool same_plan = false;           // on one rank: its plan is the chosen one's
    bool operator==(const PlanCandidate&) const = default;
};

/// Budgets a plan is held to; <= 0: none.
struct PlanBudget {
    std::int64_t host_bytes = 0;    // per rank
    std::int64_t device_bytes = 0;  // per device
    bool operator==(const PlanBudget&) const = default;
};

struct Plan {
    std::string spec, reason;
    Algorithm algorithm = Algorithm::automatic;  // that was taken
    ScalarKind scalar = ScalarKind::f64;
    Shape a, b, c;  // c: the result's tiles with upper bounds of their norms, those that are stored
    /// Of operands with symmetry: a and b are then whole, and many of their tiles are stored as one. A host's memory
    /// has what is stored: arrivals there and sends name the slot of that. Devices get tiles as they are seen.
    TileViews views_a, views_b;
    Distribution distribution_a, distribution_b, distribution_c;
    SourceKind source_a = SourceKind::stored, source_b = SourceKind::stored;
    /// Which device of its rank stores each tile of A, B and C, by slot; -1: the host does. Empty: all are on hosts.
    std::vector<std::int16_t> homes_a, homes_b, homes_c;
    int ranks = 1, devices_per_rank = 0;
    int threads = 1;  // per rank
    int grid_rows = 1, grid_cols = 1;
    std::vector<Blocks> blocks;                     // as in PlanCandidate
    PlanOptions given;                              // as it was asked for
    PlanParameters used;                            // the largest of any device
    MemoryCase memory_case = MemoryCase::all_fits;  // of devices
    int stages = 1, buffers = 0;                    // batches of made tiles on the host and how many are held at once
    int segments = 1;                               // of the contracted range, joined by a fixed tree
    double filter = 0;
    double alpha_magnitude = 1, beta_magnitude = 0;  // |alpha| and |beta|, which the filter counts with
    Shape added;                                     // with a filter: what was there already
    bool shape_given = false;                        // the result's tiles were given, not found
    std::int64_t other_bytes = 0;                    // a rank holds besides, as in PlanRequest
    KeptVector<TileProduct> products;                // by result tile, ascending in k
    KeptVector<ProductPlaces> places;                // of each product; none: all tiles are where they are stored
    KeptVector<PlanChain> chains;
    KeptVector<PlanArrival> arrivals;
    KeptVector<PlanSum> sums;
    std::vector<PlanMove> moves;
    std::vector<std::int32_t> finish_sums;
    KeptVector<PlanStep> steps;
    std::vector<std::int32_t> dependencies;
    std::vector<float> skipped;  // per result slot: norm bound of the products skipped; empty without a filter
    std::vector<RankCounts> rank_counts;
    std::vector<DeviceCounts> device_counts;  // rank * devices_per_rank + device
    std::vector<PlanCandidate> candidates;
    std::string decided;  // why the chosen one is
    PlanCounts counts;
    PlanStreams streams;  // across ranks
    PlanBudget budget;    // that it was built for

    const Shape& shape(Operand o) const { return o == Operand::a ? a : o == Operand::b ? b : c; }
    const Distribution& distribution(Operand o) const {
        return o == Operand::a ? distribution_a : o == Operand::b ? distribution_b : distribution_c;
    }
    const std::vector<std::int16_t>& homes(Operand o) const {
        return o == Operand::a ? homes_a : o == Operand::b ? homes_b : homes_c;
    }
    int home(Operand o, std::int64_t slot) const {
        const auto& all = homes(o);
        return all.empty() ? -1 : all[static_cast<std::size_t>(slot)];
    }
    /// Whether any tile is stored on a device.
    bool resident() const { return !homes_a.empty() || !homes_b.empty() || !homes_c.empty(); }
    ProductPlaces places_of(std::int64_t product) const {
        return places.empty() ? ProductPlaces{} : places[static_cast<std::size_t>(product)];
    }
    /// Of A or B.
    const TileViews& views(Operand o) const { return o == Operand::a ? views_a : views_b; }
    /// The slot of the tile that is stored for this one.
    std::int32_t place(Operand o, std::int32_t slot) const { return o == Operand::c ? slot : views(o).place(slot); }
    SourceKind source(Operand o) const { return o == Operand::a ? source_a : source_b; }
    std::int64_t metadata_bytes() const;
    bool operator==(const Plan&) const = default;
};

/// Proves that the products are those that follow from the shapes and the filter, each done exactly once and in order,
/// and partial sums joined by the fixed tree; that tiles are there when they are used, every one that comes is used and
/// no two live ones overlap; that sends meet receives, no step waits in a circle and a tile is made at most once per
/// rank; that all counts are those of the steps; and that bytes stay within this budget and the plan's own (a device's
/// less its reserve).
/// Throws InternalError naming the first thing that is not so.
void validate(const Plan& plan, const PlanBudget& budget = {});

/// The plan for a person: at most 100 columns.
std::string explain(const Plan& plan);
/// The same figures as one JSON object.
std::string explain_json(const Plan& plan);

}  // namespace tessera
