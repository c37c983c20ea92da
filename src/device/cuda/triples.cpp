// Plans the fused contraction for a CUDA device: which index plays which role, which terms are matrix products, and
// where their packed operands lie.
#include "device/fused.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "device/cuda/triples_device.hpp"

namespace tessera::device {

using namespace kernels;
using namespace kernels::cuda;

namespace {

using Roles = std::array<int, 6>;  // the output index of each role

constexpr const char* kPackedOperands = "device triples: packed operands";

bool carries(const FusedTerm& t, int index, bool a) { return ((t.a_indices >> index & 1U) != 0) == a; }

/// How a term meets the roles. layout 0: not as a matrix product.
struct Fit {
    int layout = 0, mask = 0;
    bool r_is_a = false;
};

Fit fit_of(const FusedTerm& t, const Roles& roles) {
    Fit fit;
    fit.r_is_a = carries(t, roles[0], true);
    for (int layout : {1, 2}) {
        if (carries(t, roles[lane_role(layout)], fit.r_is_a)) continue;
        unsigned mask = 0;
        for (int n = 0; n < 4; ++n)
            if (carries(t, roles[loop_role(layout, n)], fit.r_is_a)) mask |= 1U << n;
        if (std::popcount(mask) != 2) continue;
        fit.layout = layout;
        fit.mask = static_cast<int>(mask);
        break;
    }
    return fit;
}

/// The roles that cost least: padding, stores in partial sectors, and terms that are no matrix products.
Roles choose_roles(const BlockExtents& extents, std::span<const FusedTerm> terms, int contiguous, bool virtual_cubes) {
    Roles best{};
    double least = 1e300;
    Roles order{0, 1, 2, 3, 4, 5};
    do {
        // Closed-shell weights: loops 1, 2, 3 are c, b, a.
        if (virtual_cubes && (order[3] != 3 || order[4] != 4 || order[5] != 5)) continue;
        double cost = 1;
        for (int n = 0; n < 6; ++n) {
            const std::int64_t e = extents[order[n]], tile = role_tile(n);
            cost *= static_cast<double>((e + tile - 1) / tile * tile) / static_cast<double>(e);
        }
        if (contiguous >= 0 && order[0] != contiguous) cost *= 1.4;
        if (cost >= least) continue;
        double work = 1, slow = 1;
        for (const FusedTerm& t : terms) {
            work += static_cast<double>(t.sum_extent);
            slow += (fit_of(t, order).layout == 0 ? 40 : 1) * static_cast<double>(t.sum_extent);
        }
        cost *= slow / work;
        if (cost < least) {
            least = cost;
            best = order;
        }
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
}

}  // namespace

struct DeviceFused::Impl {
    FusedParams params{};
    FusedFinish finish = FusedFinish::store;
    Roles roles{};
    std::int64_t tiles = 1, partials = 0;
    double scale = 1;
    int grid = 0, products = 0;
    bool ran = false;
    std::vector<PackItem> items;
    std::size_t whole_items = 0;                // of these, packed together
    std::vector<std::pair<int, bool>> sources;  // of the items of products: the term, and whether it is operand a
    // For whom each item is: a group, -1 - (a direct term), or kEnergies + (a role); its second operand (s, b) or its
    // first.
    static constexpr int kEnergies = 100;
    std::vector<std::pair<int, bool>> targets;
    std::vector<DirectTerm> direct_terms;
    std::int64_t pack_blocks = 0;
    // Operands that come in pieces: the first item of each such term, one for each tile, and its thread blocks.
    struct Pieces {
        int term = 0;
        std::size_t first_item = 0;
        std::int64_t blocks = 0;
    };
    std::vector<Pieces> pieces;
    std::int64_t most_rows = 0;  // of a table
    DeviceBuffer packed, item_table, direct_table, singles_table, partial, scratch, counters;

    Impl(const BlockExtents& extents, std::span<const FusedTerm> list, std::span<const FusedTerm> singles,
         const FusedOutput* output, const EnergyEpilogue* epilogue, const OrbitTable* table = nullptr) {
        const bool closed = epilogue != nullptr && epilogue->weights == TripleWeights::closed_shell;
        finish = output != nullptr ? FusedFinish::store : closed ? FusedFinish::orbit : FusedFinish::energy;
        int contiguous = -1;
        for (int n = 5; output != nullptr && n >= 0; --n)
            if (output->stride[n] == 1 && extents[n] > 1) contiguous = n;
        roles = choose_roles(extents, list, contiguous, closed);
        for (int n = 0; n < 6; ++n) {
            const int index = roles[n];
            require(extents[index] <= INT32_MAX - 64, "device triples: extent {} is too long", extents[index]);
            params.extent[n] = static_cast<int>(extents[index]);
            params.tiles[n] = (params.extent[n] + role_tile(n) - 1) / role_tile(n);
            tiles *= params.tiles[n];
            if (output != nullptr) params.out_stride[n] = output->stride[index];
            if (epilogue != nullptr) {
                params.energies[n] = epilogue->orbital_energies[index];
                params.sign[n] = index < 3 ? 1.0 : -1.0;
            }
        }
        if (output != nullptr) {
            params.out = output->data;
            params.accumulate = output->accumulate ? 1 : 0;
        }
        if (table != nullptr) most_rows = table->most_rows;
        group_terms(list);
        const bool walks = can_walk(list, singles);
        if (walks) params.layout = 2;
        add_directs(list, singles);
        if (walks && epilogue != nullptr) add_energies();
        place_operands(table != nullptr ? std::span<const int>(table->in_pieces) : std::span<const int>());
        if (walks) walk(singles);
        if (epilogue != nullptr) reserve(epilogue->scale);
    }

    /// Terms with the same layout and mask share a group: their sums follow each other.
    void group_terms(std::span<const FusedTerm> list) {
        for (int layout : {1, 2})
            for (int mask = 1; mask < 15; ++mask) {
                std::int64_t sum = 0;
                const int number = params.groups1 + params.groups2;
                const std::size_t before = items.size();
                for (std::size_t at = 0; at < list.size(); ++at) {
                    const FusedTerm& t = list[at];
                    const Fit fit = fit_of(t, roles);
                    if (fit.layout != layout || fit.mask != mask) continue;
                    require(sum + t.sum_extent <= INT32_MAX - 64,
                            "device triples: summed extents of {} are too long for one group", sum + t.sum_extent);
                    for (bool s : {false, true}) {
                        add_product(t, fit, s, sum, number);
                        sources.emplace_back(static_cast<int>(at), s != fit.r_is_a);
                    }
                    sum += t.sum_extent;
                }
                if (items.size() == before) continue;
                ++(layout == 1 ? params.groups1 : params.groups2);
                products += static_cast<int>((items.size() - before) / 2);
                items[items.size() - 1].zeros_behind = items[items.size() - 2].zeros_behind = 1;
                PackedGroup& g = params.group[number];
                g.mask = mask;
                g.chunks = static_cast<int>((sum + kChunk - 1) / kChunk);
                for (std::size_t n = before; n < items.size(); ++n) items[n].chunks = g.chunks;
                for (bool s : {false, true})
                    set_steps(s ? g.s_step : g.r_step, product_roles(layout, mask, s), std::int64_t{g.chunks} * kChunk,
                              s ? kRowsS : kRowsR);
            }
        params.layout = params.groups2 > 0 ? 2 : 1;
    }

    /// The roles an operand of a product carries: of the lanes, then of its loops.
    static std::vector<int> product_roles(int layout, int mask, bool s) {
        std::vector<int> list{s ? lane_role(layout) : 0};
        for (int n = 0; n < 4; ++n)
            if (((mask >> n & 1) != 0) != s) list.push_back(loop_role(layout, n));
        return list;
    }
    /// Doubles from tile to tile of a packed operand, the first role fastest, `sum` summed elements long.
    void set_steps(long long* step, const std::vector<int>& carried, std::int64_t sum, int rows) const {
        std::int64_t slices = 1;
        for (int role : carried) {
            step[role] = checked_multiply(checked_multiply(slices, sum, kPackedOperands), rows, kPackedOperands);
            slices *= params.tiles[role];
        }
    }
    /// One operand of a term, without its destination; `carried` in the order the packing wants.
    PackItem item_of(const FusedTerm& t, const TermOperand& x, const std::vector<int>& carried,
                     std::int64_t begin) const {
        PackItem item{};
        item.from = x.data;
        item.factor = 1;
        item.sum_stride = x.sum_stride;
        item.begin = static_cast<int>(begin);
        item.end = static_cast<int>(begin + t.sum_extent);
        std::fill_n(item.tiles, 6, 1);
        int at = 0;
        for (int role : carried) {
            item.extent[at] = params.extent[role];
            item.stride[at] = x.stride[roles[role]];
            item.tiles[at++] = params.tiles[role];
        }
        return item;
    }
    void add_product(const FusedTerm& t, const Fit& fit, bool s, std::int64_t begin, int group) {
        PackItem item = item_of(t, s == fit.r_is_a ? t.b : t.a, product_roles(fit.layout, fit.mask, s), begin);
        item.kind = s ? PackKind::s : PackKind::r;
        item.rows = s ? kRowsS : kRowsR;
        if (s) item.factor = t.factor;
        items.push_back(item);
        targets.push_back({group, s});
    }

    void add_directs(std::span<const FusedTerm> list, std::span<const FusedTerm> singles) {
        for (bool single : {false, true})
            for (const FusedTerm& t : single ? singles : list) {
                if (!single && fit_of(t, roles).layout != 0) continue;
                require(t.sum_extent <= INT32_MAX - 64, "device triples: a summed extent of {} is too long",
                        t.sum_extent);
                DirectTerm d{};
                d.sum = static_cast<int>(t.sum_extent);
                for (bool a : {true, false}) {
                    const TermOperand& x = a ? t.a : t.b;
                    PackItem item = item_of(t, x, {}, 0);
                    std::vector<int> carried;
                    for (int n = 0; n < 6; ++n) {
                        if (!carries(t, roles[n], a)) continue;
                        carried.push_back(n);
                        item.carried |= 1 << n;
                        item.extent[n] = params.extent[n];
                        item.stride[n] = x.stride[roles[n]];
                        item.tiles[n] = params.tiles[n];
                    }
                    DirectOperandPlace& place = a ? d.a : d.b;
                    item.kind = PackKind::direct;
                    item.layout = params.layout;
                    if (a) item.factor = t.factor;
                    const int lane_roles[5] = {0, lane_role(params.layout), 3, 4, 5}, threads[5] = {8, 4, 2, 2, 2};
                    place.lanes = 1;
                    for (int n = 0; n < 5; ++n) {
                        if ((item.carried >> lane_roles[n] & 1) == 0) continue;
                        place.lane[n] = place.lanes;
                        place.lanes *= threads[n];
                    }
                    int elements = 1;
                    for (int n = 0; n < 4; ++n) {
                        if ((item.carried >> loop_role(params.layout, n) & 1) == 0) continue;
                        elements *= n == 0 ? 4 : 2;
                        if (a) d.mask |= 1 << n;
                    }
                    item.rows = (elements + 1) / 2 * 2 * place.lanes;
                    set_steps(place.step, carried, t.sum_extent, item.rows);
                    items.push_back(item);
                    targets.push_back({-1 - static_cast<int>(direct_terms.size()), !a});
                }
                direct_terms.push_back(d);
                ++(single ? params.direct_singles : params.direct_terms);
            }
    }

    /// Which of the disconnected terms of the triples this is (triples_device.hpp), and whether its small operand is
    /// a; -1: none of them.
    static std::pair<int, bool> single_number(const FusedTerm& t, const Roles& roles, int layout) {
        for (bool a : {true, false}) {
            int y = -1, x = -1, count = 0;
            for (int n = 0; n < 6; ++n) {
                if (!carries(t, roles[n], a)) continue;
                ++count;
                if (n > 2) y = n - 3;
                if (n < 3) x = n == 0 ? 0 : n == lane_role(layout) ? 1 : 2;
            }
            if (count == 2 && x >= 0 && y >= 0 && t.sum_extent == 1) return {3 * y + x, a};
        }
        return {-1, false};
    }

    /// Whether thread blocks can walk over tiles (triples_walk.cuh).
    bool can_walk(std::span<const FusedTerm> list, std::span<const FusedTerm> singles) const {
        int stages = 0;
        for (int n = 0; n < params.groups1 + params.groups2; ++n)
            stages += (params.group[n].chunks + kStageChunks - 1) / kStageChunks;
        // What is on its way must be of this tile and the next.
        if (stages <= kStages || products != static_cast<int>(list.size()) || (tiles > INT32_MAX && most_rows == 0) ||
            !walks_here())
            return false;
        // With one list of energies for a, b and c the denominators of an orbit are the same.
        if (finish == FusedFinish::orbit &&
            (params.energies[3] != params.energies[4] || params.energies[3] != params.energies[5]))
            return false;
        unsigned seen = 0;
        for (const FusedTerm& t : singles) {
            const int number = single_number(t, roles, 2).first;
            if (number < 0 || (seen >> number & 1U) != 0) return false;
            seen |= 1U << number;
        }
        return true;
    }
    /// Orbital energies are packed too: signed, to whole tiles.
    void add_energies() {
        for (int n = 0; n < 6; ++n) {
            PackItem item{};
            item.kind = PackKind::energies;
            item.from = params.energies[n];
            item.factor = params.sign[n];
            item.extent[0] = params.extent[n];
            item.rows = params.tiles[n] * role_tile(n);
            std::fill_n(item.tiles, 6, 1);
            items.push_back(item);
            targets.push_back({kEnergies + n, false});
        }
    }
    void walk(std::span<const FusedTerm> singles) {
        // The kernel knows its groups by their place; those without terms are empty.
        PackedGroup all[kNineGroups]{};
        for (int n = 0, taken = 0; n < kNineGroups; ++n) {
            if (taken == params.groups1 + params.groups2) break;
            if (params.group[taken].mask == kNineMasks[n] && (taken < params.groups1 ? 1 : 2) == kNineLayouts[n])
                all[n] = params.group[taken++];
        }
        std::copy_n(all, kNineGroups, params.group);
        std::vector<DirectTerm> ordered(kSingles);
        for (std::size_t n = 0; n < singles.size(); ++n) {
            const auto [number, a] = single_number(singles[n], roles, params.layout);
            ordered[number] = direct_terms[n];
            if (!a) std::swap(ordered[number].a, ordered[number].b);
            params.extra_bytes += 8U * static_cast<unsigned>(single_size(2 * number) + single_size(2 * number + 1));
        }
        for (int n = 0; n < 6; ++n) params.extra_bytes += 8U * static_cast<unsigned>(role_tile(n));
        if (!singles.empty()) {
            singles_table = DeviceBuffer(ordered.size() * sizeof(DirectTerm));
            copy_to_device(singles_table.data(), ordered.data(), ordered.size() * sizeof(DirectTerm));
            params.direct = static_cast<const DirectTerm*>(singles_table.data());
        }
        params.tile_count = static_cast<unsigned>(std::min<std::int64_t>(tiles, INT32_MAX));
        unsigned period = 1;
        for (int n = 0; n < 6; ++n) {
            params.period[n] = period;
            period *= static_cast<unsigned>(params.tiles[n]);
        }
        grid = static_cast<int>(std::min(tiles, static_cast<std::int64_t>(multiprocessors()) * kFusedBlocksPerSm));
    }

    /// Gives every packed operand its place, and the device the tables.
    void place_operands(std::span<const int> in_pieces) {
        if (items.empty()) return;
        std::int64_t doubles = 0;
        std::vector<std::int64_t> at(items.size(), -1);
        for (std::size_t n = 0; n < items.size(); ++n) {
            PackItem& item = items[n];
            std::int64_t slices = 1;
            for (int role = 0; role < 6; ++role) {
                item.period[role] = static_cast<unsigned>(slices);
                slices *= item.tiles[role];
            }
            require(slices <= INT32_MAX, "device triples: {} slices of an operand are too many", slices);
            const bool direct = item.kind == PackKind::direct, energies = item.kind == PackKind::energies;
            // The terms of a group share a place: the first has it.
            for (std::size_t m = 0; m < n && !direct && !energies && at[n] < 0; ++m)
                if (targets[m] == targets[n]) at[n] = at[m];
            if (at[n] < 0) {
                at[n] = doubles;
                const std::int64_t sum = energies ? 1 : direct ? item.end : item.chunks * std::int64_t{kChunk};
                doubles =
                    checked_add(doubles, checked_multiply(slices * item.rows, sum, kPackedOperands), kPackedOperands);
            }
            const int past = item.zeros_behind != 0 ? item.chunks : (item.end + kChunk - 1) / kChunk;
            item.parts = energies ? 1 : (past - item.begin / kChunk + kPackChunks - 1) / kPackChunks;
            item.first_block = pack_blocks;
            if (piece_of(n, in_pieces) < 0)
                pack_blocks = checked_add(pack_blocks, item.parts * slices, kPackedOperands);
        }
        require(pack_blocks <= INT32_MAX, "device triples: {} slices of operands are too many", pack_blocks);
        packed = DeviceBuffer(static_cast<std::size_t>(checked_multiply(doubles, sizeof(double), kPackedOperands)));
        for (std::size_t n = 0; n < items.size(); ++n) {
            items[n].to = static_cast<double*>(packed.data()) + at[n];
            const auto [target, second] = targets[n];
            if (target >= kEnergies)
                params.padded_energies[target - kEnergies] = items[n].to;
            else if (target >= 0)
                (second ? params.group[target].s : params.group[target].r) = items[n].to;
            else
                (second ? direct_terms[-1 - target].b : direct_terms[-1 - target].a).data = items[n].to;
        }
        cut_pieces(in_pieces);
        item_table = DeviceBuffer(items.size() * sizeof(PackItem));
        copy_to_device(item_table.data(), items.data(), items.size() * sizeof(PackItem));
        if (direct_terms.empty()) return;
        direct_table = DeviceBuffer(direct_terms.size() * sizeof(DirectTerm));
        copy_to_device(direct_table.data(), direct_terms.data(), direct_terms.size() * sizeof(DirectTerm));
        params.direct = static_cast<const DirectTerm*>(direct_table.data());
    }

    /// The place in the list of the term whose operand a this item is; -1: not of one in pieces.
    int piece_of(std::size_t item, std::span<const int> in_pieces) const {
        if (item >= sources.size()) return -1;
        for (std::size_t n = 0; n < in_pieces.size(); ++n)
            if (sources[item] == std::pair(in_pieces[n], true)) return static_cast<int>(n);
        return -1;
    }
    /// What comes in pieces has items behind all others, one for each tile of its last index, which lies apart. An item
    /// that is packed alone has block 0; those that stay have the numbers of blocks without the ones taken out.
    void cut_pieces(std::span<const int> in_pieces) {
        std::vector<PackItem> whole, cut;
        for (std::size_t n = 0; n < items.size(); ++n) {
            const int place = piece_of(n, in_pieces);
            if (place < 0) {
                whole.push_back(items[n]);
                continue;
            }
            PackItem item = items[n];
            const int tile = role_tile(5), tiles_there = item.tiles[2], extent = item.extent[2];
            const long long slices = static_cast<long long>(item.tiles[0]) * item.tiles[1];
            pieces.push_back({in_pieces[place], cut.size(), item.parts * slices});
            item.tiles[2] = 1;
            item.first_block = 0;
            for (int t = 0; t < tiles_there; ++t) {
                item.extent[2] = std::min(tile, extent - t * tile);
                cut.push_back(item);
                item.to += slices * item.chunks * kChunk * item.rows;
            }
        }
        for (Pieces& x : pieces) x.first_item += whole.size();
        whole_items = whole.size();
        items = std::move(whole);
        items.insert(items.end(), cut.begin(), cut.end());
    }

    void reserve(double factor) {
        scale = factor;
        partials = params.tile_count > 0 ? grid : tiles;
        if (finish == FusedFinish::orbit) {
            const std::int64_t n = params.tiles[3];
            const bool walks = params.tile_count > 0;
            params.orbits_of_row = static_cast<unsigned>(n * (n + 1) * (n + 2) / 6);
            params.orbits = (most_rows > 0 ? most_rows : tiles / (n * n * n)) * params.orbits_of_row;
            require(params.orbits <= INT32_MAX, "device triples: {} orbits are too many", params.orbits);
            partials = params.orbits * (walks ? kFusedWarps : 1);
            grid = static_cast<int>(
                std::min<std::int64_t>(params.orbits, std::int64_t{multiprocessors()} * kFusedBlocksPerSm));
            scratch = DeviceBuffer(static_cast<std::size_t>(grid) * (walks ? 2 : 6) * kTileElements * sizeof(double));
            params.scratch = static_cast<double*>(scratch.data());
        }
        partial = DeviceBuffer(static_cast<std::size_t>(partials + 1) * sizeof(double));
        params.partial = static_cast<double*>(partial.data());
        params.result = params.partial + partials;
        params.scale = scale;
        counters = DeviceBuffer(2 * sizeof(unsigned));
        fill_bytes(counters.data(), 0, 2 * sizeof(unsigned));
        params.arrived = static_cast<unsigned*>(counters.data());
        params.queue = params.arrived + 1;
    }

    /// As check_denominators.
    void check(StreamHandle stream) const {
        std::array<std::vector<double>, 6> lists;
        BlockExtents extents{};
        std::array<const double*, 6> energies{};
        for (int n = 0; n < 6; ++n) {
            auto& list = lists[n];
            list.resize(static_cast<std::size_t>(params.extent[n]));
            copy_to_host(list.data(), params.energies[n], list.size() * sizeof(double), stream);
            extents[roles[n]] = params.extent[n];
            energies[roles[n]] = list.data();
        }
        check_denominators(extents, energies);
    }

    void pack(StreamHandle stream) const {
        if (pack_blocks > 0)
            launch_pack(static_cast<const PackItem*>(item_table.data()), static_cast<int>(whole_items), pack_blocks,
                        stream);
    }
    void pack_piece(int term, int tile, StreamHandle stream) const {
        for (const Pieces& x : pieces)
            if (x.term == term)
                launch_pack(static_cast<const PackItem*>(item_table.data()) + x.first_item + tile, 1, x.blocks, stream);
    }
    void launch(StreamHandle stream) const {
        pack(stream);
        if (grid > 0) {
            launch_fused(params, finish, grid, stream);
        } else {
            // A grid holds 2^31 - 1 thread blocks; longer work goes in several.
            for (std::int64_t first = 0; first < tiles; first += INT32_MAX) {
                FusedParams p = params;
                p.first_tile = first;
                launch_fused(p, finish, static_cast<int>(std::min<std::int64_t>(tiles - first, INT32_MAX)), stream);
            }
        }
        if (finish != FusedFinish::store && params.tile_count == 0)
            launch_reduce(params.partial, partials, scale, params.result, stream);
    }

    void launch_rows(const OrbitRow* rows, std::int64_t count, double* energy, StreamHandle stream) const {
        FusedParams p = params;
        p.rows = rows;
        p.orbits = count * p.orbits_of_row;
        p.result = energy;
        launch_fused(p, finish, static_cast<int>(std::min<std::int64_t>(p.orbits, grid)), stream);
        if (p.tile_count == 0) launch_reduce(p.partial, p.orbits, scale, energy, stream);
    }
};

DeviceFused::DeviceFused(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output) {
    check_fused(extents, terms, output);
    impl_ = std::make_unique<Impl>(extents, terms, std::span<const FusedTerm>{}, &output, nullptr);
}

DeviceFused::DeviceFused(const BlockExtents& extents, std::span<const FusedTerm> terms,
                         const EnergyEpilogue& epilogue) {
    check_energy(extents, terms, epilogue);
    impl_ = std::make_unique<Impl>(extents, terms, epilogue.singles, nullptr, &epilogue);
}

DeviceFused::DeviceFused(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue,
                         const OrbitTable& table) {
    check_energy(extents, terms, epilogue);
    require(epilogue.weights == TripleWeights::closed_shell && table.most_rows > 0,
            "device triples: a table of {} rows, for closed-shell weights", table.most_rows);
    impl_ = std::make_unique<Impl>(extents, terms, epilogue.singles, nullptr, &epilogue, &table);
}

DeviceFused::~DeviceFused() = default;
DeviceFused::DeviceFused(DeviceFused&&) noexcept = default;
DeviceFused& DeviceFused::operator=(DeviceFused&&) noexcept = default;

void DeviceFused::run(StreamHandle stream) const {
    impl_->launch(stream);
    impl_->ran = true;
}

void DeviceFused::pack(StreamHandle stream) const { impl_->pack(stream); }
void DeviceFused::pack_piece(int term, int tile, StreamHandle stream) const { impl_->pack_piece(term, tile, stream); }
void DeviceFused::run_rows(const OrbitRow* rows, std::int64_t count, double* energy, StreamHandle stream) const {
    require(count >= 1 && count <= impl_->most_rows, "device triples: {} rows of {} at most", count, impl_->most_rows);
    impl_->launch_rows(rows, count, energy, stream);
}

double DeviceFused::energy(StreamHandle stream) const {
    require(impl_->finish != FusedFinish::store, "device triples: this plan stores its output, it has no energy");
    require(impl_->ran, "device triples: there is no energy before the first run");
    double value = 0;
    copy_to_host(&value, impl_->params.result, sizeof(double), stream);
    impl_->check(stream);
    return value;
}

std::string DeviceFused::description() const {
    const Impl& x = *impl_;
    return fmt::format("roles {}, {} products in {}+{} groups, {} direct, {:.1f} MB packed{}", fmt::join(x.roles, ""),
                       x.products, x.params.groups1, x.params.groups2, x.params.direct_terms + x.params.direct_singles,
                       static_cast<double>(x.packed.bytes()) * 1e-6, x.params.tile_count > 0 ? ", walks" : "");
}

}  // namespace tessera::device
