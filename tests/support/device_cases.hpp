#pragma once
// Contractions through the device interpreter, on whatever plays the device: one set of cases for host threads and
// CUDA.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "base/hash.hpp"
#include "execute/device/execute_devices.hpp"
#include "inspect/build_plan.hpp"
#include "kernels/tile_math.hpp"
#include "machine/device_layout.hpp"
#include "support/dense_einsum.hpp"
#include "support/own_values.hpp"
#include "support/random_shapes.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera::testing {

/// Opens as many devices as there are arenas.
using OpenDevices = std::function<std::vector<std::unique_ptr<Device>>(std::span<const std::int64_t> arenas,
                                                                       std::int64_t budget, ScalarKind kind)>;

/// One contraction of two operands: tensors, and how it is to be run.
template <Scalar T>
struct DeviceCase {
    std::string spec;
    Tensor<T> a, b, old;
    bool adds = false;
    T alpha = T(1), beta = T(0);
    bool conjugate_a = false, conjugate_b = false;
    DeviceGenerator on_device_b = {};  // b holds what it makes
    SourceKind source_b = SourceKind::stored;
    PlanOptions how = {};
    int devices = 1;
    std::int64_t budget = std::int64_t{64} << 20;
    bool consume = false;
    DeviceOptions options = {};
    TileGenerator<T> make_b = {};  // instead of b's tiles
    Symmetry symmetry_c = {};
};

template <Scalar T>
struct DeviceResult {
    Tensor<T> c;
    Plan plan;
    DeviceExecuteCounts counts;
};

template <Scalar T>
Plan plan_case(const DeviceCase<T>& c) {
    const ContractionSpec spec(c.spec);
    PlanRequest request;
    request.spec = &spec;
    const auto a = whole_shape(c.a.shape()), b = whole_shape(c.b.shape());
    request.a = &a.shape;
    request.b = &b.shape;
    if (!a.views.empty()) request.views_a = &a.views;
    if (!b.views.empty()) request.views_b = &b.views;
    request.screening.symmetry = c.symmetry_c;
    request.source_b = c.source_b;
    request.scalar = ScalarTraits<T>::kind;
    request.screening.alpha_magnitude = static_cast<double>(std::abs(c.alpha));
    if (c.adds) request.accumulate = &c.old.shape();
    request.device_memory = c.budget;
    request.how = c.how;
    MachineModel machine;
    machine.devices_per_rank = c.devices;
    machine.threads_per_rank = 2;
    machine.device.memory = c.budget;
    return build_plan(request, machine);
}

/// The tile that is stored for each of the plan's.
template <Scalar T>
std::vector<const T*> tiles_of(const Tensor<T>& x, const Shape& whole, const TileViews& views) {
    std::vector<const T*> out;
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(whole.tile_count()); ++s)
        out.push_back(x.impl().tile(*x.shape().find(whole.tile(views.place(s)))));
    return out;
}

template <Scalar T>
DeviceResult<T> run_case(const DeviceCase<T>& c, const OpenDevices& open) {
    DeviceResult<T> out;
    out.plan = plan_case(c);
    const Plan& plan = out.plan;
    validate(plan, {0, c.budget});

    auto impl = std::make_unique<typename Tensor<T>::Impl>(plan.c);
    std::vector<double> norms(static_cast<std::size_t>(plan.c.tile_count()), -1);
    std::vector<std::atomic<int>> arrivals(norms.size());
    const auto tiles_a = tiles_of(c.a, plan.a, plan.views_a), tiles_b = tiles_of(c.b, plan.b, plan.views_b);
    TileSource<T> a{{nullptr, nullptr, tiles_a.data()}, {}};
    TileSource<T> b;
    if (c.source_b == SourceKind::stored)
        b.stored = {nullptr, nullptr, tiles_b.data()};
    else
        b.make = c.make_b ? c.make_b : [&](const TileInfo& info, std::span<T> tile) {
            std::ranges::copy(c.b.tile(info.coordinates), tile.begin());
        };
    b.on_device = c.on_device_b;
    TileSink<T> sink;
    sink.old_tile = [&](std::int64_t s) -> const T* {
        const auto at = c.adds ? c.old.shape().find(plan.c.tile(s)) : std::nullopt;
        return at ? c.old.impl().tile(*at) : nullptr;
    };
    const auto arrived = [&](std::int64_t s, double norm) {
        norms[static_cast<std::size_t>(s)] = norm;
        ++arrivals[static_cast<std::size_t>(s)];
    };
    if (c.consume) {
        sink.consume = [&](std::int64_t s, std::span<const T> tile, double norm) {
            std::ranges::copy(tile, impl->tile(s));
            arrived(s, norm);
        };
    } else {
        sink.tile = [&](std::int64_t s) { return impl->tile(s); };
        sink.finished = arrived;
    }
    ExecuteOptions<T> options;
    options.alpha = c.alpha;
    options.beta = c.beta;
    options.conjugate_a = c.conjugate_a;
    options.conjugate_b = c.conjugate_b;
    double done = 0, total = 0;
    options.progress = [&](double of, double all) {
        done = of;
        total = all;
    };

    std::vector<std::int64_t> arenas;
    for (const auto& d : plan.device_counts) arenas.push_back(d.peak_bytes);
    {
        const auto devices = open(arenas, c.budget, plan.scalar);
        out.counts = execute_on<T>(devices, plan, 0, a, b, sink, options, c.options);
    }
    for (auto& n : arrivals) EXPECT_EQ(n, 1) << "a result tile is finished once";
    EXPECT_EQ(done, total) << "progress ends where all is done";
    for (std::size_t d = 0; d < plan.device_counts.size(); ++d) {
        const auto& planned = plan.device_counts[d];
        const auto& ran = out.counts.devices[d];
        EXPECT_EQ(ran.loaded_bytes, planned.loaded_bytes);
        EXPECT_EQ(ran.stored_bytes, planned.stored_bytes);
        EXPECT_EQ(ran.copied_bytes, planned.copied_bytes);
        EXPECT_EQ(ran.made_bytes, planned.made_bytes);
        EXPECT_EQ(ran.made_tiles, planned.made_tiles);
        EXPECT_LE(ran.high_water, c.budget);
    }
    impl->set_norms(std::move(norms));
    out.c = Tensor<T>(std::move(impl));
    return out;
}

template <Scalar T>
void expect_right(const DeviceCase<T>& c, const Tensor<T>& got) {
    const ContractionSpec spec(c.spec);
    const auto want =
        dense_einsum({spec.a(), spec.b()}, spec.c(), {widen(c.a), widen(c.b)}, {c.conjugate_a, c.conjugate_b});
    const auto wide = [](T x) { return Wide(x); };
    const auto have = widen(got);
    const auto old = c.adds ? widen(c.old) : Dense{};
    const double tolerance = std::is_same_v<RealOf<T>, float> ? 1e-5 : 1e-13;
    ASSERT_EQ(have.values.size(), want.sum.values.size());
    for (std::size_t i = 0; i < have.values.size(); ++i) {
        Wide expected = wide(c.alpha) * want.sum.values[i];
        double scale = std::abs(wide(c.alpha)) * want.magnitude[i];
        if (c.adds) {
            expected += wide(c.beta) * old.values[i];
            scale += std::abs(wide(c.beta) * old.values[i]);
        }
        ASSERT_LE(std::abs(have.values[i] - expected), tolerance * scale + 1e-30)
            << c.spec << " element " << i << " on " << c.devices << " devices of " << c.budget << " bytes";
    }
}

inline Shape random_shape(Random& r, const TileGrid& grid, double occupancy) {
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (std::uniform_real_distribution<>(0, 1)(r) < occupancy)
            entries.push_back({TileOrdinal{o}, 1.0 + static_cast<double>(o % 3)});
    return Shape(grid, std::move(entries));
}

inline HashRule simple_rule(std::uint64_t seed) {
    return [seed](const TileInfo& info) -> HashTileValues {
        return {combine(seed, static_cast<std::uint64_t>(info.tile.value)), 0.5};
    };
}

/// Tilings by label, operands at random; the budget is the smallest that works, or some multiple of it.
template <Scalar T>
DeviceCase<T> random_case(Random& r, const std::string& text, std::int64_t most_tiles, std::int64_t most) {
    DeviceCase<T> c;
    c.spec = text;
    const ContractionSpec spec(text);
    std::map<char, Tiling> tilings;
    for (char l : spec.a() + spec.b()) tilings.try_emplace(l, random_tiling(r, most_tiles, most));
    const auto grid = [&](const std::string& labels) {
        std::vector<Tiling> t;
        for (char l : labels) t.push_back(tilings[l]);
        return TileGrid(t);
    };
    c.a = Tensor<T>::random(random_shape(r, grid(spec.a()), 0.7), r());
    const auto rule = simple_rule(r());
    c.on_device_b = rule;
    c.b = Tensor<T>::generate(random_shape(r, grid(spec.b()), 0.7), hash_generator<T>(rule));
    c.old = Tensor<T>::random(random_shape(r, grid(spec.c()), 0.5), r());
    return c;
}

/// The smallest budget the planner accepts.
template <Scalar T>
std::int64_t smallest_budget(DeviceCase<T> c) {
    c.budget = device_reserve_bytes(1) + 1;
    try {
        plan_case(c);
    } catch (const BudgetError& e) {
        return e.smallest_bytes();
    }
    return c.budget;
}

inline const char* const kSpecs[] = {
    "mk,kn->mn",     "km,nk->nm", "hmk,hkn->hmn", "khm,nkh->mhn", "pcd,cdab->pab", "abc,bcd->da",
    "kma,bkn->nabm", "m,n->mn",   "k,k->",        "hk,hk->h",     "ij,j->i",       "dcab,ijcd->ijab",
};

// The cases --------------------------------------------------------------------------------------------------------

template <Scalar T>
void random_contractions(const OpenDevices& open, int trials, std::int64_t most_tiles, std::int64_t most) {
    Random r(20 + sizeof(T));
    for (int trial = 0; trial < trials; ++trial) {
        const std::string text = kSpecs[static_cast<std::size_t>(trial) % std::size(kSpecs)];
        auto c = random_case<T>(r, text, most_tiles, most);
        c.devices = static_cast<int>(pick(r, 1, 3));
        c.conjugate_a = pick(r, 0, 2) == 0;
        c.conjugate_b = pick(r, 0, 2) == 0;
        if (pick(r, 0, 1) == 0) c.alpha = T(RealOf<T>(-0.75));
        if (pick(r, 0, 1) == 0) {
            c.adds = true;
            c.beta = T(RealOf<T>(0.5));
        }
        const auto made = pick(r, 0, 2);
        if (made == 1) c.source_b = SourceKind::host_made;
        if (made == 2 && device_can_make(ContractionSpec(text), Operand::b)) c.source_b = SourceKind::device_made;
        c.consume = pick(r, 0, 1) == 0;
        c.options.trace = pick(r, 0, 3) == 0;
        const auto least = smallest_budget(c);
        c.budget = pick(r, 0, 2) == 0 ? least : least + pick(r, 0, 4) * (least - device_reserve_bytes(least));
        if (pick(r, 0, 3) == 0) c.budget = std::int64_t{64} << 20;
        c.options.staging_bytes = pick(r, 0, 1) == 0 ? 1 : c.options.staging_bytes;
        SCOPED_TRACE(text + " trial " + std::to_string(trial));
        const auto result = run_case(c, open);
        expect_right(c, result.c);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

/// The same bits for any budget, number of devices, way of forming blocks and source of B.
template <Scalar T>
void same_bits(const OpenDevices& open, std::int64_t most_tiles, std::int64_t most) {
    Random r(31);
    auto c = random_case<T>(r, "pcd,cdab->pab", most_tiles, most);
    std::optional<Tensor<T>> first;
    const auto least = smallest_budget(c);
    for (const auto budget : {least, least + least / 2, 3 * least, std::int64_t{64} << 20})
        for (const int devices : {1, 2, 3})
            for (const auto source : {SourceKind::stored, SourceKind::host_made, SourceKind::device_made}) {
                c.budget = budget;
                c.devices = devices;
                c.source_b = source;
                try {
                    plan_case(c);
                } catch (const BudgetError&) {
                    continue;
                }
                const auto result = run_case(c, open);
                if (!first) {
                    first = result.c;
                    expect_right(c, *first);
                }
                ASSERT_TRUE(result.c == *first) << budget << " bytes, " << devices << " devices";
            }
}

/// Thousands of small products on a device that holds all of them: the planner weighs nothing, forms strips, and the
/// bits are those of any other way.
template <Scalar T>
void many_small_products(const OpenDevices& open) {
    Random r(37);
    struct Product {
        const char* spec;
        int free, contracted;  // tiles
        const char* c;
    };
    for (const auto& p :
         {Product{"mk,kn->mn", 22, 22, ""}, Product{"km,nk->nm", 22, 22, ""}, Product{"mk,nk->mn", 30, 22, "mn=nm"},
          Product{"hmk,hkn->hmn", 13, 9, ""}, Product{"mk,kn->mn", 9, 220, ""}}) {
        SCOPED_TRACE(p.spec);
        DeviceCase<T> c;
        c.spec = p.spec;
        const ContractionSpec spec(c.spec);
        std::map<char, Tiling> tilings;
        for (const char l : spec.a() + spec.b()) {
            std::vector<std::int64_t> extents;
            for (int t = 0; t < (l == 'k' ? p.contracted : p.free); ++t) extents.push_back(pick(r, 1, 3));
            tilings.try_emplace(l, Tiling::from_sizes(extents));
        }
        if (*p.c) tilings['n'] = tilings['m'];
        const auto grid = [&](const std::string& labels) {
            std::vector<Tiling> t;
            for (const char l : labels) t.push_back(tilings[l]);
            return TileGrid(t);
        };
        c.a = Tensor<T>::random(random_shape(r, grid(spec.a()), 0.7), r());
        c.b = *p.c ? c.a : Tensor<T>::random(random_shape(r, grid(spec.b()), 0.7), r());
        c.old = Tensor<T>::random(random_shape(r, grid(spec.c()), 0.5), r());
        c.symmetry_c = p.c;
        c.adds = !*p.c;
        c.beta = T(RealOf<T>(c.adds ? 0.5 : 0));
        const auto all_fits = run_case(c, open);
        ASSERT_GT(all_fits.plan.products.size(), 4000U);
        EXPECT_EQ(all_fits.plan.blocks, std::vector{Blocks::strips});
        for (const auto& candidate : all_fits.plan.candidates) EXPECT_FALSE(candidate.simulated);
        if (!*p.c) expect_right(c, all_fits.c);
        c.budget = smallest_budget(c);
        const auto tight = run_case(c, open);
        EXPECT_NE(tight.plan.blocks, all_fits.plan.blocks);
        EXPECT_TRUE(tight.c == all_fits.c);
        c.budget *= 4;
        c.devices = 2;
        EXPECT_TRUE(run_case(c, open).c == all_fits.c);
    }
}

/// Tiles that are seen in others come to devices as they are seen: the bits are those of whole operands.
template <Scalar T>
void tensors_with_symmetry(const OpenDevices& open, int trials, int most_devices) {
    Random r(31);
    struct Product {
        const char *spec, *a, *b, *c;
    };
    for (int trial = 0; trial < trials; ++trial)
        for (const auto& p :
             {Product{"ij,jk->ik", "ij=-ji*", "ij=ji*", ""}, Product{"ij,kj->ik", "ij=-ji", "", "ij=ji"},
              Product{"ijcd,cdab->ijab", "ijcd=-jicd,ijcd=-ijdc", "cdab=dcba", ""},
              Product{"icjd,cdab->aibj", "icjd=jdic", "cdab=dcba", "aibj=bjai"}}) {
            DeviceCase<T> c;
            c.spec = p.spec;
            const auto tiling = random_tiling(r, 4, c.spec.size() > 10 ? 4 : 30);
            const auto random = [&](int rank, const char* symmetry) {
                const TileGrid grid(std::vector<Tiling>(static_cast<std::size_t>(rank), tiling));
                return Tensor<T>::random(Shape::dense(grid).with_symmetry(symmetry), r());
            };
            const int rank = static_cast<int>(c.spec.find(','));
            c.a = random(rank, p.a);
            c.b = *p.b ? random(rank, p.b) : c.a;
            c.devices = static_cast<int>(pick(r, 1, most_devices));
            const auto half_c = [&] {
                auto half = c;
                half.symmetry_c = p.c;
                return run_case(half, open);
            }();
            c.a = desymmetrise(c.a);
            c.b = desymmetrise(c.b);
            const auto whole = run_case(c, open);
            for (std::int64_t s = 0; s < half_c.c.tile_count(); ++s) {
                const auto mine = half_c.c.tile(s),
                           other = whole.c.tile(half_c.c.grid().coordinates(half_c.c.shape().tile(s)));
                ASSERT_EQ(mine.size(), other.size());
                ASSERT_EQ(std::memcmp(mine.data(), other.data(), mine.size_bytes()), 0) << p.spec << " tile " << s;
            }
            EXPECT_TRUE(*p.c || half_c.c == whole.c);
        }
}

inline void make_own_tile(const TileInfo& info, std::span<double> tile) {
    for (std::size_t e = 0; e < tile.size(); ++e) tile[e] = own_value(info.tile.value, static_cast<long long>(e));
}

/// Device code of the user's own that makes own_value: the bits of stored tiles and of those made on the host, and none
/// of B's bytes are moved.
inline void device_code(const OpenDevices& open, const DeviceLaunch& launch, std::int64_t most_tiles,
                        std::int64_t most) {
    Random r(33);
    for (const char* spec : {"mk,kn->mn", "pcd,cdab->pab", "hmk,hkn->hmn"}) {
        auto c = random_case<double>(r, spec, most_tiles, most);
        c.b = Tensor<double>::generate(c.b.shape(), make_own_tile);
        c.on_device_b = launch;
        const auto first = run_case(c, open).c;
        expect_right(c, first);
        c.source_b = SourceKind::device_made;
        const auto least = smallest_budget(c);
        for (const auto budget : {least, 3 * least, std::int64_t{64} << 20})
            for (const int devices : {1, 3}) {
                c.budget = budget;
                c.devices = devices;
                try {
                    plan_case(c);
                } catch (const BudgetError&) {  // of several devices
                    continue;
                }
                const auto result = run_case(c, open);
                ASSERT_TRUE(result.c == first) << spec << ", " << budget << " bytes, " << devices << " devices";
                std::int64_t made = 0;
                for (const auto& d : result.counts.devices) made += d.made_bytes;
                EXPECT_EQ(made > 0, !result.plan.chains.empty());
            }
    }
}

/// Limits of blocks and chunks, each by itself and all at once.
inline PlanParameters random_parameters(Random& r) {
    PlanParameters p;
    const auto some = [&] { return pick(r, 0, 2) == 0; };
    const auto share = [&] { return std::uniform_real_distribution<>(0.05, 1)(r); };
    if (some()) p.block_share = share();
    if (some()) p.chunk_share = share();
    if (some()) p.block_rows = static_cast<int>(pick(r, 1, 4));
    if (some()) p.block_cols = static_cast<int>(pick(r, 1, 4));
    if (some()) p.depth = static_cast<int>(pick(r, 1, 3));
    if (some()) p.lookahead = static_cast<int>(pick(r, 0, 4));
    return p;
}

/// The same bits for any setting of the parameters, at the smallest budget that it leaves and above it.
template <Scalar T>
void same_bits_for_any_parameters(const OpenDevices& open, int trials, std::int64_t most_tiles, std::int64_t most) {
    Random r(37);
    int done = 0;
    for (int trial = 0; trial < trials; ++trial) {
        auto c = random_case<T>(r, kSpecs[static_cast<std::size_t>(trial) % std::size(kSpecs)], most_tiles, most);
        const auto plain = run_case(c, open);
        expect_right(c, plain.c);
        for (int setting = 0; setting < 4; ++setting) {
            c.how.parameters = random_parameters(r);
            c.devices = static_cast<int>(pick(r, 1, 3));
            c.how.blocks = pick(r, 0, 2) == 0 ? Blocks::worst_fit : Blocks::automatic;
            c.source_b = pick(r, 0, 2) == 0 ? SourceKind::host_made : SourceKind::stored;
            try {
                const auto least = smallest_budget(c);
                c.budget = pick(r, 0, 1) == 0 ? least : 3 * least;
            } catch (const UserError&) {  // rows of a block where columns are whole
                continue;
            }
            ASSERT_TRUE(run_case(c, open).c == plain.c) << c.spec << " trial " << trial;
            ++done;
        }
    }
    EXPECT_GT(done, 2 * trials);
}

/// Result tiles of several pieces, with padded rows and without, as they are and with alpha and beta to apply: right,
/// with their norms, the same bits on any number of devices; what is not finite is found.
inline void large_result_tiles(const OpenDevices& open) {
    Random r(41);
    for (const std::int64_t columns : {701, 702})
        for (const bool adds : {false, true}) {
            auto c = random_case<double>(r, "mk,kn->mn", 1, 1);
            const auto m = Tiling{750, 3}, n = Tiling{columns, 5}, k = Tiling::uniform(4, 2);
            c.a = Tensor<double>::random(Shape::dense(TileGrid{m, k}), 1);
            c.b = Tensor<double>::random(Shape::dense(TileGrid{k, n}), 2);
            c.old = Tensor<double>::random(Shape::dense(TileGrid{m, n}), 3);
            c.adds = adds;
            if (adds) c.alpha = -0.75, c.beta = 0.5;
            std::optional<Tensor<double>> first;
            for (const int devices : {1, 2}) {
                c.devices = devices;
                c.options.staging_bytes = devices == 1 ? 1 : std::int64_t{32} << 20;
                const auto result = run_case(c, open);
                if (!first) {
                    first = result.c;
                    expect_right(c, *first);
                }
                ASSERT_TRUE(result.c == *first);
                for (std::int64_t s = 0; s < result.c.tile_count(); ++s) {
                    double sum = 0;
                    for (const double x : result.c.tile(s)) sum += x * x;
                    ASSERT_NEAR(result.c.shape().norms()[static_cast<std::size_t>(s)], std::sqrt(sum),
                                1e-12 * std::sqrt(sum));
                    const auto tile = result.c.tile(s);
                    ASSERT_EQ(result.c.shape().norms()[static_cast<std::size_t>(s)],
                              tile_norm(tile.data(), static_cast<std::int64_t>(tile.size())));
                }
            }
            for (auto* x : {&c.a, &c.b})
                x->update_tiles([](const TileInfo&, std::span<double> t) { std::ranges::fill(t, 1e200); });
            EXPECT_THROW(run_case(c, open), UserError);
        }
}

}  // namespace tessera::testing
