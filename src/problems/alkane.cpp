// The ABCD term of an all-trans alkane: block structure and norms by the recipe of docs/ALKANE.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "problems/abcd_shapes.hpp"
#include "problems/families.hpp"
#include "problems/uniform_values.hpp"

namespace tessera {

namespace {

constexpr double kBondCC = 1.54, kBondCH = 1.09;  // Angstrom
constexpr double kPairReach = 36.5;               // Angstrom
constexpr double kLambda = 0.84, kMu = 0.24, kQ0 = 0.16, kTau = 1e-10;
constexpr std::uint64_t kSeed = 1;

using Point = std::array<double, 3>;

double distance(const Point& a, const Point& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }
Point midpoint(const Point& a, const Point& b) {
    return {0.5 * (a[0] + b[0]), 0.5 * (a[1] + b[1]), 0.5 * (a[2] + b[2])};
}

struct Atom {
    Point at;
    std::int64_t unit, orbitals;
};

struct Molecule {
    std::vector<double> carbon_x;  // of each unit
    std::vector<Atom> atoms;
    std::vector<Point> bonds;  // midpoints, sorted: the occupied orbitals
};

Molecule make_molecule(std::int64_t carbons, bool minimal_basis) {
    const double half_angle = std::acos(-1.0 / 3.0) / 2;
    const double s = std::sin(half_angle), c = std::cos(half_angle);
    const std::int64_t orbitals_c = minimal_basis ? 5 : 14, orbitals_h = minimal_basis ? 1 : 5;
    Molecule m;
    Point previous{};
    for (std::int64_t g = 0; g < carbons; ++g) {
        const double side = g % 2 == 0 ? -1.0 : 1.0;
        const Point carbon{(static_cast<double>(g) - static_cast<double>(carbons - 1) / 2) * kBondCC * s,
                           side * 0.5 * kBondCC * c, 0.0};
        m.carbon_x.push_back(carbon[0]);
        m.atoms.push_back({carbon, g, orbitals_c});
        if (g > 0) m.bonds.push_back(midpoint(previous, carbon));
        previous = carbon;
        const auto hydrogen = [&](double dx, double dy, double dz) {
            const Point at{carbon[0] + dx, carbon[1] + dy, carbon[2] + dz};
            m.atoms.push_back({at, g, orbitals_h});
            m.bonds.push_back(midpoint(carbon, at));
        };
        hydrogen(0, side * kBondCH * c, kBondCH * s);
        hydrogen(0, side * kBondCH * c, -kBondCH * s);
        if (g == 0) hydrogen(-kBondCH * s, -side * kBondCH * c, 0);
        if (g == carbons - 1) hydrogen(kBondCH * s, -side * kBondCH * c, 0);
    }
    const auto key = [](const Point& p) {
        return std::array{std::llround(p[0] * 1e6), std::llround(p[1] * 1e6), std::llround(p[2] * 1e6)};
    };
    std::sort(m.bonds.begin(), m.bonds.end(), [&](const Point& a, const Point& b) { return key(a) < key(b); });
    return m;
}

/// Clusters for n carbons: in proportion to n = 65, rounded to nearest (no ties occur), at least 1.
std::int64_t cluster_count(std::int64_t at_65, std::int64_t carbons) {
    return std::max<std::int64_t>(1, (2 * at_65 * carbons + 65) / 130);
}

/// Everything the norms of T and V are made of; the generators keep it.
struct Factors {
    std::int64_t ao_clusters = 0, occupied_clusters = 0;
    std::vector<std::int64_t> ao_sizes;        // N_C
    std::vector<std::int64_t> occupied_sizes;  // N_I
    std::vector<std::int64_t> pair_rows;       // m_IJ, all I, J
    Table f{0, 0}, q{0, 0};

    std::vector<std::int64_t> row_i, row_j;  // I and J of each kept row tile

    double norm_t(std::int64_t p, std::int64_t c, std::int64_t d) const {
        return f(row_i[p], c) * f(row_j[p], d) * std::sqrt(rows_times(p, c, d));
    }
    std::int64_t height(std::int64_t p) const { return pair_rows[row_i[p] * occupied_clusters + row_j[p]]; }
    /// m_IJ N_C N_D
    double rows_times(std::int64_t p, std::int64_t c, std::int64_t d) const {
        return static_cast<double>(height(p) * ao_sizes[c] * ao_sizes[d]);
    }
};

Factors make_factors(const Molecule& m, std::int64_t occupied_clusters, std::int64_t ao_clusters) {
    const auto carbons = static_cast<std::int64_t>(m.carbon_x.size());
    const auto occupied = static_cast<std::int64_t>(m.bonds.size());
    const auto ao_cluster = [&](std::int64_t unit) { return unit * ao_clusters / carbons; };
    const auto occupied_cluster = [&](std::int64_t i) { return i * occupied_clusters / occupied; };

    Factors x;
    x.ao_clusters = ao_clusters;
    x.occupied_clusters = occupied_clusters;
    x.ao_sizes.assign(ao_clusters, 0);
    std::vector<double> unit_orbitals(carbons, 0.0);
    for (const Atom& atom : m.atoms) {
        x.ao_sizes[ao_cluster(atom.unit)] += atom.orbitals;
        unit_orbitals[atom.unit] += static_cast<double>(atom.orbitals);
    }
    x.occupied_sizes.assign(occupied_clusters, 0);
    for (std::int64_t i = 0; i < occupied; ++i) ++x.occupied_sizes[occupied_cluster(i)];

    x.pair_rows.assign(occupied_clusters * occupied_clusters, 0);
    for (std::int64_t i = 0; i < occupied; ++i)
        for (std::int64_t j = 0; j < occupied; ++j)
            if (distance(m.bonds[i], m.bonds[j]) <= kPairReach)
                ++x.pair_rows[occupied_cluster(i) * occupied_clusters + occupied_cluster(j)];
    for (std::int64_t i = 0; i < occupied_clusters; ++i)
        for (std::int64_t j = 0; j < occupied_clusters; ++j)
            if (x.pair_rows[i * occupied_clusters + j] > 0) {
                x.row_i.push_back(i);
                x.row_j.push_back(j);
            }

    x.f = Table(occupied_clusters, ao_clusters);
    for (std::int64_t i = 0; i < occupied; ++i)
        for (const Atom& atom : m.atoms)
            x.f(occupied_cluster(i), ao_cluster(atom.unit)) +=
                static_cast<double>(atom.orbitals) * std::exp(-2 * distance(m.bonds[i], atom.at) / kLambda);
    for (std::int64_t i = 0; i < occupied_clusters; ++i)
        for (std::int64_t c = 0; c < ao_clusters; ++c)
            x.f(i, c) = std::sqrt(x.f(i, c) / static_cast<double>(x.occupied_sizes[i] * x.ao_sizes[c]));

    x.q = Table(ao_clusters, ao_clusters);
    for (std::int64_t g = 0; g < carbons; ++g)
        for (std::int64_t h = 0; h < carbons; ++h) {
            const double dx = m.carbon_x[g] - m.carbon_x[h];
            const double e = kQ0 * std::exp(-kMu * dx * dx);
            x.q(ao_cluster(g), ao_cluster(h)) += unit_orbitals[g] * unit_orbitals[h] * e * e;
        }
    for (double& v : x.q.values) v = std::sqrt(v);
    return x;
}

Shape shape_of_t(const TileGrid& grid, const Factors& x) {
    const std::int64_t n = x.ao_clusters;
    // T is kept where the product of two f_IC / sqrt(N_C) is above tau sqrt(m_IJ).
    Table weight(x.occupied_clusters, n);
    std::vector<double> largest(x.occupied_clusters, 0.0);
    for (std::int64_t i = 0; i < x.occupied_clusters; ++i)
        for (std::int64_t c = 0; c < n; ++c) {
            weight(i, c) = x.f(i, c) / std::sqrt(static_cast<double>(x.ao_sizes[c]));
            largest[i] = std::max(largest[i], weight(i, c));
        }
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    for (std::int64_t p = 0; p < static_cast<std::int64_t>(x.row_i.size()); ++p) {
        const double least = kTau * std::sqrt(static_cast<double>(x.height(p))) * kRoundingSlack;
        for (std::int64_t c = 0; c < n; ++c) {
            if (weight(x.row_i[p], c) * largest[x.row_j[p]] <= least) continue;
            for (std::int64_t d = 0; d < n; ++d) {
                const double norm = x.norm_t(p, c, d);
                if (!(norm > kTau * x.rows_times(p, c, d))) continue;
                ordinals.push_back((p * n + c) * n + d);
                norms.push_back(norm);
            }
        }
    }
    return Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
}

std::uint64_t state_of(Stream stream, const TileInfo& info) {
    return tile_state(kSeed, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(info.tile.value));
}

}  // namespace

std::optional<AlkaneTiling> published_tiling(std::string_view name, std::int64_t carbons) {
    for (const auto& [known, occupied, ao] : {std::tuple{"v1", 8, 60}, {"v2", 8, 42}, {"v3", 6, 27}})
        if (name == known) return AlkaneTiling{known, cluster_count(occupied, carbons), cluster_count(ao, carbons)};
    return std::nullopt;
}

Problem make_alkane(std::int64_t carbons, const AlkaneTiling& tiling, bool minimal_basis) {
    const auto factors = std::make_shared<const Factors>(
        make_factors(make_molecule(carbons, minimal_basis), tiling.occupied_clusters, tiling.ao_clusters));

    std::vector<std::int64_t> heights;
    for (std::size_t p = 0; p < factors->row_i.size(); ++p)
        heights.push_back(factors->height(static_cast<std::int64_t>(p)));
    const Tiling rows = Tiling::from_sizes(heights), ao = Tiling::from_sizes(factors->ao_sizes);

    Problem problem;
    problem.name = fmt::format("alkane:{}:{}{}", carbons, tiling.name, minimal_basis ? ":min" : "");
    problem.spec = "pcd,cdab->pab";
    problem.a = shape_of_t({rows, ao, ao}, *factors);
    problem.b = shape_of_v(ao, factors->q, kTau);
    problem.c = shape_of_r(rows, problem.a, problem.b, kTau);
    set_values(
        problem,
        [factors](const TileInfo& info) -> HashTileValues {
            const auto& at = info.coordinates;
            return {state_of(Stream::values_a, info),
                    hash_scale<double>(factors->norm_t(at[0], at[1], at[2]), info.extents.product())};
        },
        [factors](const TileInfo& info) -> HashTileValues {
            const auto& at = info.coordinates;
            return {state_of(Stream::values_b, info),
                    hash_scale<double>(factors->q(at[0], at[2]) * factors->q(at[1], at[3]), info.extents.product())};
        });
    problem.b_on_demand = true;
    return problem;
}

}  // namespace tessera
