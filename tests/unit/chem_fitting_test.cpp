// Density fitting: integrals over auxiliary functions, Fock matrices, and the equations of CCSD with them.
#include <gtest/gtest.h>

#include <cmath>

#include "base/shared_data.hpp"
#include "chem/ccsd.hpp"
#include "chem/fitting.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/triples_energy.hpp"
#include "tessera/base/error.hpp"

namespace tessera::chem {
namespace {

/// Some density that is not symmetric.
RealTensor some(const Tiling& rows, const Tiling& columns) {
    Matrix m(rows.extent(), columns.extent());
    for (Eigen::Index i = 0; i < m.rows(); ++i)
        for (Eigen::Index j = 0; j < m.cols(); ++j) m(i, j) = std::cos(3.0 * static_cast<double>(i * j + 2 * i));
    return to_tensor(m, rows, columns);
}

/// Products of s functions on one atom are s functions: an auxiliary set of these fits without an error.
TEST(Fitting, IsExactWhereTheAuxiliarySetHasAllProducts) {
    const auto m = parse_xyz("1\n\nHe 0.1 0.2 0.3\n", "he");
    const auto set = parse_g94("****\nHe 0\nS 1 1.0\n 0.5 1\nS 1 1.0\n 1.7 1\nS 1 1.0\n 4.0 1\n****\n", "three");
    const auto auxiliary = parse_g94(
        "****\nHe 0\nS 1 1.0\n 1.0 1\nS 1 1.0\n 2.2 1\nS 1 1.0\n 4.5 1\nS 1 1.0\n 3.4 1\nS 1 1.0\n 5.7 1\nS 1 1.0\n 8 "
        "1\n",
        "six");
    const Integrals x(place(set, m));
    const auto tiling = tile_atoms(x.basis(), 16);
    TensorWork work({});
    const AoIntegrals ao(x, tiling, 0);
    TwoElectron exact(ao);
    FittedField fitted(Fitting(x, tiling, place(auxiliary, m), 0), work);
    const RealTensor c = some(tiling.functions, Tiling{2});
    const auto expected = exact.of(work.product("mi,ni->mn", c, c), nullptr, work);
    EXPECT_LT(max_abs(add(1.0, fitted.of_product(c, c, work), -1.0, expected)), 1e-9 * max_abs(expected));
    // Without orbitals: from the eigenvectors of the density.
    const auto again = fitted.of(work.product("mi,ni->mn", c, c), nullptr, work);
    EXPECT_LT(max_abs(add(1.0, again, -1.0, expected)), 1e-9 * max_abs(expected));
    const auto twice = parse_g94("****\nHe 0\nS 1 1.0\n 1.0 1\nS 1 1.0\n 1.0 1\n", "twice");
    EXPECT_THROW(Fitting(x, tiling, place(twice, m), 0), UserError);
}

/// 2 J - K of any density against the sums over Q as they are written.
TEST(Fitting, FockMatrixAgainstThePlainSum) {
    const auto m = parse_xyz("3\n\nO 0 0 0.1\nH 0 0.8 -0.4\nH 0.1 -0.7 -0.5\n", "w");
    const Integrals x(place(find_basis("def2-svp"), m));
    const auto auxiliary = place(find_basis("def2-svp-rifit"), m);
    const FittingIntegrals three(x, auxiliary);
    const Matrix metric = three.metric(2);
    const auto n = x.basis().functions, q = auxiliary.functions;
    Matrix raw = Matrix::Zero(q, n * n);  // (P|mn)
    FittingIntegrals::Coulomb engine(three);
    const auto& shells = x.basis().shells;
    for (std::size_t p = 0; p < auxiliary.shells.size(); ++p)
        for (std::size_t k = 0; k < shells.size(); ++k)
            for (std::size_t l = 0; l < shells.size(); ++l) {
                const double* v = engine.block(static_cast<std::int64_t>(p), static_cast<std::int64_t>(k),
                                               static_cast<std::int64_t>(l));
                for (std::int64_t a = 0; v && a < auxiliary.shells[p].shell.functions(); ++a)
                    for (std::int64_t b = 0; b < shells[k].shell.functions(); ++b)
                        for (std::int64_t c = 0; c < shells[l].shell.functions(); ++c)
                            raw(auxiliary.shells[p].first + a, (shells[k].first + b) * n + shells[l].first + c) = *v++;
            }
    const Matrix fitted = solve(metric, raw);  // (P|Q)^-1 (Q|mn)
    RealTensor first;
    for (const std::int64_t target : {5, 14, 100})
        for (const int threads : {1, 2}) {
            const auto tiling = tile_atoms(x.basis(), target);
            TensorWork work({.here = {.threads = threads}});
            FittedField field(Fitting(x, tiling, auxiliary, threads), work);
            const auto left = some(tiling.functions, Tiling{3, 2});
            const auto other = add(0.5, left, 1.0, to_tensor(Matrix::Ones(n, 5), tiling.functions, Tiling{3, 2}));
            const Matrix d = to_matrix(work.product("mi,ni->mn", left, other));
            Matrix expected = Matrix::Zero(n, n);
            for (std::int64_t p = 0; p < q; ++p) {
                double j = 0;
                for (std::int64_t l = 0; l < n; ++l)
                    for (std::int64_t s = 0; s < n; ++s) j += fitted(p, l * n + s) * d(l, s);
                for (std::int64_t mu = 0; mu < n; ++mu)
                    for (std::int64_t nu = 0; nu < n; ++nu) {
                        expected(mu, nu) += 2 * j * raw(p, mu * n + nu);
                        for (std::int64_t l = 0; l < n; ++l)
                            for (std::int64_t s = 0; s < n; ++s)
                                if (mu < 2 || nu == 7)  // enough of them
                                    expected(mu, nu) -= raw(p, mu * n + l) * fitted(p, nu * n + s) * d(l, s);
                    }
            }
            const RealTensor got = field.of_product(left, other, work);
            const Matrix g = to_matrix(got);
            for (std::int64_t mu = 0; mu < n; ++mu)
                for (std::int64_t nu = 0; nu < n; ++nu)
                    if (mu < 2 || nu == 7) {
                        EXPECT_NEAR(g(mu, nu), expected(mu, nu), 1e-8) << target;
                    }
            if (threads == 1)
                first = got;
            else
                EXPECT_TRUE(got == first) << target;
        }
}

/// The sum as it is written, with (ac|bd) as [a][c][b][d].
class PlainAbcd final : public AbcdTerm {
  public:
    explicit PlainAbcd(RealTensor v) : v_(std::move(v)) {}
    RealTensor apply(const RealTensor& tau, const RealTensor&, TensorWork& work) override {
        return work.product("acbd,ijcd->ijab", v_, tau);
    }
    bool dressed() const override { return false; }

  private:
    RealTensor v_;
};

/// An iteration of CCSD from dressed B, and from the integrals of four indices that B stands for.
TEST(Fitting, AnIterationIsThatOfTheIntegralsItStandsFor) {
    for (const char* xyz : {"2\n\nLi 0 0 0\nH 0 0.2 1.5\n", "2\n\nH 0 0 0\nH 0 0 0.7\n",
                            "3\n\nO 0 0 0.1\nH 0 0.8 -0.4\nH 0.1 -0.7 -0.5\n"})
        for (const std::int64_t tile : {1, 3, 7, 100}) {
            const auto m = parse_xyz(xyz, "m");
            if (tile == 1 && m.atoms.size() == 3) continue;
            const auto set = find_basis("def2-svp");
            const Integrals x(place(set, m));
            const auto tiling = tile_atoms(x.basis(), tile);
            Amplitudes first;
            for (const int threads : {1, 2}) {
                TensorWork w({.here = {.threads = threads}});
                const Fitting fitting(x, tiling, place(find_basis("def2-svp-rifit"), m), threads);
                FittedField field(fitting, w);
                const auto scf = rhf(m, x, field, atomic_guess(m, set, x.basis(), w).density, {}, w);
                const auto orbitals = make_orbitals(scf, 0, 0, tiling.functions, tile);
                const auto b = transform(fitting, orbitals, Transform::ccsd, w);
                const Tiling o = orbitals.occupied.grid().tiling(1), v = orbitals.virtuals.grid().tiling(1);
                const auto r = RealTensor::random(Shape::dense(TileGrid{o, o, v, v}), 7);
                const Amplitudes t{RealTensor::random(Shape::dense(TileGrid{o, v}), 8),
                                   add(1.0, r, 1.0, w.permuted("jiba->ijab", r))};
                FittedSource source(b, orbitals, &field);
                const auto next = next_amplitudes(source, orbitals, t, w);
                if (threads == 2) {
                    EXPECT_TRUE(next.t1 == first.t1 && next.t2 == first.t2) << xyz << tile;
                    continue;
                }
                first = next;
                MoIntegrals mo;
                mo.oovv = w.product("Qia,Qjb->ijab", b.ov, b.ov);
                mo.ooov = w.product("Qki,Qlc->kilc", b.oo, b.ov);
                mo.ovvv = w.product("Qkc,Qad->kcad", b.ov, b.vv);
                mo.oooo = w.product("Qki,Qlj->kilj", b.oo, b.oo);
                mo.o_o_vv = w.product("Qki,Qac->kiac", b.oo, b.vv);
                PlainAbcd abcd(w.product("Qac,Qbd->acbd", b.vv, b.vv));
                StoredSource stored(mo, &abcd);
                const auto expected = next_amplitudes(stored, orbitals, t, w);
                EXPECT_LT(max_abs(add(1.0, next.t1, -1.0, expected.t1)), 1e-10 * max_abs(expected.t1)) << xyz << tile;
                EXPECT_LT(max_abs(add(1.0, next.t2, -1.0, expected.t2)), 1e-10 * max_abs(expected.t2)) << xyz << tile;
                // (T) from (kc|ad) made by ranges of c and a, and from all of them.
                const auto e = triples_energy(stored_triples_integrals(mo), orbitals, t, w.workers(), {});
                for (const std::int64_t longest : {0, 8, 16}) {
                    MoIntegrals kept;
                    auto made = fitted_triples_integrals(b, kept, w);
                    made.longest = longest;
                    const auto by_ranges = triples_energy(made, orbitals, t, w.workers(), {});
                    EXPECT_NEAR(by_ranges.energy, e.energy, 1e-11 * std::abs(e.energy)) << longest;
                    EXPECT_EQ(by_ranges.flops, e.flops) << longest;
                }
                EXPECT_NEAR(correlation_energy(source, t.t2, w), correlation_energy(stored, t.t2, w), 1e-10);
            }
        }
}

TEST(Fitting, AuxiliarySetsAndReferences) {
    const auto m = parse_xyz("2\n\nNa 0 0 0\nCl 0 0 2.4\n", "nacl");
    for (const char* name : {"sto-3g", "DEF2-SVP", "def2-tzvp", "cc-pvdz", "cc-pvtz", "aug-cc-pvdz"}) {
        const auto sets = auxiliary_sets(name);
        for (const auto& x : {std::string(name), sets.jkfit, sets.rifit}) EXPECT_FALSE(find_basis(x).elements.empty());
        EXPECT_FALSE(find_basis(sets.rifit).references_of(parse_xyz("1\n\nC 0 0 0\n", "c")).empty());
    }
    EXPECT_TRUE(auxiliary_sets("mine.g94").jkfit.empty());
    const auto references = find_basis("def2-svp-rifit").references_of(m);
    ASSERT_EQ(references.size(), 2u);  // not that of the rare gases
    EXPECT_NE(references[0].find("294, 143"), std::string::npos) << references[0];
    EXPECT_THROW(place(find_basis("cc-pvtz-jkfit"), m), UserError);
}

}  // namespace
}  // namespace tessera::chem
