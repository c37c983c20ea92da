#include "tessera/chem/geometry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "chem/clustering.hpp"
#include "chem/direct_field.hpp"
#include "chem/geometry_bounds.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/localise.hpp"
#include "problems/uniform_values.hpp"

namespace tessera::chem {

namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kNearest = 0.5;  // bohr: no two atoms of a molecule are nearer

/// Points of sum over k of weight exp(-x point) = 1 / x, for x from `least` to `most`: the integral of exp(-x t) over
/// t = exp(u), by the trapezoidal rule in u. The sum is right to a thousandth: kQuadrature makes a bound of it.
constexpr double kQuadrature = 1.001;
struct LaplacePoint {
    double at, weight;
};
std::vector<LaplacePoint> laplace_points(double least, double most) {
    constexpr double step = 0.7;
    const double first = std::log(2e-4 / most), last = std::log(12 / least);
    std::vector<LaplacePoint> out;
    for (double u = first; u <= last + step; u += step) out.push_back({std::exp(u), step * std::exp(u)});
    return out;
}

/// The atoms cluster by cluster, so that each cluster's functions stand together.
struct Clustered {
    Molecule molecule;
    std::vector<std::int64_t> cluster_of_atom;
};
Clustered by_cluster(const Molecule& molecule, std::int64_t clusters) {
    std::vector<Point> points;
    for (const auto& a : molecule.atoms) points.push_back(a.at);
    const auto group = cluster(points, clusters);
    std::vector<std::size_t> order(points.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return group[i]; });
    Clustered out{molecule, {}};
    out.molecule.atoms.clear();
    for (const auto i : order) {
        out.molecule.atoms.push_back(molecule.atoms[i]);
        out.cluster_of_atom.push_back(group[i]);
    }
    return out;
}

void check(const Molecule& m, const GeometryOptions& o) {
    const auto atoms = static_cast<std::int64_t>(m.atoms.size());
    require(std::isfinite(o.least) && o.least > 0, "{}: tiles are kept above {} per element, which must be above 0",
            m.name, o.least);
    require(o.ao_clusters >= 1 && o.ao_clusters <= atoms, "{}: {} clusters of atomic orbitals; there are {} atoms",
            m.name, o.ao_clusters, atoms);
    require(m.electrons() % 2 == 0 && m.electrons() > 0, "{}: {} electrons are no closed shell", m.name, m.electrons());
    for (std::size_t i = 0; i < m.atoms.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            require(distance(m.atoms[i].at, m.atoms[j].at) >= kNearest, "{}: atoms {} and {} are {:.3g} bohr apart",
                    m.name, j + 1, i + 1, distance(m.atoms[i].at, m.atoms[j].at));
}

/// Orbitals of the Fock matrix of the atoms' densities.
Orbitals first_orbitals(const Molecule& m, const BasisSet& set, const Integrals& integrals, const Tiling& functions,
                        TensorWork& work) {
    const AtomicGuess guess = atomic_guess(m, set, integrals.basis(), work);
    DirectField field(integrals, functions);
    RhfResult one;
    one.overlap = integrals.overlap();
    const Matrix fock = integrals.core_hamiltonian(m) +
                        to_matrix(field.of(to_tensor(guess.density, functions, functions), nullptr, work));
    const auto x = orthonormal_combinations(one.overlap);
    one.smallest_overlap = x.smallest;
    one.dropped = x.x.rows() - x.x.cols();
    const auto eigen = symmetric_eigen_within(x.x, fock);
    one.coefficients = x.x * Matrix(eigen.vectors);
    one.orbital_energies = eigen.values;
    one.occupied = m.electrons() / 2;
    require(one.occupied < one.coefficients.cols(), "{}: the basis has {} orbitals, and {} are occupied", m.name,
            one.coefficients.cols(), one.occupied);
    std::int64_t core = 0;
    for (const auto& a : m.atoms) core += core_orbitals(a.number);
    put_cores_first(one, guess.cores, core);
    return make_orbitals(one, core, core, functions, functions.largest_tile());
}

/// The occupied orbitals, localised and cluster by cluster.
void localise(GeometryBounds& g, std::int64_t clusters) {
    const auto local = foster_boys(g.orbitals.occupied_matrix, g.integrals->dipole());
    const auto group = cluster(local.centres, clusters);
    const auto n = static_cast<std::int64_t>(group.size());
    std::vector<std::int64_t> order(group.size()), sizes(static_cast<std::size_t>(std::ranges::max(group)) + 1, 0);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return group[static_cast<std::size_t>(i)]; });
    for (const auto of : group) ++sizes[static_cast<std::size_t>(of)];
    g.rotation = Matrix(n, n);
    for (std::int64_t i = 0; i < n; ++i) g.rotation.col(i) = local.rotation.col(order[static_cast<std::size_t>(i)]);
    g.occupied = Tiling::from_sizes(sizes);
}

/// The root of the sum of squares of each block of a matrix.
Table norms_of_blocks(const Matrix& m, const Tiling& rows, const Tiling& columns) {
    Table out(rows.tile_count(), columns.tile_count());
    for (std::int64_t r = 0; r < rows.tile_count(); ++r)
        for (std::int64_t c = 0; c < columns.tile_count(); ++c)
            out(r, c) = m.block(rows.begin(TileIndex{r}).value, columns.begin(TileIndex{c}).value,
                                rows.size(TileIndex{r}), columns.size(TileIndex{c}))
                            .norm();
    return out;
}

/// sqrt (ca|ca) over tiles of c and a: |(ca|db)| <= q_CA q_DB.
Table schwarz_of_tiles(const Integrals& integrals, const AoTiling& ao) {
    const auto n = ao.functions.tile_count();
    Table out(n, n);
    for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t a = 0; a < n; ++a) {
            const auto of = [&](std::int64_t t) {
                return std::pair(
                    ao.first_shell[static_cast<std::size_t>(t)],
                    ao.first_shell[static_cast<std::size_t>(t) + 1] - ao.first_shell[static_cast<std::size_t>(t)]);
            };
            const auto [c0, cs] = of(c);
            const auto [a0, as] = of(a);
            out(c, a) = integrals.schwarz_norm().block(c0, a0, cs, as).norm();
        }
    return out;
}

AmplitudeBounds amplitudes_of(const GeometryBounds& g, TensorWork& work) {
    const auto& orbitals = g.orbitals;
    const auto& integrals = *g.integrals;
    const Tiling& ao = g.ao.functions;
    const auto& eo = orbitals.occupied_energies;
    const auto& ev = orbitals.virtual_energies;
    const auto [low, highest] = std::ranges::minmax(eo);
    const auto [lowest, high] = std::ranges::minmax(ev);
    require(lowest > highest, "the lowest empty orbital ({:.3f} hartree) is below the highest occupied one ({:.3f})",
            lowest, highest);
    const double middle = 0.5 * (lowest + highest);
    const Tiling o = g.occupied, v = orbitals.virtuals.grid().tiling(1);
    const Basis& basis = integrals.basis();
    Matrix pairs(basis.functions, basis.functions);  // sqrt of the largest (mk|mk) of the two shells
    for (std::size_t i = 0; i < basis.shells.size(); ++i)
        for (std::size_t j = 0; j < basis.shells.size(); ++j)
            pairs
                .block(basis.shells[i].first, basis.shells[j].first, basis.shells[i].shell.functions(),
                       basis.shells[j].shell.functions())
                .setConstant(integrals.schwarz_largest()(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)));
    const RealTensor bounds = to_tensor(pairs, ao, ao), empty = to_tensor(orbitals.virtual_matrix, ao, v);
    AmplitudeBounds out;
    for (const auto& point : laplace_points(2 * (lowest - highest), 2 * (high - low))) {
        Matrix scaled = orbitals.occupied_matrix, of_v = orbitals.virtual_matrix;
        for (Eigen::Index i = 0; i < scaled.cols(); ++i)
            scaled.col(i) *= std::exp((eo[static_cast<std::size_t>(i)] - middle) * point.at);
        for (Eigen::Index a = 0; a < of_v.cols(); ++a)
            of_v.col(a) *= std::exp((middle - ev[static_cast<std::size_t>(a)]) * point.at);
        const Matrix local = (scaled * g.rotation).cwiseAbs();
        const Matrix projected = to_matrix(work.product("ka,ca->kc", to_tensor(of_v, ao, v), empty)).cwiseAbs();
        const RealTensor half = work.product("mi,mk->ik", to_tensor(local, ao, o), bounds);
        const Matrix whole = to_matrix(work.product("ik,kc->ic", half, to_tensor(projected, ao, ao)));
        out.factors.push_back(norms_of_blocks(whole, o, ao));
        out.weights.push_back(kQuadrature * point.weight);
    }
    return out;
}

Shape shape_of_t(const Tiling& rows, const GeometryBounds& g, double least) {
    const Tiling &o = g.occupied, &ao = g.ao.functions;
    const auto n = ao.tile_count(), occupied = o.tile_count();
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    for (std::int64_t i = 0; i < occupied; ++i)
        for (std::int64_t j = 0; j < occupied; ++j)
            for (std::int64_t c = 0; c < n; ++c)
                for (std::int64_t d = 0; d < n; ++d) {
                    const double norm = g.amplitudes.norm(i, j, c, d);
                    const auto p = i * occupied + j;
                    const auto elements = rows.size(TileIndex{p}) * ao.size(TileIndex{c}) * ao.size(TileIndex{d});
                    if (!(norm > least * static_cast<double>(elements))) continue;
                    ordinals.push_back((p * n + c) * n + d);
                    norms.push_back(norm);
                }
    return Shape::from_sorted({rows, ao, ao}, std::move(ordinals), std::move(norms));
}

HashRule values_within(const Shape& shape, Stream stream) {
    return [shape, stream](const TileInfo& info) -> HashTileValues {
        const auto slot = shape.find(info.tile);
        return {tile_state(kSeed, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(info.tile.value)),
                hash_scale<double>(slot ? shape.norm_of(*slot) : 0, info.extents.product())};
    };
}

}  // namespace

GeometryBounds geometry_bounds(const Molecule& given, const GeometryOptions& options) {
    check(given, options);
    const double start = now_seconds();
    const auto say = [&](const std::string& line) {
        if (options.log) options.log(fmt::format("{:7.1f} s  {}", now_seconds() - start, line));
    };
    TensorWorkers workers;
    workers.here.threads = resolve_threads(options.threads);
    TensorWork work(workers);
    GeometryBounds g;
    auto clustered = by_cluster(given, options.ao_clusters);
    g.molecule = std::move(clustered.molecule);
    const BasisSet set = find_basis(options.basis, options.basis_folder);
    g.integrals = std::make_unique<Integrals>(place(set, g.molecule), options.threads);
    g.ao = tile_clusters(g.integrals->basis(), clustered.cluster_of_atom);
    say(fmt::format("{} basis functions in {} tiles", g.integrals->basis().functions, g.ao.functions.tile_count()));
    g.orbitals = first_orbitals(g.molecule, set, *g.integrals, g.ao.functions, work);
    say("orbitals of one Fock matrix, of the atoms' densities");
    require(options.occupied_clusters >= 1 && options.occupied_clusters <= g.orbitals.occupied_count(),
            "{}: {} clusters of occupied orbitals; there are {} orbitals without those of the cores", given.name,
            options.occupied_clusters, g.orbitals.occupied_count());
    localise(g, options.occupied_clusters);
    say(fmt::format("{} occupied orbitals localised", g.orbitals.occupied_count()));
    g.schwarz = schwarz_of_tiles(*g.integrals, g.ao);
    g.amplitudes = amplitudes_of(g, work);
    say(fmt::format("bounds of amplitudes at {} Laplace points", g.amplitudes.weights.size()));
    return g;
}

Problem make_geometry(const Molecule& molecule, const GeometryOptions& options) {
    const auto g = geometry_bounds(molecule, options);
    std::vector<std::int64_t> heights;
    for (std::int64_t i = 0; i < g.occupied.tile_count(); ++i)
        for (std::int64_t j = 0; j < g.occupied.tile_count(); ++j)
            heights.push_back(g.occupied.size(TileIndex{i}) * g.occupied.size(TileIndex{j}));
    const Tiling rows = Tiling::from_sizes(heights);

    Problem out;
    out.name = fmt::format("geometry:{}:{},{}:{}", molecule.name, options.occupied_clusters, options.ao_clusters,
                           options.basis);
    out.spec = "pcd,cdab->pab";
    out.a = shape_of_t(rows, g, options.least);
    out.b = shape_of_v(g.ao.functions, g.schwarz, options.least);
    out.c = shape_of_r(rows, out.a, out.b, options.least);
    set_values(out, values_within(out.a, Stream::values_a), values_within(out.b, Stream::values_b));
    out.b_on_demand = true;
    return out;
}

}  // namespace tessera::chem
