// Closed shells given by integrals: files of them, and chem::CoupledCluster over arrays.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "base/shared_data.hpp"
#include "chem/fcidump.hpp"
#include "tessera/chem/coupled_cluster.hpp"

namespace tessera::chem {
namespace {

std::string water() {
    // The build tree's shared files are links into the sources.
    return std::filesystem::canonical(find_shared_data("molecules/h2o.xyz")).parent_path() /
           "../../tests/data/h2o_sto-3g.fcidump";
}
// By PySCF 2.14, which wrote the file.
constexpr double kRhf = -74.96302313846289, kMp2 = -0.03554565164733486, kCcsd = -0.04943856303555841,
                 kTriples = -6.740968399759979e-05;

EnergyOptions tight(Method method = Method::ccsd_t) {
    EnergyOptions o;
    o.method = method;
    o.converge = 1e-11;
    return o;
}

std::size_t pair_of(std::int64_t p, std::int64_t q) {
    return static_cast<std::size_t>(std::max(p, q) * (std::max(p, q) + 1) / 2 + std::min(p, q));
}
double two(const Hamiltonian& h, std::int64_t p, std::int64_t q, std::int64_t r, std::int64_t s) {
    return h.two[pair_of(static_cast<std::int64_t>(pair_of(p, q)), static_cast<std::int64_t>(pair_of(r, s)))];
}
std::vector<double> all_of(const Hamiltonian& h) {
    std::vector<double> x;
    const auto n = h.orbitals;
    for (std::int64_t i = 0; i < n * n * n * n; ++i)
        x.push_back(two(h, i / (n * n * n), i / (n * n) % n, i / n % n, i % n));
    return x;
}

TEST(Fcidump, GivesTheEnergiesOfTheProgramThatWroteIt) {
    const auto h = read_fcidump(water());
    EXPECT_EQ(h.orbitals, 7);
    EXPECT_EQ(h.electrons, 10);
    const auto e = energy(h, tight());
    EXPECT_NEAR(e.rhf, kRhf, 1e-9);
    EXPECT_NEAR(e.mp2, kMp2, 1e-9);
    EXPECT_NEAR(e.ccsd, kCcsd, 1e-9);
    EXPECT_NEAR(e.triples, kTriples, 1e-9);
    EXPECT_NEAR(e.total, kRhf + kCcsd + kTriples, 1e-9);
    EXPECT_NEAR(energy(h, tight(Method::mp2)).total, kRhf + kMp2, 1e-9);
    EXPECT_NEAR(energy(h, tight(Method::rhf)).total, kRhf, 1e-9);
}

/// The energy is of the Hamiltonian, not of the orbitals it is written in.
TEST(Fcidump, AnyOrthonormalOrbitalsWillDo) {
    auto h = read_fcidump(water());
    const auto n = h.orbitals;
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> angle(-0.3, 0.3);
    for (std::int64_t p = 0; p < n; ++p)
        for (std::int64_t q = 0; q < p; ++q) {  // a rotation of p and q
            const double c = std::cos(angle(random)), s = std::sqrt(1 - c * c);
            auto x = all_of(h);
            std::int64_t step = 1;
            const auto rotate = [&](std::vector<double>& y, std::int64_t by) {
                for (std::int64_t i = 0; i < static_cast<std::int64_t>(y.size()); ++i)
                    if (i / by % n == p) {
                        const auto j = i + (q - p) * by;
                        const double yp = y[i], yq = y[j];
                        y[i] = c * yp + s * yq;
                        y[j] = c * yq - s * yp;
                    }
            };
            for (int d = 0; d < 4; ++d, step *= n) rotate(x, step);
            rotate(h.one, 1);
            rotate(h.one, n);
            for (std::int64_t i = 0; i < n * n * n * n; ++i)
                h.two[pair_of(static_cast<std::int64_t>(pair_of(i / (n * n * n), i / (n * n) % n)),
                              static_cast<std::int64_t>(pair_of(i / n % n, i % n)))] = x[i];
        }
    const auto e = energy(h, tight());
    EXPECT_NEAR(e.rhf, kRhf, 1e-9);
    EXPECT_NEAR(e.ccsd, kCcsd, 1e-9);
    EXPECT_NEAR(e.triples, kTriples, 1e-9);
}

constexpr const char* kTwo =
    "0.5 1 1 1 1\n0.4 2 2 1 1\n0.1 2 1 2 1\n0.45 2 2 2 2\n-1.2 1 1 0 0\n-.5 2 2 0 0\n0.7 0 0 0 0\n";
Hamiltonian parsed(const std::string& text) { return parse_fcidump(text, "x", 1 << 24); }

TEST(Fcidump, IsReadInTheFormsThatProgramsWrite) {
    const double expected = energy(parsed(std::string("&FCI NORB=2,NELEC=2,MS2=0,\n&END\n") + kTwo), tight()).total;
    for (const char* head : {" &FCI NORB=   2,NELEC= 2,MS2= 0,\n  ORBSYM=1,1,\n  ISYM=1,\n &END\n",
                             "&fci norb=2 nelec=2 /\n", "&FCI\nNORB = 2\nNELEC = 2\nIUHF=0\nUHF=.FALSE.\n/\n",
                             "&FCI NORB=2,NELEC=2,ORBSYM=1,\n1/\n", "&FCI NORB=2,NELEC=2,! words\n$END\n"})
        EXPECT_EQ(energy(parsed(std::string(head) + kTwo), tight()).total, expected) << head;
    // Every place of an integral, Fortran's exponents, orbital energies, ends of lines.
    EXPECT_EQ(
        energy(parsed("&FCI NORB=2,NELEC=2/\r\n5.0D-1 1 1 1 1\r\n0.4 1 1 2 2\n0.4 2 2 1 1\n0.1 1 2 2 1\n+4.5d-01 2 2 2 "
                      "2\n-1.2 1 1 0 0\n-0.5 2 2 0 0\n-0.3 1 0 0 0\n0.7 0 0 0 0\n\n"),
               tight())
            .total,
        expected);
}

TEST(Fcidump, OfNoUseIsRefusedWithItsLine) {
    const std::string good = "&FCI NORB=2,NELEC=2,MS2=0,&END\n";
    for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
             {"", "empty"},
             {"2 electrons\n", "x:1: '2 electrons' is not '&FCI'"},
             {"&FCI NORB=2,NELEC=2\n1.0 1 1 1 1\n", "no end"},
             {"&FCI NELEC=2,&END\n", "no NORB"},
             {"&FCI NORB=2 /\n", "no NELEC"},
             {"&FCI NORB=0,NELEC=2 /\n", "no orbitals"},
             {"&FCI NORB=-3,NELEC=2 /\n", "NORB is '-3'"},
             {"&FCI NORB=99999999999999999999,NELEC=2 /\n", "NORB is '99999999999999999999'"},
             {"&FCI NORB=2,2,NELEC=2 /\n", "NORB is '2'"},
             {"&FCI NORB=2,NELEC=3 /\n", "NELEC=3"},
             {"&FCI NORB=2,NELEC=6 /\n", "NELEC=6"},
             {"&FCI NORB=2,NELEC=2,MS2=2 /\n", "MS2=2: only closed shells"},
             {"&FCI NORB=2,NELEC=2,IUHF=1 /\n", "only restricted"},
             {"&FCI NORB=2,NELEC=2,UHF=.TRUE. /\n", "only restricted"},
             {"&FCI =2 /\n", "after no name"},
             {good + "1.0 1 1 1\n", "x:2: '1.0 1 1 1': a number and four orbitals"},
             {good + "one 1 1 1 1\n", "x:2: 'one' is no number"},
             {good + "nan 1 1 1 1\n", "x:2: 'nan' is no number"},
             {good + "1e999 1 1 1 1\n", "is no number"},
             {good + "(1.0,0.0) 1 1 1 1\n", "only real"},
             {good + "\n1.0 1 1 1 3\n", "x:3: '3' is no orbital from 0 to 2"},
             {good + "1.0 1 1 1 -1\n", "'-1' is no orbital"},
             {good + "1.0 1 1.5 1 1\n", "'1.5' is no orbital"},
             {good + "1.0 1 1 1 0\n", "no integral is numbered 1 1 1 0"},
             {good + "1.0 0 1 0 0\n", "no integral is numbered 0 1 0 0"},
             {good + "1.0 1 2 0 0\n1.1 2 1 0 0\n", "x:3: 1.1 for the integral 2 1 0 0, which was 1 before"},
             {good + "1.0 1 2 1 1\n1.1 1 1 2 1\n", "which was 1 before"},
             {good + "1.0 0 0 0 0\n1.1 0 0 0 0\n", "which was 1 before"}}) {
        try {
            parsed(text);
            ADD_FAILURE() << text;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
            EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
        }
    }
    EXPECT_THROW(parsed("&FCI NORB=3000,NELEC=2 /\n"), BudgetError);
    EXPECT_THROW(read_fcidump(water() + ".none"), UserError);
    EXPECT_THROW(read_fcidump(water(), 1024), BudgetError);
}

TEST(Hamiltonians, OptionsOfMoleculesAreRefused) {
    const auto h = read_fcidump(water());
    auto o = tight();
    o.frozen_core = true;
    EXPECT_THROW(energy(h, o), UserError);
    o = tight();
    o.integrals = IntegralKind::df;
    EXPECT_THROW(energy(h, o), UserError);
    o = tight();
    o.checkpoint = "x.h5";
    EXPECT_THROW(energy(h, o), UserError);
    o = tight();
    o.here.memory = 1 << 20;
    EXPECT_THROW(energy(h, o), BudgetError);
    o = tight();
    o.max_iterations = 3;
    EXPECT_THROW(energy(h, o), NotConverged);
    auto short_of = h;
    short_of.two.pop_back();
    EXPECT_THROW(energy(short_of, tight()), UserError);
}

/// Integrals of the file as a caller's arrays: the file's orbitals are Hartree-Fock's.
struct Given {
    explicit Given(const Hamiltonian& from) : h(from), x(all_of(from)), fock(from.one) {
        for (std::int64_t p = 0; p < n; ++p)
            for (std::int64_t q = 0; q < n; ++q)
                for (std::int64_t k = 0; k < o; ++k) fock[p * n + q] += 2 * two(h, p, q, k, k) - two(h, p, k, k, q);
        for (std::int64_t a = 0; a < v; ++a)
            for (std::int64_t c = 0; c <= a; ++c)
                for (std::int64_t b = 0; b < v; ++b)
                    for (std::int64_t d = 0; d <= b; ++d) pairs.push_back(two(h, o + a, o + c, o + b, o + d));
    }
    ArrayView<const double> block(bool p, bool q, bool r, bool s) const {
        const IndexVector strides{n * n * n, n * n, n, 1};
        const bool is_virtual[] = {p, q, r, s};
        IndexVector extents;
        const double* first = x.data();
        for (int d = 0; d < 4; ++d) {
            extents.push_back(is_virtual[d] ? v : o);
            if (is_virtual[d]) first += o * strides[d];
        }
        return {first, extents, strides};
    }
    OrbitalIntegrals integrals() const {
        OrbitalIntegrals i;
        i.oooo = block(false, false, false, false);
        i.ooov = block(false, false, false, true);
        i.oovv = block(false, false, true, true);
        i.ovov = block(false, true, false, true);
        i.ovvv = rows(0, o);
        return i;
    }
    /// (p a|b c) for p from `begin` on, by pairs b >= c.
    OrbitalIntegrals::Rows rows(std::int64_t begin, std::int64_t most) const {
        return [this, begin, most](std::int64_t first, std::int64_t count, std::span<double> out) {
            ASSERT_LE(first + count, most);
            std::size_t at = 0;
            for (auto p = begin + first; p < begin + first + count; ++p)
                for (std::int64_t a = 0; a < v; ++a)
                    for (std::int64_t b = 0; b < v; ++b)
                        for (std::int64_t c = 0; c <= b; ++c) out[at++] = two(h, p, o + a, o + b, o + c);
            ASSERT_EQ(at, out.size());
        };
    }
    ArrayView<const double> fock_view() const { return {fock.data(), {n, n}}; }

    Hamiltonian h;
    std::int64_t n = h.orbitals, o = h.electrons / 2, v = n - o;
    std::vector<double> x, fock, pairs;
};

TEST(CoupledClusterOverArrays, GivesTheSameEnergiesWhereverIntegralsAre) {
    const Given given(read_fcidump(water()));
    const auto o = given.o, v = given.v, pairs = v * (v + 1) / 2;
    std::vector<double> identity(static_cast<std::size_t>(v * v));
    for (std::int64_t a = 0; a < v; ++a) identity[a * v + a] = 1;
    for (int how = 0; how < 5; ++how)
        for (const std::int64_t tile : {1, 3, 32}) {
            auto integrals = given.integrals();
            if (how < 2)
                integrals.vvvv_pairs = {given.pairs.data(), {pairs, pairs}};
            else
                integrals.vvvv = given.rows(o, v);
            integrals.keep_vvvv = how % 2 == 0;
            if (how == 4) integrals.functions = {identity.data(), {v, v}};
            CoupledCluster cc(integrals, given.fock_view(), {.threads = 2}, tile);
            std::vector<double> t1(static_cast<std::size_t>(o * v)), t2(static_cast<std::size_t>(o * o * v * v));
            const ArrayView<double> view1(t1.data(), {o, v}), view2(t2.data(), {o, o, v, v});
            double first = 0;
            for (int iteration = 0; iteration < 60; ++iteration) {
                cc.next(view1, view2, view1, view2);
                if (iteration == 0) first = cc.energy(view1, view2);
            }
            EXPECT_NEAR(first, kMp2, 1e-9);
            EXPECT_NEAR(cc.energy(view1, view2), kCcsd, 1e-9) << how << ' ' << tile;
            EXPECT_NEAR(cc.triples(view1, view2), kTriples, 1e-9) << how << ' ' << tile;
        }
}

TEST(CoupledClusterOverArrays, ChecksWhatItIsGiven) {
    const Given given(read_fcidump(water()));
    const auto o = given.o, v = given.v;
    const auto refused = [&](auto&& change) {
        auto integrals = given.integrals();
        auto fock = given.fock_view();
        change(integrals, fock);
        EXPECT_THROW(CoupledCluster(integrals, fock), UserError);
    };
    refused([](auto& i, auto&) { i.oooo.extents[0] -= 1; });
    refused([](auto& i, auto&) { i.ooov.extents[3] -= 1; });
    refused([](auto& i, auto&) { i.oovv.data = nullptr; });
    refused([](auto& i, auto&) { i.ovov.extents = {5, 2}; });
    refused([](auto& i, auto&) { i.ovvv = nullptr; });
    refused([](auto&, auto& fock) { fock.extents[0] -= 1; });
    CoupledCluster cc(given.integrals(), given.fock_view());
    EXPECT_THROW(cc.set_energies(std::vector<double>{1}), UserError);
    std::vector<double> t1(static_cast<std::size_t>(o * v)), t2(static_cast<std::size_t>(o * o * v * v));
    const ArrayView<double> view1(t1.data(), {o, v}), view2(t2.data(), {o, o, v, v});
    EXPECT_THROW(cc.next(view1, view2, view1, view2), UserError);  // no integrals over four virtual orbitals
    EXPECT_THROW(cc.energy(view2, view2), UserError);
    EXPECT_NEAR(cc.triples(view1, view2), 0.0, 1e-15);
}

}  // namespace
}  // namespace tessera::chem
