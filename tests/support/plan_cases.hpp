#pragma once
// Random problems for random machines, and their plans.

#include <cmath>
#include <vector>

#include "inspect/build_plan.hpp"
#include "support/random_shapes.hpp"

namespace tessera::testing {

inline Shape random_shape(Random& r, const TileGrid& grid, double occupancy) {
    std::vector<ShapeEntry> e;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (std::uniform_real_distribution<>(0, 1)(r) < occupancy) e.push_back({TileOrdinal{o}, 1.0});
    return Shape(grid, std::move(e));
}

/// A product of two dense square matrices, to be planned.
struct SquareProduct {
    ContractionSpec spec{"ij,jk->ik"};
    Shape shape;
    PlanRequest request;
    MachineModel machine;
    SquareProduct(std::int64_t size, std::int64_t tile)
        : shape(Shape::dense(TileGrid{Tiling::uniform(size, tile), Tiling::uniform(size, tile)})) {
        request.spec = &spec;
        request.a = request.b = &shape;
    }
    SquareProduct(const SquareProduct&) = delete;
    SquareProduct& operator=(const SquareProduct&) = delete;
    /// On a device of each rank, for which cores make the tiles of B.
    void made_for_devices(std::int64_t memory) {
        request.source_b = SourceKind::host_made;
        machine.devices_per_rank = 1;
        machine.device.memory = request.device_memory = memory;
    }
    Plan plan() const { return build_plan(request, machine); }
};

struct Case {
    ContractionSpec spec{"pk,kq->pq"};
    Shape a, b, given, old;  // given: the result's; old: of a C that is added to
    bool has_given = false, has_old = false;
    PlanRequest request;
    MachineModel machine;
};

inline constexpr Algorithm kAlgorithms[] = {Algorithm::automatic, Algorithm::stationary_b, Algorithm::outer_product,
                                            Algorithm::split_k,   Algorithm::replicate_b,  Algorithm::split_grid};

/// Matrices, tensors with batch indices, and long sums into a small result.
inline Case random_case(Random& r) {
    Case c;
    const int kind = static_cast<int>(r() % 4);
    const auto p = random_tiling(r, kind == 3 ? 2 : 6, kind == 3 ? 8 : 400),
               q = random_tiling(r, kind == 3 ? 2 : 6, kind == 3 ? 8 : 400);
    const auto k = random_tiling(r, kind == 3 ? 40 : 8, 400), s = random_tiling(r, 3, 5);
    if (kind == 1) {
        c.spec = ContractionSpec("spk,ksq->psq");
        c.a = random_shape(r, {s, p, k}, 0.5);
        c.b = random_shape(r, {k, s, q}, 0.5);
    } else if (kind == 2) {
        c.spec = ContractionSpec("pks,skqt->tpq");
        c.a = random_shape(r, {p, k, s}, 0.4);
        c.b = random_shape(r, {s, k, q, s}, 0.3);
    } else {
        c.a = random_shape(r, {p, k}, 0.5);
        c.b = random_shape(r, {k, q}, 0.5);
    }
    c.machine.threads_per_rank = 1 + static_cast<int>(r() % 16);
    c.request.source_a = r() % 3 == 0 ? SourceKind::host_made : SourceKind::stored;
    c.request.source_b = r() % 2 == 0 ? SourceKind::host_made : SourceKind::stored;
    return c;
}

inline void many_ranks(Random& r, Case& c, int most_ranks, int most_devices) {
    c.machine.ranks = 1 + static_cast<int>(r() % static_cast<unsigned>(most_ranks));
    c.machine.devices_per_rank = static_cast<int>(r() % static_cast<unsigned>(most_devices + 1));
    if (c.machine.devices_per_rank > 0) {
        c.machine.device.memory = 1LL << 40;
        if (c.request.source_b == SourceKind::host_made && r() % 2) c.request.source_b = SourceKind::device_made;
        if (r() % 3 == 0) c.request.how.blocks = Blocks::worst_fit;
    }
    c.request.how.algorithm = kAlgorithms[r() % std::size(kAlgorithms)];
    c.request.how.deal = static_cast<Deal>(r() % 3);
    const auto anywhere = [&](const TileGrid& grid) {
        std::vector<Distribution::Axis> axes(static_cast<std::size_t>(grid.rank()));
        int left = c.machine.ranks;
        for (auto& a : axes) {
            a.ranks = 1 + static_cast<int>(r() % static_cast<unsigned>(left));
            left /= a.ranks;
            a.deal = r() % 2 ? Distribution::Deal::cyclic : Distribution::Deal::blocked;
        }
        return Distribution(c.machine.ranks, axes);
    };
    if (r() % 3 == 0) c.request.distribution_a = anywhere(c.a.grid());
    if (r() % 3 == 0) c.request.distribution_b = anywhere(c.b.grid());
    if (r() % 3 == 0) c.request.distribution_c = anywhere(c.spec.result_grid(c.a.grid(), c.b.grid()));
}

/// Norms over many decades with a filter; a given result shape, or a C that is added to; any scalar type.
inline void any_options(Random& r, Case& c) {
    constexpr ScalarKind kinds[] = {ScalarKind::f32, ScalarKind::f64, ScalarKind::c64, ScalarKind::c128};
    c.request.scalar = kinds[r() % 4];
    if (r() % 2) {
        for (Shape* s : {&c.a, &c.b}) {
            std::vector<ShapeEntry> e;
            for (auto o : s->ordinals()) e.push_back({TileOrdinal{o}, std::pow(10.0, -static_cast<double>(r() % 8))});
            *s = Shape(s->grid(), std::move(e));
        }
        c.request.screening.filter = std::pow(10.0, -static_cast<double>(1 + r() % 8));
        c.request.screening.alpha_magnitude = r() % 2 ? 1 : 0.3;
    }
    const auto result = c.spec.result_grid(c.a.grid(), c.b.grid());
    const auto how = r() % 3;
    c.has_given = how == 1;
    c.has_old = how == 2;
    if (c.has_given) c.given = random_shape(r, result, 0.6);
    if (c.has_old) c.old = random_shape(r, result, 0.4);
    c.request.screening.beta_magnitude = c.has_old ? std::pow(10.0, -static_cast<double>(r() % 8)) : 0;
    c.request.other_bytes = r() % 2 ? static_cast<std::int64_t>(64 * (r() % 100)) : 0;
}

inline Plan plan_of(Case& c) {
    c.request.spec = &c.spec;
    c.request.a = &c.a;
    c.request.b = &c.b;
    c.request.screening.given = c.has_given ? &c.given : nullptr;
    c.request.accumulate = c.has_old ? &c.old : nullptr;
    return build_plan(c.request, c.machine);
}

}  // namespace tessera::testing
