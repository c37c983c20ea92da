// The shapes of a molecule's ABCD term: their norms are bounds of what the integrals and amplitudes really are.

#include <gtest/gtest.h>

#include <cmath>

#include "base/shared_data.hpp"
#include "chem/geometry_bounds.hpp"
#include "tessera/base/error.hpp"

namespace tessera::chem {
namespace {

Molecule molecule(const std::string& file) { return read_xyz(find_shared_data("molecules/" + file)); }

/// (ij|kl) of all functions, one after the other.
std::vector<double> all_integrals(const Integrals& integrals) {
    const Basis& basis = integrals.basis();
    const auto n = basis.functions, shells = static_cast<std::int64_t>(basis.shells.size());
    std::vector<double> out(static_cast<std::size_t>(n * n * n * n), 0.0);
    Integrals::Coulomb engine(integrals);
    const auto shell = [&](std::int64_t s) -> const PlacedShell& { return basis.shells[static_cast<std::size_t>(s)]; };
    for (std::int64_t i = 0; i < shells; ++i)
        for (std::int64_t j = 0; j < shells; ++j)
            for (std::int64_t k = 0; k < shells; ++k)
                for (std::int64_t l = 0; l < shells; ++l) {
                    const double* block = engine.block(i, j, k, l);
                    if (!block) continue;
                    for (std::int64_t a = 0; a < shell(i).shell.functions(); ++a)
                        for (std::int64_t b = 0; b < shell(j).shell.functions(); ++b)
                            for (std::int64_t c = 0; c < shell(k).shell.functions(); ++c)
                                for (std::int64_t d = 0; d < shell(l).shell.functions(); ++d)
                                    out[static_cast<std::size_t>(
                                        (((shell(i).first + a) * n + shell(j).first + b) * n + shell(k).first + c) * n +
                                        shell(l).first + d)] = *block++;
                }
    return out;
}

/// One index of a tensor [..][from][..] goes over into another by a matrix (from, to); it becomes the last.
std::vector<double> turned(const std::vector<double>& x, const Matrix& by) {
    const auto from = by.rows(), rest = static_cast<Eigen::Index>(x.size()) / from;
    const Matrix out = Eigen::Map<const Matrix>(x.data(), from, rest).transpose() * by;
    return {out.data(), out.data() + out.size()};
}

GeometryOptions options(const char* basis, std::int64_t occupied, std::int64_t ao) {
    GeometryOptions o;
    o.basis = basis;
    o.occupied_clusters = occupied;
    o.ao_clusters = ao;
    o.threads = 2;
    return o;
}

class Bounds : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Bounds, HoldForEveryTile) {
    const auto [file, basis] = GetParam();
    const auto g = geometry_bounds(molecule(file), options(basis, 3, 3));
    const Tiling &ao = g.ao.functions, &occupied = g.occupied;
    const auto n = ao.extent(), o = occupied.extent();
    const auto eri = all_integrals(*g.integrals);
    const auto range = [](const Tiling& t, std::int64_t i) {
        const auto first = t.begin(TileIndex{i}).value;
        return std::pair(first, first + t.size(TileIndex{i}));
    };
    const auto norm = [&](const std::vector<double>& x, const Tiling* const(&tilings)[4], const std::int64_t(&at)[4]) {
        double sum = 0;
        std::int64_t size[4];
        for (int d = 0; d < 4; ++d) size[d] = tilings[d]->extent();
        const auto [b0, e0] = range(*tilings[0], at[0]);
        const auto [b1, e1] = range(*tilings[1], at[1]);
        const auto [b2, e2] = range(*tilings[2], at[2]);
        const auto [b3, e3] = range(*tilings[3], at[3]);
        for (auto i = b0; i < e0; ++i)
            for (auto j = b1; j < e1; ++j)
                for (auto k = b2; k < e2; ++k)
                    for (auto l = b3; l < e3; ++l) {
                        const double v = x[static_cast<std::size_t>(((i * size[1] + j) * size[2] + k) * size[3] + l)];
                        sum += v * v;
                    }
        return std::sqrt(sum);
    };
    // V: (ca|db)
    double nearest_v = 0;
    for (std::int64_t c = 0; c < ao.tile_count(); ++c)
        for (std::int64_t a = 0; a < ao.tile_count(); ++a)
            for (std::int64_t d = 0; d < ao.tile_count(); ++d)
                for (std::int64_t b = 0; b < ao.tile_count(); ++b) {
                    const double is = norm(eri, {&ao, &ao, &ao, &ao}, {c, a, d, b}),
                                 most = g.schwarz(c, a) * g.schwarz(d, b);
                    ASSERT_LE(is, most * (1 + 1e-12) + 1e-12);
                    nearest_v = std::max(nearest_v, is / most);
                }
    EXPECT_GT(nearest_v, 0.5);

    // T: canonical amplitudes t(ij,ab), then localised i and j, a and b over atomic orbitals.
    const Matrix &co = g.orbitals.occupied_matrix, &cv = g.orbitals.virtual_matrix;
    auto x = turned(turned(turned(turned(eri, co), cv), co), cv);  // (ia|jb)
    const auto v = cv.cols();
    for (std::int64_t i = 0; i < o; ++i)
        for (std::int64_t a = 0; a < v; ++a)
            for (std::int64_t j = 0; j < o; ++j)
                for (std::int64_t b = 0; b < v; ++b)
                    x[static_cast<std::size_t>(((i * v + a) * o + j) * v + b)] /=
                        g.orbitals.occupied_energies[static_cast<std::size_t>(i)] +
                        g.orbitals.occupied_energies[static_cast<std::size_t>(j)] -
                        g.orbitals.virtual_energies[static_cast<std::size_t>(a)] -
                        g.orbitals.virtual_energies[static_cast<std::size_t>(b)];
    const Matrix back = cv.transpose();
    x = turned(turned(turned(turned(x, g.rotation), back), g.rotation), back);  // [i][c][j][d]
    ASSERT_EQ(static_cast<std::int64_t>(x.size()), o * n * o * n);
    for (std::int64_t i = 0; i < occupied.tile_count(); ++i)
        for (std::int64_t j = 0; j < occupied.tile_count(); ++j)
            for (std::int64_t c = 0; c < ao.tile_count(); ++c)
                for (std::int64_t d = 0; d < ao.tile_count(); ++d)
                    ASSERT_LE(norm(x, {&occupied, &ao, &occupied, &ao}, {i, c, j, d}),
                              g.amplitudes.norm(i, j, c, d) + 1e-12)
                        << i << ' ' << j << ' ' << c << ' ' << d;
}

INSTANTIATE_TEST_SUITE_P(Geometry, Bounds,
                         testing::Values(std::tuple{"ch4.xyz", "def2-svp"}, std::tuple{"h2o.xyz", "cc-pvdz"},
                                         std::tuple{"c2h6.xyz", "sto-3g"}));

TEST(Geometry, TheProblemHasThoseTiles) {
    const auto butane = molecule("c4h10.xyz");
    auto how = options("sto-3g", 3, 4);
    const auto p = make_geometry(butane, how);
    EXPECT_EQ(p.spec, "pcd,cdab->pab");
    EXPECT_EQ(p.a.grid().tiling(0).tile_count(), 9);
    EXPECT_EQ(p.a.grid().tiling(0).extent(), 13 * 13);  // a pair of bonds
    EXPECT_EQ(p.b.grid().tiling(0).extent(), 4 * 5 + 10);
    ASSERT_TRUE(p.c.has_value());
    how.least = 1e-4;
    const auto fewer = make_geometry(butane, how);
    EXPECT_LT(fewer.b.tile_count(), p.b.tile_count());
    how.threads = 1;
    EXPECT_TRUE(make_geometry(butane, how).a == fewer.a);
}

TEST(Geometry, BadInputIsNamed) {
    const auto methane = molecule("ch4.xyz");
    const auto says = [](const Molecule& m, const GeometryOptions& o) -> std::string {
        try {
            make_geometry(m, o);
        } catch (const UserError& e) {
            return e.what();
        }
        return "nothing";
    };
    EXPECT_NE(says(methane, options("sto-3g", 1, 6)).find("6 clusters of atomic orbitals; there are 5 atoms"),
              std::string::npos);
    EXPECT_NE(says(methane, options("sto-3g", 5, 1)).find("5 clusters of occupied orbitals; there are 4"),
              std::string::npos);
    EXPECT_NE(says(methane, options("sto-3g", 0, 1)).find("0 clusters"), std::string::npos);
    auto twice = methane;
    twice.atoms[2].at = twice.atoms[1].at;
    EXPECT_NE(says(twice, options("sto-3g", 1, 1)).find("atoms 2 and 3 are 0 bohr apart"), std::string::npos);
    auto charged = methane;
    charged.charge = 1;
    EXPECT_NE(says(charged, options("sto-3g", 1, 1)).find("9 electrons are no closed shell"), std::string::npos);
    auto none = options("sto-3g", 1, 1);
    none.least = 0;
    EXPECT_NE(says(methane, none).find("above 0"), std::string::npos);
}

}  // namespace
}  // namespace tessera::chem
