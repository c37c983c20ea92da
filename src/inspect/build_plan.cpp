#include "inspect/build_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "base/units.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kStageBytes = 256LL << 20;  // made tiles of one stage, where memory does not decide

std::vector<std::int64_t> tile_bytes(const Shape& shape, ScalarKind scalar) {
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(shape.tile_count()));
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        bytes[s] = align_up(shape.grid().tile_elements(shape.tile(s)) * bytes_of(scalar));
    return bytes;
}

std::int64_t total(const std::vector<std::int64_t>& v) { return std::accumulate(v.begin(), v.end(), std::int64_t{0}); }

/// Result tiles that need the same tiles of the streamed operand: a column of C where B streams, a row where A does.
struct Group {
    std::size_t begin, end;           // in the order of result tiles
    std::vector<std::int32_t> tiles;  // streamed tiles, ascending in k
    std::vector<std::int32_t> k;      // their places along k
};

/// Part of a group, with the streamed tiles of its k range.
struct Piece {
    std::size_t begin, end;
    std::int32_t k_end;  // products up to, not including, this place along k
};

struct Stage {
    std::vector<Piece> pieces;
    std::vector<PlanMadeTile> tiles;
    bool continues = false;  // its first piece goes on with tiles that an earlier stage began
};

class OneRankPlanner {
  public:
    OneRankPlanner(const PlanRequest& request, const MachineModel& machine, Plan& plan, const ProductShape& product)
        : request_(request), machine_(machine), plan_(plan), product_(product) {}

    void run() {
        place();
        cut_tiles();
        emit();
    }

  private:
    bool made(Operand o) const {
        return (o == Operand::a ? request_.source_a : request_.source_b) == SourceKind::host_made;
    }
    bool streams() const { return made(Operand::a) || made(Operand::b); }
    std::int32_t tile_of(Operand o, const TileProduct& p) const { return o == Operand::a ? p.a : p.b; }

    void place();
    void order_tiles();
    void place_partials(std::int64_t& arena, const std::vector<std::int64_t>& bytes_c);
    void place_resident(Operand o, const std::vector<std::int64_t>& bytes, std::int64_t& arena);
    Group group_from(std::size_t begin) const;
    void fill_stages(const std::vector<std::int64_t>& bytes, std::int64_t capacity);
    void cut_tiles();
    void emit();
    std::int32_t emit_makes(std::size_t begin, std::size_t end, std::int32_t after);
    void emit_computes(const Stage& stage, const std::vector<std::int32_t>& after);
    void emit_chains(std::int32_t c, std::int64_t first, std::int64_t last);
    void emit_finishes(const std::vector<std::int32_t>& tiles, std::int32_t after);
    std::int32_t add_step(StepKind kind, std::int64_t begin, std::int64_t end, const std::vector<std::int32_t>& after);

    const PlanRequest& request_;
    const MachineModel& machine_;
    Plan& plan_;
    const ProductShape& product_;

    Operand streamed_ = Operand::b;
    std::vector<std::int32_t> order_;    // result tiles in the order they are worked on
    std::vector<std::int64_t> done_to_;  // per result tile: products given to chains so far
    std::vector<std::int32_t> partial_;  // per result tile: first of its partials
    std::vector<std::uint16_t> parts_;   // per result tile
    std::vector<Stage> stages_;
    std::vector<std::int32_t> computes_;  // compute steps of the stage at hand
    std::vector<std::int32_t> finish_;    // result tiles whose last chain that stage had, to be finished apart
    double grain_ = 0;
};

std::int32_t OneRankPlanner::add_step(StepKind kind, std::int64_t begin, std::int64_t end,
                                      const std::vector<std::int32_t>& after) {
    PlanStep s{kind, begin, end, static_cast<std::int64_t>(plan_.dependencies.size()), 0};
    for (auto d : after)
        if (d >= 0) {
            plan_.dependencies.push_back(d);
            ++s.dependencies;
        }
    plan_.steps.push_back(s);
    return static_cast<std::int32_t>(plan_.steps.size()) - 1;
}

void OneRankPlanner::order_tiles() {
    order_.resize(static_cast<std::size_t>(plan_.c.tile_count()));
    std::iota(order_.begin(), order_.end(), 0);
    const bool by_column = plan_.algorithm == "stationary_b";
    const auto& major = by_column ? product_.col : product_.row;
    const auto& minor = by_column ? product_.row : product_.col;
    const auto less = [&](std::int32_t x, std::int32_t y) {
        return major[x] != major[y] ? major[x] < major[y] : minor[x] < minor[y];
    };
    if (!std::is_sorted(order_.begin(), order_.end(), less)) std::sort(order_.begin(), order_.end(), less);
}

/// A result tile's first segment sums into the tile itself, each further one into a partial of its own.
void OneRankPlanner::place_partials(std::int64_t& arena, const std::vector<std::int64_t>& bytes_c) {
    if (product_.segments == 1) return;
    partial_.resize(bytes_c.size());
    for (std::size_t c = 0; c < bytes_c.size(); ++c) {
        partial_[c] = static_cast<std::int32_t>(plan_.partials.size());
        for (std::int64_t p = product_.first[c] + 1; p < product_.first[c + 1]; ++p)
            if (product_.segment[product_.k[p]] != product_.segment[product_.k[p - 1]]) {
                plan_.partials.push_back({static_cast<std::int32_t>(c), arena});
                arena += bytes_c[c];
            }
    }
}

/// An operand that is made once, before all else, and stays.
void OneRankPlanner::place_resident(Operand o, const std::vector<std::int64_t>& bytes, std::int64_t& arena) {
    std::vector<bool> used(bytes.size());
    for (const auto& p : plan_.products) used[tile_of(o, p)] = true;
    for (std::size_t s = 0; s < bytes.size(); ++s)
        if (used[s]) {
            plan_.made_tiles.push_back({o, static_cast<std::int32_t>(s), arena, bytes[s]});
            arena += bytes[s];
        }
}

void OneRankPlanner::place() {
    const auto bytes_a = tile_bytes(plan_.a, plan_.scalar), bytes_b = tile_bytes(plan_.b, plan_.scalar);
    const auto bytes_c = tile_bytes(plan_.c, plan_.scalar);
    auto& n = plan_.counts;
    n.bytes_a = made(Operand::a) ? 0 : total(bytes_a);
    n.bytes_b = made(Operand::b) ? 0 : total(bytes_b);
    n.bytes_c = total(bytes_c);

    // With both operands made on demand the larger one streams.
    streamed_ = made(Operand::a) && (!made(Operand::b) || total(bytes_a) > total(bytes_b)) ? Operand::a : Operand::b;
    const bool stream_b = streamed_ == Operand::b && made(Operand::b);
    plan_.algorithm = request_.algorithm != "auto" ? request_.algorithm : stream_b ? "stationary_b" : "outer_product";
    require(!stream_b || plan_.algorithm == "stationary_b",
            "algorithm '{}' holds all of B, but B is made on demand: stationary_b is the one that fits",
            plan_.algorithm);
    require(!made(Operand::a) || stream_b || plan_.algorithm == "outer_product",
            "algorithm '{}' holds all of A, but A is made on demand: outer_product is the one that fits",
            plan_.algorithm);
    plan_.reason = stream_b ? "B is made on demand: each tile once, used by every row of A while it is there"
                   : made(Operand::a)
                       ? "A is made on demand: each tile once, used by every column of B while it is there"
                   : plan_.algorithm == "stationary_b" ? "asked for: result tiles column by column"
                                                       : "both operands are stored: result tiles row by row";
    order_tiles();

    std::int64_t arena = 0;
    place_partials(arena, bytes_c);
    const Operand other = streamed_ == Operand::a ? Operand::b : Operand::a;
    if (streams() && made(other)) place_resident(other, other == Operand::a ? bytes_a : bytes_b, arena);

    const auto& bytes = streamed_ == Operand::a ? bytes_a : bytes_b;
    const std::int64_t fixed = n.bytes_a + n.bytes_b + n.bytes_c + request_.other_bytes + arena;
    std::int64_t largest = 0;  // of the streamed tiles that some product needs
    if (streams())
        for (const auto& p : plan_.products) largest = std::max(largest, bytes[tile_of(streamed_, p)]);
    const std::int64_t limit = request_.memory > 0 ? request_.memory : INT64_MAX;
    if (limit - largest < fixed)
        throw BudgetError(
            fmt::format(
                "a memory budget of {} ({} bytes) is too small for '{}': the smallest that works is {} ({} bytes)",
                format_bytes(limit), limit, plan_.spec, format_bytes(fixed + largest), fixed + largest),
            limit, fixed + largest);
    if (streams()) {
        const std::int64_t room = limit - fixed;
        plan_.buffers = room / 3 >= largest ? 3 : room / 2 >= largest ? 2 : 1;
        fill_stages(bytes, std::max(largest, std::min(room / plan_.buffers, kStageBytes)));
        plan_.stages = static_cast<int>(stages_.size());
        plan_.buffers = std::min(plan_.buffers, plan_.stages);
        std::int64_t fullest = 0;
        for (const auto& s : stages_)
            if (!s.tiles.empty()) fullest = std::max(fullest, s.tiles.back().offset + s.tiles.back().bytes);
        for (std::size_t s = 0; s < stages_.size(); ++s)
            for (auto& t : stages_[s].tiles)
                t.offset += arena + static_cast<std::int64_t>(s % static_cast<std::size_t>(plan_.buffers)) * fullest;
        arena += plan_.buffers * fullest;
    } else {
        stages_.push_back({{{0, order_.size(), INT32_MAX}}, {}, false});
    }
    n.arena_bytes = arena;
    n.peak_host_bytes = n.bytes_a + n.bytes_b + n.bytes_c + request_.other_bytes + arena;
}

Group OneRankPlanner::group_from(std::size_t begin) const {
    const auto& key = streamed_ == Operand::b ? product_.col : product_.row;
    Group g{begin, begin, {}, {}};
    std::vector<std::pair<std::int32_t, std::int32_t>> seen;  // place along k, tile
    for (; g.end < order_.size() && key[order_[g.end]] == key[order_[begin]]; ++g.end) {
        const auto c = order_[g.end];
        for (auto p = product_.first[c]; p < product_.first[c + 1]; ++p)
            seen.emplace_back(product_.k[p], tile_of(streamed_, plan_.products[p]));
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    for (const auto& [k, tile] : seen) {
        g.k.push_back(k);
        g.tiles.push_back(tile);
    }
    return g;
}

/// Groups in order, each whole where it fits a stage, cut along k where it does not.
void OneRankPlanner::fill_stages(const std::vector<std::int64_t>& bytes, std::int64_t capacity) {
    Stage stage;
    std::int64_t filled = 0;
    const auto close = [&](bool goes_on) {
        if (!stage.pieces.empty()) stages_.push_back(std::move(stage));
        stage = Stage{};
        stage.continues = goes_on;
        filled = 0;
    };
    for (std::size_t begin = 0; begin < order_.size();) {
        const Group g = group_from(begin);
        std::int64_t all = 0;
        for (auto t : g.tiles) all += bytes[t];
        if (filled + all > capacity) close(false);
        for (std::size_t i = 0; i < g.tiles.size(); ++i) {
            const auto b = bytes[g.tiles[i]];
            if (filled + b > capacity) {
                stage.pieces.push_back({g.begin, g.end, g.k[i]});
                close(true);
            }
            stage.tiles.push_back({streamed_, g.tiles[i], filled, b});
            filled += b;
        }
        stage.pieces.push_back({g.begin, g.end, INT32_MAX});
        begin = g.end;
    }
    close(false);
}

/// A tile whose work is a large part of one thread's is cut into parts that several threads take.
void OneRankPlanner::cut_tiles() {
    const auto tiles = static_cast<std::size_t>(plan_.c.tile_count());
    parts_.assign(tiles, 1);
    done_to_.assign(product_.first.begin(), product_.first.begin() + static_cast<std::ptrdiff_t>(tiles));
    const int threads = machine_.threads_per_rank;
    grain_ = std::max(2e6, product_.flops / (128.0 * threads));
    if (threads == 1) return;
    const double a_thread = product_.flops / threads;
    for (std::size_t c = 0; c < tiles; ++c) {
        const double flops = product_.tile_flops[c];
        if (flops < 1e7) continue;
        // Each part packs B anew, so parts stay wide, unless so few tiles have the work that threads would idle.
        const double side =
            std::sqrt(static_cast<double>(plan_.c.grid().tile_elements(plan_.c.tile(static_cast<std::int64_t>(c)))));
        const double wide = std::min(std::ceil(64 * flops / a_thread), side / 256);
        const double narrow = std::min(std::ceil(2 * flops / a_thread), side / 48);
        parts_[c] = static_cast<std::uint16_t>(std::clamp(std::max(wide, narrow), 1.0, 65535.0));
    }
}

std::int32_t OneRankPlanner::emit_makes(std::size_t begin, std::size_t end, std::int32_t after) {
    std::vector<std::int32_t> makes;
    for (auto i = begin; i < end; ++i)
        makes.push_back(
            add_step(StepKind::make, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1, {after}));
    return makes.empty() ? after : add_step(StepKind::join, 0, 0, makes);
}

void OneRankPlanner::emit() {
    const std::int32_t resident = emit_makes(0, plan_.made_tiles.size(), -1);
    std::vector<std::int32_t> ready(stages_.size(), -1), done(stages_.size(), -1);
    const auto make = [&](std::size_t s) {
        if (s >= stages_.size()) return;
        const auto begin = plan_.made_tiles.size();
        plan_.made_tiles.insert(plan_.made_tiles.end(), stages_[s].tiles.begin(), stages_[s].tiles.end());
        // The buffer is free once the stage that had it is done.
        const auto buffers = static_cast<std::size_t>(plan_.buffers);
        ready[s] = emit_makes(begin, plan_.made_tiles.size(), s >= buffers && buffers > 0 ? done[s - buffers] : -1);
    };
    const bool ahead = plan_.buffers > 1;
    if (ahead) make(0);
    std::vector<std::int32_t> to_finish;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
        make(ahead ? s + 1 : s);
        const bool after_last = stages_[s].continues && s > 0;
        emit_computes(stages_[s], {resident, ready[s], after_last ? done[s - 1] : -1});
        done[s] = add_step(StepKind::join, 0, 0, computes_);
        // One stage late, so that no thread waits for the last computes of the stage before.
        if (s > 0) emit_finishes(to_finish, done[s - 1]);
        to_finish = std::move(finish_);
        finish_.clear();
    }
    if (!stages_.empty()) emit_finishes(to_finish, done.back());
    plan_.counts.made_tiles = static_cast<std::int64_t>(plan_.made_tiles.size());
    for (const auto& t : plan_.made_tiles) plan_.counts.made_bytes += t.bytes;
}

void OneRankPlanner::emit_computes(const Stage& stage, const std::vector<std::int32_t>& after) {
    computes_.clear();
    auto first_chain = plan_.chains.size();
    double flops = 0;
    const auto close = [&] {
        if (plan_.chains.size() == first_chain) return;
        computes_.push_back(add_step(StepKind::compute, static_cast<std::int64_t>(first_chain),
                                     static_cast<std::int64_t>(plan_.chains.size()), after));
        first_chain = plan_.chains.size();
        flops = 0;
    };
    for (const auto& piece : stage.pieces)
        for (auto i = piece.begin; i < piece.end; ++i) {
            const auto c = order_[i];
            const auto all_first = product_.first[c], all_last = product_.first[c + 1];
            const auto first = done_to_[c];
            const auto last = piece.k_end == INT32_MAX ? all_last
                                                       : std::lower_bound(product_.k.begin() + first,
                                                                          product_.k.begin() + all_last, piece.k_end) -
                                                             product_.k.begin();
            if (first == last && !(all_first == all_last && piece.k_end == INT32_MAX)) continue;
            const auto chains = plan_.chains.size();
            emit_chains(c, first, last);
            done_to_[c] = last;
            const double all = static_cast<double>(std::max<std::int64_t>(1, all_last - all_first));
            const double work = product_.tile_flops[c] * static_cast<double>(last - first) / all;
            if (parts_[c] > 1 || plan_.chains.size() - chains > 1) {
                // Each part is a step of its own, so that threads share the tile.
                const auto end = plan_.chains.size();
                if (chains > first_chain) {
                    computes_.push_back(add_step(StepKind::compute, static_cast<std::int64_t>(first_chain),
                                                 static_cast<std::int64_t>(chains), after));
                }
                for (auto k = chains; k < end; ++k)
                    computes_.push_back(add_step(StepKind::compute, static_cast<std::int64_t>(k),
                                                 static_cast<std::int64_t>(k) + 1, after));
                first_chain = end;
                flops = 0;
                continue;
            }
            if ((flops += work) >= grain_) close();
        }
    close();
}

/// The chains of products [first, last) of a result tile: one per segment and part.
void OneRankPlanner::emit_chains(std::int32_t c, std::int64_t first, std::int64_t last) {
    const auto all_first = product_.first[c], all_last = product_.first[c + 1];
    const bool segmented = product_.segments > 1 && all_last > all_first;
    const auto segment_of = [&](std::int64_t p) { return product_.segment[product_.k[p]]; };
    bool several = false;
    if (segmented) several = segment_of(all_first) != segment_of(all_last - 1);
    const bool apart = several || parts_[c] > 1;

    std::int32_t partial = -1;
    if (several)
        for (auto p = all_first + 1; p <= first && p < all_last; ++p)
            if (segment_of(p) != segment_of(p - 1)) partial = partial < 0 ? partial_[c] : partial + 1;
    for (auto at = first;;) {
        auto end = last;
        if (several)
            for (end = at + 1; end < last && segment_of(end) == segment_of(at);) ++end;
        for (int part = 0; part < parts_[c]; ++part) {
            PlanChain chain;
            chain.c = c;
            chain.partial = partial;
            chain.first_product = at;
            chain.products = static_cast<std::int32_t>(end - at);
            chain.part = static_cast<std::uint16_t>(part);
            chain.parts = parts_[c];
            chain.starts = at == all_first || (several && segment_of(at) != segment_of(at - 1));
            chain.finishes = !apart && end == all_last;
            plan_.chains.push_back(chain);
        }
        if (end == last) break;
        at = end;
        partial = partial < 0 ? partial_[c] : partial + 1;
    }
    if (apart && last == all_last) finish_.push_back(c);
}

void OneRankPlanner::emit_finishes(const std::vector<std::int32_t>& tiles, std::int32_t after) {
    for (auto c : tiles) {
        const auto at = static_cast<std::int64_t>(plan_.finish_tiles.size());
        plan_.finish_tiles.push_back(c);
        add_step(StepKind::finish, at, at + 1, {after});
    }
}

/// The tiles of an accumulated C that no product reaches are result tiles too, with no products.
ProductShape with_tiles_of(ProductShape product, const Shape& old, const ContractionSpec& spec, bool filtered) {
    const auto& grid = product.c.grid();
    ProductShape out;
    out.segments = product.segments;
    out.segment = std::move(product.segment);
    out.flops = product.flops;
    out.left_out_bound = product.left_out_bound;
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    out.first.push_back(0);
    std::int64_t i = 0, j = 0;
    while (i < product.c.tile_count() || j < old.tile_count()) {
        const auto x = i < product.c.tile_count() ? product.c.ordinals()[i] : INT64_MAX;
        const auto y = j < old.tile_count() ? old.ordinals()[j] : INT64_MAX;
        const auto tile = std::min(x, y);
        ordinals.push_back(tile);
        if (x == tile) {
            norms.push_back(product.c.norm_of(i));
            out.row.push_back(product.row[i]);
            out.col.push_back(product.col[i]);
            out.tile_flops.push_back(product.tile_flops[i]);
            if (filtered) out.skipped.push_back(product.skipped[i]);
            out.first.push_back(product.first[i + 1]);
            ++i;
        } else {
            std::int64_t row = 0, col = 0;
            const auto at = grid.coordinates(TileOrdinal{tile});
            for (int d = 0; d < grid.rank(); ++d)
                (spec.role(spec.c()[d]) == LabelRole::free_b ? col : row) += at[d] * grid.ordinal_strides()[d];
            norms.push_back(0);
            out.row.push_back(row);
            out.col.push_back(col);
            out.tile_flops.push_back(0);
            if (filtered) out.skipped.push_back(0);
            out.first.push_back(out.first.back());
        }
        if (y == tile) ++j;
    }
    out.products = std::move(product.products);
    out.k = std::move(product.k);
    out.c = Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
    return out;
}

}  // namespace

Plan build_plan(const PlanRequest& request, const MachineModel& machine) {
    static constexpr const char* known[] = {"auto", "stationary_b", "outer_product"};
    require(std::find(std::begin(known), std::end(known), request.algorithm) != std::end(known),
            "algorithm '{}': one of {} is possible", request.algorithm, fmt::join(known, ", "));
    Plan plan;
    plan.spec = request.spec->text();
    plan.scalar = request.scalar;
    plan.a = *request.a;
    plan.b = *request.b;
    plan.source_a = request.source_a;
    plan.source_b = request.source_b;
    plan.threads = machine.threads_per_rank;
    plan.filter = request.screening.filter;

    ProductShape product = product_shape(*request.spec, *request.a, *request.b, request.screening);
    if (request.accumulate)
        product = with_tiles_of(std::move(product), *request.accumulate, *request.spec, request.screening.filter > 0);
    plan.c = product.c;
    plan.segments = product.segments;
    plan.skipped = product.skipped;
    plan.products = std::move(product.products);
    const bool complex = request.scalar == ScalarKind::c64 || request.scalar == ScalarKind::c128;
    plan.counts.flops = product.flops * (complex ? 4 : 1);
    plan.counts.products = static_cast<std::int64_t>(plan.products.size());
    plan.counts.left_out_bound = product.left_out_bound;

    OneRankPlanner(request, machine, plan, product).run();
    return plan;
}

}  // namespace tessera
