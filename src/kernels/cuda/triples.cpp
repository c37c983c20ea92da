// Plans the fused contraction for a CUDA device: which index plays which role, which terms are matrix products, and
// where their packed operands lie.
#include "kernels/cuda/triples.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.hpp"
#include "kernels/cuda/triples_device.hpp"

namespace tessera::kernels::cuda {

namespace {

using Roles = std::array<int, 6>;  // the output index of each role

constexpr int role_tile(int role) { return role == 0 ? kRoleTile0 : kRoleTileN; }

bool carries(const FusedTerm& t, int index, bool a) { return ((t.a_indices >> index & 1U) != 0) == a; }

/// How a term meets the roles. layout 0: not as a matrix product.
struct Fit {
    int layout = 0, mask = 0;
    bool r_is_a = false;
};

/// Roles of the loops in a layout.
std::array<int, 4> loop_roles(int layout) { return {layout == 1 ? 2 : 1, 3, 4, 5}; }

Fit fit_of(const FusedTerm& t, const Roles& roles) {
    Fit fit;
    fit.r_is_a = carries(t, roles[0], true);
    for (int layout : {1, 2}) {
        if (carries(t, roles[static_cast<std::size_t>(layout)], fit.r_is_a)) continue;
        unsigned mask = 0;
        const auto loops = loop_roles(layout);
        for (std::size_t n = 0; n < 4; ++n)
            if (carries(t, roles[static_cast<std::size_t>(loops[n])], fit.r_is_a)) mask |= 1U << n;
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
    std::vector<PackItem> items;
    std::int64_t pack_blocks = 0;
    DeviceBuffer packed, item_table, directs, partial, scratch;

    Impl(const BlockExtents& extents, std::span<const FusedTerm> list, std::span<const FusedTerm> singles,
         const FusedOutput* output, const EnergyEpilogue* epilogue) {
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
        group_terms(list);
        collect_directs(list, singles);
        if (epilogue != nullptr) reserve(epilogue->scale);
    }

    /// Terms with the same layout and mask share a group: their sums follow each other.
    void group_terms(std::span<const FusedTerm> list) {
        struct Size {
            std::int64_t sum = 0, r_slices = 1, s_slices = 1;
        };
        std::vector<Size> sizes;
        for (int layout : {1, 2})
            for (int mask = 1; mask < 15; ++mask) {
                Size size;
                const auto loops = loop_roles(layout);
                const int number = static_cast<int>(sizes.size());
                const std::size_t before = items.size();
                for (const FusedTerm& t : list) {
                    const Fit fit = fit_of(t, roles);
                    if (fit.layout != layout || fit.mask != mask) continue;
                    add_items(t, fit, loops, size.sum, number);
                    size.sum += t.sum_extent;
                    ++products;
                }
                if (items.size() == before) continue;
                require(size.sum <= INT32_MAX - 64, "device triples: summed extents of {} are too long for one group",
                        size.sum);
                PackedGroup& g = params.group[number];
                g.mask = mask;
                g.chunks = static_cast<int>((size.sum + kChunk - 1) / kChunk);
                // Slices of r count x0 first, those of s the other index of the lanes, then the loops.
                auto step = [&](long long* steps, std::int64_t& slices, int role, int rows) {
                    steps[role] = slices * g.chunks * rows * kChunk;
                    slices *= params.tiles[role];
                };
                step(g.r_step, size.r_slices, 0, kRowsR);
                step(g.s_step, size.s_slices, layout, kRowsS);
                for (int n = 0; n < 4; ++n) {
                    const int role = loops[static_cast<std::size_t>(n)];
                    if (mask >> n & 1)
                        step(g.r_step, size.r_slices, role, kRowsR);
                    else
                        step(g.s_step, size.s_slices, role, kRowsS);
                }
                ++(layout == 1 ? params.groups1 : params.groups2);
                sizes.push_back(size);
                items[items.size() - 1].zeros_behind = items[items.size() - 2].zeros_behind = 1;
            }
        place_groups(sizes);
    }

    /// Both operands of one term; `chunks` holds the group's number until the groups have their place.
    void add_items(const FusedTerm& t, const Fit& fit, const std::array<int, 4>& loops, std::int64_t begin, int group) {
        for (bool s : {false, true}) {
            const TermOperand& x = (s == fit.r_is_a) ? t.b : t.a;
            PackItem item{};
            item.from = x.data;
            item.is_s = s ? 1 : 0;
            item.factor = s ? t.factor : 1.0;
            item.sum_stride = x.sum_stride;
            item.begin = static_cast<int>(std::min<std::int64_t>(begin, INT32_MAX));
            item.end = static_cast<int>(std::min<std::int64_t>(begin + t.sum_extent, INT32_MAX));
            item.chunks = group;
            int at = 0;
            auto carry = [&](int role) {
                item.stride[at] = x.stride[roles[role]];
                item.extent[at] = params.extent[role];
                item.tiles[at++] = params.tiles[role];
            };
            carry(s ? fit.layout : 0);
            for (int n = 0; n < 4; ++n)
                if (((fit.mask >> n & 1) != 0) != s) carry(loops[static_cast<std::size_t>(n)]);
            items.push_back(item);
        }
    }

    template <class Sizes>
    void place_groups(const Sizes& sizes) {
        if (items.empty()) return;
        std::int64_t doubles = 0;
        std::vector<std::array<std::int64_t, 2>> at;  // r and s of each group
        for (std::size_t g = 0; g < sizes.size(); ++g) {
            const std::int64_t chunks = params.group[g].chunks;
            const std::int64_t r = sizes[g].r_slices * chunks * kRowsR * kChunk;
            at.push_back({doubles, doubles + r});
            doubles += r + sizes[g].s_slices * chunks * kRowsS * kChunk;
        }
        packed = DeviceBuffer(static_cast<std::size_t>(doubles) * sizeof(double));
        auto* base = static_cast<double*>(packed.data());
        for (std::size_t g = 0; g < sizes.size(); ++g) {
            params.group[g].r = base + at[g][0];
            params.group[g].s = base + at[g][1];
        }
        for (PackItem& item : items) {
            const auto g = static_cast<std::size_t>(item.chunks);
            item.to = base + at[g][item.is_s != 0 ? 1 : 0];
            item.chunks = params.group[g].chunks;
            const int past = item.zeros_behind != 0 ? item.chunks : (item.end + kChunk - 1) / kChunk;
            item.parts = (past - item.begin / kChunk + kPackChunks - 1) / kPackChunks;
            item.first_block = pack_blocks;
            pack_blocks += item.parts * (item.is_s != 0 ? sizes[g].s_slices : sizes[g].r_slices);
        }
        require(pack_blocks <= INT32_MAX, "device triples: {} slices of operands are too many", pack_blocks);
        item_table = DeviceBuffer(items.size() * sizeof(PackItem));
        copy_to_device(item_table.data(), items.data(), items.size() * sizeof(PackItem));
    }

    void collect_directs(std::span<const FusedTerm> list, std::span<const FusedTerm> singles) {
        std::vector<DirectTerm> prepared;
        auto add = [&](const FusedTerm& t) {
            DirectTerm d{};
            d.a = t.a.data;
            d.b = t.b.data;
            for (int n = 0; n < 6; ++n) {
                const bool a = carries(t, roles[n], true);
                if (a) d.a_roles |= 1U << n;
                (a ? d.a_stride : d.b_stride)[n] = (a ? t.a : t.b).stride[roles[n]];
            }
            d.a_sum = t.a.sum_stride;
            d.b_sum = t.b.sum_stride;
            d.factor = t.factor;
            d.sum = t.sum_extent;
            prepared.push_back(d);
        };
        for (const FusedTerm& t : list)
            if (fit_of(t, roles).layout == 0) add(t);
        params.direct_terms = static_cast<int>(prepared.size());
        for (const FusedTerm& t : singles) add(t);
        params.direct_singles = static_cast<int>(singles.size());
        if (prepared.empty()) return;
        directs = DeviceBuffer(prepared.size() * sizeof(DirectTerm));
        copy_to_device(directs.data(), prepared.data(), prepared.size() * sizeof(DirectTerm));
        params.direct = static_cast<const DirectTerm*>(directs.data());
    }

    void reserve(double factor) {
        scale = factor;
        partials = tiles;
        if (finish == FusedFinish::orbit) {
            const std::int64_t n = params.tiles[3];
            partials = params.orbits = tiles / (n * n * n) * (n * (n + 1) * (n + 2) / 6);
            grid =
                static_cast<int>(std::min(partials, static_cast<std::int64_t>(multiprocessors()) * kFusedBlocksPerSm));
            scratch = DeviceBuffer(static_cast<std::size_t>(grid) * 6 * kTileElements * sizeof(double));
            params.scratch = static_cast<double*>(scratch.data());
        }
        partial = DeviceBuffer(static_cast<std::size_t>(partials + 1) * sizeof(double));
        params.partial = static_cast<double*>(partial.data());
    }

    void launch(StreamHandle stream) const {
        if (pack_blocks > 0)
            launch_pack(static_cast<const PackItem*>(item_table.data()), static_cast<int>(items.size()), pack_blocks,
                        stream);
        if (finish == FusedFinish::orbit) {
            launch_fused(params, finish, grid, stream);
        } else {
            // A grid holds 2^31 - 1 thread blocks; longer work goes in several.
            for (std::int64_t first = 0; first < tiles; first += INT32_MAX) {
                FusedParams p = params;
                p.first_tile = first;
                launch_fused(p, finish, static_cast<int>(std::min<std::int64_t>(tiles - first, INT32_MAX)), stream);
            }
        }
        if (finish != FusedFinish::store)
            launch_reduce(params.partial, partials, scale, params.partial + partials, stream);
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

DeviceFused::~DeviceFused() = default;
DeviceFused::DeviceFused(DeviceFused&&) noexcept = default;
DeviceFused& DeviceFused::operator=(DeviceFused&&) noexcept = default;

void DeviceFused::run(StreamHandle stream) const { impl_->launch(stream); }

double DeviceFused::energy(StreamHandle stream) const {
    require(impl_->finish != FusedFinish::store, "device triples: this plan stores its output, it has no energy");
    double value = 0;
    copy_to_host(&value, impl_->params.partial + impl_->partials, sizeof(double), stream);
    return value;
}

std::string DeviceFused::description() const {
    const Impl& x = *impl_;
    return fmt::format("roles {}, {} products in {}+{} groups, {} direct, {:.1f} MB packed", fmt::join(x.roles, ""),
                       x.products, x.params.groups1, x.params.groups2, x.params.direct_terms + x.params.direct_singles,
                       static_cast<double>(x.packed.bytes()) * 1e-6);
}

}  // namespace tessera::kernels::cuda
