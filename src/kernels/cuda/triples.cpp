// Plans the fused contraction for a CUDA device: which index plays which part, and the terms in slot order.
#include "kernels/cuda/triples.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "kernels/cuda/triples_device.hpp"

namespace tessera::kernels::cuda {

namespace {

/// Which output index plays which part; roles 0..2 are in tiles of 8.
struct Roles {
    std::array<int, 6> index{};
    bool fits = false;
    double padding = 0;
};

bool carries(const FusedTerm& t, int index, bool a) { return ((t.a_indices >> index & 1U) != 0) == a; }

int layout_of(const FusedTerm& t, const Roles& roles) {
    const bool a = carries(t, roles.index[0], true);
    if (!carries(t, roles.index[1], a)) return 1;
    return carries(t, roles.index[2], a) ? 0 : 2;
}

int mask_of(const FusedTerm& t, const Roles& roles, int layout) {
    const bool a = carries(t, roles.index[0], true);
    const int loops[4] = {roles.index[layout == 1 ? 2 : 1], roles.index[3], roles.index[4], roles.index[5]};
    int mask = 0;
    for (int n = 0; n < 4; ++n) mask |= carries(t, loops[n], a) ? 1 << n : 0;
    return mask;
}

/// The choice with the least padding; the contiguous output index first, so that stores fill sectors.
Roles choose_roles(const BlockExtents& extents, std::span<const FusedTerm> terms, std::span<const FusedTerm> singles,
                   const FusedVariant& variant, int contiguous, bool virtual_cubes) {
    Roles best;
    std::array<int, 6> order{0, 1, 2, 3, 4, 5};
    do {
        if (virtual_cubes && (order[0] < 3 || order[1] < 3 || order[2] < 3)) continue;
        Roles r{order, true, 1};
        for (int n = 0; n < 6; ++n) {
            const int tile = n < 3 ? 8 : variant.tile[n - 2];
            const std::int64_t e = extents[order[n]];
            r.padding *= static_cast<double>((e + tile - 1) / tile * tile) / static_cast<double>(e);
        }
        if (contiguous >= 0 && order[0] != contiguous) r.padding *= 1.4;
        if (best.fits && r.padding >= best.padding) continue;
        for (std::span<const FusedTerm> list : {terms, singles})
            for (const FusedTerm& t : list) {
                const int layout = layout_of(t, r), mask = mask_of(t, r, layout);
                r.fits = r.fits && layout != 0 && mask != 0 && mask != 15;
            }
        if (r.fits) best = r;
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
}

DeviceTerm device_term(const FusedTerm& t, const Roles& roles, int layout, int depth) {
    std::array<int, 6> slot = roles.index;
    if (layout == 2) std::swap(slot[1], slot[2]);
    const bool r_is_a = carries(t, roles.index[0], true);
    DeviceTerm d{};
    const TermOperand &r = r_is_a ? t.a : t.b, &s = r_is_a ? t.b : t.a;
    d.r = r.data;
    d.s = s.data;
    for (int n = 0; n < 6; ++n)
        (carries(t, slot[n], r_is_a) ? d.r_stride : d.s_stride)[n] =
            (carries(t, slot[n], r_is_a) ? r : s).stride[slot[n]];
    d.r_sum = r.sum_stride;
    d.s_sum = s.sum_stride;
    d.factor = t.factor;
    require(t.sum_extent <= INT32_MAX - 64, "fused term: summed extent {} is too long for one term on a device",
            t.sum_extent);
    d.sum = static_cast<int>(t.sum_extent);
    if (layout == 0) return d;
    d.mask = mask_of(t, roles, layout);
    // Even pieces: 24 as 12 + 12, not 16 + 8.
    const int pieces = (d.sum + depth - 1) / depth;
    d.chunk = std::min(depth, ((d.sum + pieces - 1) / pieces + 3) / 4 * 4);
    return d;
}

enum class Finish { store, energy, orbit };

}  // namespace

struct DeviceFused::Impl {
    FusedParams params{};
    Finish finish = Finish::store;
    const FusedVariant* variant = nullptr;  // null: the plain kernel
    int number = 0;
    Roles roles;
    std::int64_t volume = 1, tiles = 1, partials = 0;
    double scale = 1;
    int grid = 0;
    DeviceBuffer terms, partial, scratch;

    Impl(const BlockExtents& extents, std::span<const FusedTerm> list, std::span<const FusedTerm> singles,
         const FusedOutput* output, const EnergyEpilogue* epilogue, const DeviceFusedTuning& tuning) {
        const int count = fused_variant_count();
        require(tuning.variant >= 0 && tuning.variant <= count, "device triples: variant {} of {}", tuning.variant,
                count);
        const bool closed = epilogue != nullptr && epilogue->weights == TripleWeights::closed_shell;
        number = closed || tuning.variant == 0 ? 1 : tuning.variant;
        const FusedVariant& wanted = fused_variant(number);
        int contiguous = -1;
        for (int n = 5; output != nullptr && n >= 0; --n)
            if (output->stride[n] == 1) contiguous = n;
        roles = choose_roles(extents, list, singles, wanted, contiguous, closed);
        if (roles.fits) variant = &wanted;
        require(roles.fits || !closed,
                "device triples: closed-shell weights need terms that split a, b and c between their operands");
        if (!roles.fits) roles.index = {0, 1, 2, 3, 4, 5};
        finish = output != nullptr ? Finish::store : closed ? Finish::orbit : Finish::energy;

        for (int n = 0; n < 6; ++n) {
            const int index = roles.index[n];
            require(extents[index] <= INT32_MAX - 64, "device triples: extent {} is too long", extents[index]);
            params.extent[n] = static_cast<int>(extents[index]);
            const int tile = n < 3 ? 8 : wanted.tile[n - 2];
            params.tiles[n] = (params.extent[n] + tile - 1) / tile;
            volume *= extents[index];
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
        collect(list, singles);
        if (epilogue != nullptr) reserve(epilogue->scale);
    }

    void collect(std::span<const FusedTerm> list, std::span<const FusedTerm> singles) {
        std::vector<DeviceTerm> prepared;
        for (bool single : {false, true})
            for (int layout : {1, 2}) {
                for (const FusedTerm& t : single ? singles : list) {
                    if (variant == nullptr) {
                        if (layout == 1) prepared.push_back(device_term(t, roles, 0, 0));
                        continue;
                    }
                    if (layout_of(t, roles) != layout) continue;
                    const int depth = single ? 4 : variant->depth[mask_of(t, roles, layout)];
                    prepared.push_back(device_term(t, roles, layout, depth));
                }
                int& so_far = single ? (layout == 1 ? params.singles1 : params.singles2)
                                     : (layout == 1 ? params.terms1 : params.terms2);
                so_far = static_cast<int>(prepared.size()) - params.terms1 - params.terms2 - params.singles1 -
                         params.singles2;
            }
        params.swap_layout = params.terms2 + params.singles2 > 0 ? 1 : 0;
        terms = DeviceBuffer(std::max<std::size_t>(1, prepared.size()) * sizeof(DeviceTerm));
        if (!prepared.empty()) copy_to_device(terms.data(), prepared.data(), prepared.size() * sizeof(DeviceTerm));
        params.terms = static_cast<const DeviceTerm*>(terms.data());
    }

    void reserve(double factor) {
        scale = factor;
        if (variant == nullptr) {
            grid = static_cast<int>(std::min<std::int64_t>(4096, (volume + kPlainThreads - 1) / kPlainThreads));
            partials = grid;
        } else if (finish == Finish::orbit) {
            const std::int64_t n = params.tiles[0];
            partials = params.orbits = tiles / (n * n * n) * (n * (n + 1) * (n + 2) / 6);
            const std::int64_t resident = static_cast<std::int64_t>(multiprocessors()) * variant->blocks_per_sm;
            grid = static_cast<int>(std::min(partials, resident));
            scratch = DeviceBuffer(static_cast<std::size_t>(grid) * 6 * variant->elements * sizeof(double));
            params.scratch = static_cast<double*>(scratch.data());
            for (int r = 0; r < 3; ++r) params.place[r] = 5 - roles.index[r];  // output indices 5, 4, 3 are a, b, c
        } else {
            partials = tiles;
        }
        partial = DeviceBuffer(static_cast<std::size_t>(partials + 1) * sizeof(double));
        params.partial = static_cast<double*>(partial.data());
    }

    void launch(StreamHandle stream) const {
        const bool to_energy = finish != Finish::store;
        if (variant == nullptr) {
            const std::int64_t blocks = (volume + kPlainThreads - 1) / kPlainThreads;
            launch_plain(params, to_energy, volume,
                         to_energy ? grid : static_cast<int>(std::min<std::int64_t>(blocks, 1 << 20)), stream);
        } else if (finish == Finish::orbit) {
            launch_orbits(number, params, grid, stream);
        } else {
            // A grid holds 2^31 - 1 thread blocks; longer work goes in several.
            for (std::int64_t first = 0; first < tiles; first += INT32_MAX) {
                FusedParams p = params;
                p.first_tile = first;
                launch_fused(number, p, to_energy, static_cast<int>(std::min<std::int64_t>(tiles - first, INT32_MAX)),
                             stream);
            }
        }
        if (to_energy) launch_reduce(params.partial, partials, scale, params.partial + partials, stream);
    }
};

DeviceFused::DeviceFused(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output,
                         const DeviceFusedTuning& tuning) {
    check_fused(extents, terms, output);
    impl_ = std::make_unique<Impl>(extents, terms, std::span<const FusedTerm>{}, &output, nullptr, tuning);
}

DeviceFused::DeviceFused(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue,
                         const DeviceFusedTuning& tuning) {
    check_energy(extents, terms, epilogue);
    impl_ = std::make_unique<Impl>(extents, terms, epilogue.singles, nullptr, &epilogue, tuning);
}

DeviceFused::~DeviceFused() = default;
DeviceFused::DeviceFused(DeviceFused&&) noexcept = default;
DeviceFused& DeviceFused::operator=(DeviceFused&&) noexcept = default;

void DeviceFused::run(StreamHandle stream) const { impl_->launch(stream); }

double DeviceFused::energy(StreamHandle stream) const {
    require(impl_->finish != Finish::store, "device triples: this plan stores its output, it has no energy");
    double value = 0;
    copy_to_host(&value, impl_->params.partial + impl_->partials, sizeof(double), stream);
    return value;
}

std::string DeviceFused::description() const {
    const Impl& x = *impl_;
    if (x.variant == nullptr) return "plain";
    const FusedVariant& v = *x.variant;
    return fmt::format("variant {}: tile 8x8x8x{}x{}x{}, {} threads, {} stages, indices {}, layouts {}+{}", x.number,
                       v.tile[1], v.tile[2], v.tile[3], v.threads, v.stages, fmt::join(x.roles.index, ""),
                       x.params.terms1, x.params.terms2);
}

}  // namespace tessera::kernels::cuda
