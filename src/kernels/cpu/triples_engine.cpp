#include "kernels/cpu/triples_engine.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::kernels::cpu {

namespace {

constexpr std::int64_t kPiece = 32;               // summed index per pass: its panels share L1 with the sub-block
constexpr std::int64_t kGroupBytes = 1280 << 10;  // operand slices of a block that L2 keeps beside the block

}  // namespace

double* AlignedDoubles::reserve(std::int64_t count) {
    const auto bytes = checked_multiply(checked_add(count, 7, "workspace") / 8, 64, "workspace");
    if (bytes > data_.bytes()) {
        data_ = Buffer();  // the old one goes before the new one comes
        data_ = Buffer(bytes, nullptr, "workspace of the triples");
    }
    return reinterpret_cast<double*>(data_.data());
}

FusedEngine::FusedEngine(const BlockTiling& tiling, std::span<const FusedTerm> terms, TermKernel kernel, int threads,
                         AlignedDoubles& storage)
    : tiling_(tiling), terms_(terms.begin(), terms.end()), kernel_(kernel) {
    const BlockTiling& t = tiling_;
    std::int64_t total = 0;
    double packed_bytes = 0;
    std::int64_t group_bytes = 0;
    groups_.push_back(0);
    for (std::size_t number = 0; number < terms_.size(); ++number) {
        const FusedTerm& term = terms_[number];
        TermPlan plan;
        plan.p_is_a = (term.a_indices >> t.vec & 1U) != 0;
        for (int n = 0; n < kBlockRank; ++n)
            if (n != t.vec) (((term.a_indices >> n & 1U) != 0) == plan.p_is_a ? plan.p : plan.q).indices.push_back(n);
        for (Side* side : {&plan.p, &plan.q}) {
            unsigned ragged = 0;
            for (int n : side->indices) {
                side->bits |= 1U << n;
                if (inside(n) < t.tile[n]) ragged |= 1U << n;
            }
            for (unsigned last = 0; last < side->offsets.size(); ++last) {
                if ((last & ~ragged) != 0) continue;
                auto& offsets = side->offsets[last];
                offsets = {0};
                for (int n : side->indices) {  // first index fastest
                    std::vector<int> longer;
                    for (int x = 0; x < ((last >> n & 1U) != 0 ? inside(n) : t.tile[n]); ++x)
                        for (int o : offsets) longer.push_back(o + x * t.in_stride[n]);
                    offsets = std::move(longer);
                }
            }
        }
        Piece piece;
        piece.term = static_cast<int>(number);
        piece.m = static_cast<int>(plan.p.offsets[0].size());
        piece.n = static_cast<int>(plan.q.offsets[0].size());
        std::int64_t p_slices = t.per_block[t.vec], q_slices = 1;
        for (int n : plan.p.indices) p_slices *= t.per_block[n];
        for (int n : plan.q.indices) q_slices *= t.per_block[n];
        const std::int64_t passes = (term.sum_extent - 1) / kPiece + 1;
        auto tiles_p = static_cast<double>(t.tiles[t.vec]), tiles_q = 1.0;
        for (int n : plan.p.indices) tiles_p *= static_cast<double>(t.tiles[n]);
        for (int n : plan.q.indices) tiles_q *= static_cast<double>(t.tiles[n]);
        packed_bytes += 8.0 * static_cast<double>(term.sum_extent) * (tiles_p * piece.m * t.lanes + tiles_q * piece.n) +
                        static_cast<double>(passes) * sizeof(Piece);
        require(packed_bytes <= static_cast<double>(memory_bytes()),
                "fused term {}: with a summed extent of {} the packed operands take {:.3g} bytes, more than the {} of "
                "this machine's memory",
                number, term.sum_extent, packed_bytes, memory_bytes());
        for (std::int64_t pass = 0; pass < passes; ++pass) {
            piece.sum_begin = term.sum_extent * pass / passes;
            piece.k = static_cast<int>(term.sum_extent * (pass + 1) / passes - piece.sum_begin);
            for (bool p_side : {true, false}) {
                auto& step = p_side ? piece.p_step : piece.q_step;
                auto& count = p_side ? piece.p_count : piece.q_count;
                const std::int64_t tile = static_cast<std::int64_t>(p_side ? piece.m * t.lanes : piece.n) * piece.k;
                // A tile starts on a cache line, so that vectors of P are aligned.
                const std::int64_t padded = (tile + 7) / 8 * 8;
                std::int64_t tiles = 1;
                step.fill(0);
                count.fill(1);
                for (int n = 0; n < kBlockRank; ++n) {
                    const Side& side = p_side ? plan.p : plan.q;
                    const bool mine = n == t.vec ? p_side : std::ranges::find(side.indices, n) != side.indices.end();
                    if (!mine) continue;
                    step[n] = checked_multiply(padded, tiles, "packed operand");
                    count[n] = t.tiles[n];
                    tiles = checked_multiply(tiles, t.tiles[n], "packed operand");
                }
                (p_side ? piece.p_base : piece.q_base) = total;
                (p_side ? piece.p_tile : piece.q_tile) = padded;
                (p_side ? piece.p_tiles : piece.q_tiles) = tiles;
                total = checked_add(total, checked_multiply(tiles, padded, "packed operand"), "packed operands");
            }
            const std::int64_t bytes = 8 * (p_slices * piece.p_tile + q_slices * piece.q_tile);
            if (group_bytes > 0 && group_bytes + bytes > kGroupBytes) {
                groups_.push_back(pieces_.size());
                group_bytes = 0;
            }
            group_bytes += bytes;
            pieces_.push_back(piece);
        }
        plans_.push_back(std::move(plan));
    }
    groups_.push_back(pieces_.size());

    double* packed = storage.reserve(std::max<std::int64_t>(total, 1));
    packed_ = packed;
    std::vector<std::int64_t> first{0};  // job numbers: all P tiles, then all Q tiles of each piece
    for (const Piece& piece : pieces_) {
        first.push_back(first.back() + piece.p_tiles);
        first.push_back(first.back() + piece.q_tiles);
    }
    parallel_for(first.back(), threads, 16, [&](std::int64_t job) {
        const std::int64_t which = std::upper_bound(first.begin(), first.end(), job) - first.begin() - 1;
        const Piece& piece = pieces_[static_cast<std::size_t>(which / 2)];
        const bool p_side = which % 2 == 0;
        const std::int64_t tile = job - first[static_cast<std::size_t>(which)];
        pack_tile(piece, p_side, tile,
                  packed + (p_side ? piece.p_base + tile * piece.p_tile : piece.q_base + tile * piece.q_tile));
    });
}

int FusedEngine::inside(int n) const {
    const auto rest = static_cast<int>(tiling_.extents[n] % tiling_.tile[n]);
    // The kernel takes 1, 2 and multiples of 4: tiles are powers of two, and so must be what is left of one.
    return rest > 0 && (rest & (rest - 1)) == 0 ? rest : tiling_.tile[n];
}

void FusedEngine::pack_tile(const Piece& piece, bool p_side, std::int64_t tile, double* out) const {
    const BlockTiling& t = tiling_;
    const TermPlan& plan = plans_[static_cast<std::size_t>(piece.term)];
    const FusedTerm& term = terms_[static_cast<std::size_t>(piece.term)];
    const bool is_a = plan.p_is_a == p_side;
    const TermOperand& operand = is_a ? term.a : term.b;
    const double factor = is_a ? 1.0 : term.factor;
    const Side& side = p_side ? plan.p : plan.q;
    const auto& count = p_side ? piece.p_count : piece.q_count;

    BlockExtents origin{};
    std::array<int, kBlockRank> taken = t.tile;  // positions along each index
    int positions = 1;
    for (int n = 0; n < kBlockRank; ++n) {
        origin[n] = tile % count[n] * t.tile[n];
        tile /= count[n];
        if (origin[n] + t.tile[n] > t.extents[n]) taken[n] = inside(n);
        if ((side.bits >> n & 1U) != 0) positions *= taken[n];
    }
    const std::int64_t step = operand.sum_stride;
    const double* source = operand.data + piece.sum_begin * step;
    int lanes = 1, valid = 1;
    std::int64_t lane_step = 0;
    if (p_side) {
        lanes = t.lanes;
        valid = static_cast<int>(std::min<std::int64_t>(lanes, t.extents[t.vec] - origin[t.vec]));
        lane_step = operand.stride[t.vec];
        source += origin[t.vec] * lane_step;
    }
    const int panel = std::min(positions, 4), k = piece.k;
    // Source offset of each position, or `outside` where the tile sticks out of the tensor.
    constexpr std::int64_t outside = INT64_MIN;
    std::vector<std::int64_t> at{0};
    for (int n : side.indices) {
        std::vector<std::int64_t> longer;
        longer.reserve(at.size() * static_cast<std::size_t>(taken[n]));
        for (int x = 0; x < taken[n]; ++x)
            for (std::int64_t o : at)
                longer.push_back(
                    o == outside || origin[n] + x >= t.extents[n] ? outside : o + (origin[n] + x) * operand.stride[n]);
        at = std::move(longer);
    }
    if (step == 1 || step == -1) {  // the summed index is contiguous: walk it innermost
        for (int x = 0; x < positions; ++x) {
            double* to = out + (static_cast<std::int64_t>(x / panel) * k * panel + x % panel) * lanes;
            for (int lane = 0; lane < lanes; ++lane) {
                if (at[x] == outside || lane >= valid) {
                    for (int s = 0; s < k; ++s) to[s * panel * lanes + lane] = 0;
                    continue;
                }
                const double* from = source + at[x] + lane * lane_step;
                for (int s = 0; s < k; ++s) to[s * panel * lanes + lane] = factor * from[s * step];
            }
        }
        return;
    }
    for (int base = 0; base < positions; base += panel)
        for (int s = 0; s < k; ++s)
            for (int x = base; x < base + panel; ++x) {
                double* to = out + (static_cast<std::int64_t>(base) * k + s * panel + x - base) * lanes;
                const int have = at[x] == outside ? 0 : valid;
                const double* from = have > 0 ? source + at[x] + s * step : nullptr;
                for (int lane = 0; lane < have; ++lane) to[lane] = factor * from[lane * lane_step];
                for (int lane = have; lane < lanes; ++lane) to[lane] = 0;
            }
}

void FusedEngine::add(const BlockExtents& block, double* buffer) const {
    const BlockTiling& t = tiling_;
    std::array<std::int64_t, kBlockRank> first{};
    std::array<int, kBlockRank> counts{};
    for (int n = 0; n < kBlockRank; ++n) {
        first[n] = block[n] * t.per_block[n];
        counts[n] = static_cast<int>(std::min<std::int64_t>(t.per_block[n], t.tiles[n] - first[n]));
    }
    for (std::size_t g = 0; g + 1 < groups_.size(); ++g) {
        std::array<int, kBlockRank> x{};
        for (bool more = true; more;) {
            double* c = buffer;
            unsigned last = 0;
            for (int n = 0; n < kBlockRank; ++n) {
                c += x[n] * t.sub_stride[n];
                if (n != t.vec && first[n] + x[n] + 1 == t.tiles[n] && inside(n) < t.tile[n]) last |= 1U << n;
            }
            for (std::size_t number = groups_[g]; number < groups_[g + 1]; ++number) {
                const Piece& piece = pieces_[number];
                const TermPlan& plan = plans_[static_cast<std::size_t>(piece.term)];
                const double* p = packed_ + piece.p_base;
                const double* q = packed_ + piece.q_base;
                for (int n = 0; n < kBlockRank; ++n) {
                    p += (first[n] + x[n]) * piece.p_step[n];
                    q += (first[n] + x[n]) * piece.q_step[n];
                }
                const auto &rows = plan.p.offsets[last & plan.p.bits], &columns = plan.q.offsets[last & plan.q.bits];
                kernel_(c, p, q, static_cast<int>(rows.size()), static_cast<int>(columns.size()), piece.k, rows.data(),
                        columns.data());
            }
            more = false;
            for (int n = 0; n < kBlockRank && !more; ++n) {
                if (++x[n] < counts[n])
                    more = true;
                else
                    x[n] = 0;
            }
        }
    }
}

}  // namespace tessera::kernels::cpu
