// Molecules, basis sets, integrals, pairs of indices, clustering and localisation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <fmt/format.h>

#include "base/shared_data.hpp"
#include "chem/abcd.hpp"
#include "chem/basis.hpp"
#include "chem/clustering.hpp"
#include "chem/diis.hpp"
#include "chem/fock.hpp"
#include "chem/local_pairs.hpp"
#include "chem/localise.hpp"
#include "chem/molecule.hpp"
#include "chem/pairs.hpp"
#include "chem/rhf.hpp"
#include "storage/dry_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::chem {
namespace {

std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const UserError& e) {
        return e.what();
    }
    return "no UserError";
}
#define EXPECT_USER_ERROR(action, word) \
    EXPECT_NE(message_of([&] { action; }).find(word), std::string::npos) << message_of([&] { action; })

TEST(Xyz, ToleratesWhatOtherProgramsWrite) {
    const auto m = parse_xyz(
        "3\r\ncharge=0 a comment # with marks\nO 0 0 0.1173 extra 1 2\n# a remark\n h 0 +0.7572 -4.692D-01 0.3\n1 0 "
        "-0.7572 -0.4692\n\n\n",
        "w");
    ASSERT_EQ(m.atoms.size(), 3u);
    EXPECT_EQ(m.atoms[0].number, 8);
    EXPECT_EQ(m.atoms[2].number, 1);
    EXPECT_DOUBLE_EQ(m.atoms[1].at[2], -0.4692 / kBohrInAngstrom);
    EXPECT_EQ(m.electrons(), 10);
    // A second frame is not read.
    EXPECT_EQ(parse_xyz("1\n\nHe 0 0 0\n1\n\nNe 0 0 0\n", "w").atoms.size(), 1u);
    EXPECT_EQ(parse_xyz("1\n\nCL 0 0 0", "w").atoms[0].number, 17);
    EXPECT_EQ(parse_xyz("\xEF\xBB\xBF"
                        "1\n\nHe 0 0 0\n",
                        "w")
                  .atoms.size(),
              1u);
    EXPECT_EQ(parse_xyz("1\n\nHe 0 0 0\nno atom 0 0\n", "w").atoms.size(), 1u);
    EXPECT_EQ(parse_xyz("# a remark\n# and another\n1\n# the comment\nHe 0 0 0\n", "w").atoms.size(), 1u);
}

TEST(Xyz, SaysWhatIsWrong) {
    EXPECT_USER_ERROR(parse_xyz("", "f.xyz"), "f.xyz");
    EXPECT_USER_ERROR(parse_xyz("two\n\nH 0 0 0\n", "f"), "'two'");
    EXPECT_USER_ERROR(parse_xyz("-1\n\n", "f"), "'-1'");
    EXPECT_USER_ERROR(parse_xyz("99999999999\n\n", "f"), "99999999999");
    EXPECT_USER_ERROR(parse_xyz("2\n", "f"), "ends");
    EXPECT_USER_ERROR(parse_xyz("2\n\nH 0 0 0\n", "f"), "says 2 atoms, but has 1");
    EXPECT_USER_ERROR(parse_xyz("2\n\nH 0 0 0\n\nH 0 0 1\n", "f"), "line 4");
    EXPECT_USER_ERROR(parse_xyz("1\n\nH 0 0 0\n\nH 0 0 1 more\n", "f"), "line 5: says 1 atom, but another one");
    EXPECT_USER_ERROR(parse_xyz("2\nH 0 0 0\nH 0 0 1\n", "f"), "line 2 is a comment");
    EXPECT_USER_ERROR(parse_xyz("1\n\nXx 0 0 0\n", "f"), "'Xx'");
    EXPECT_USER_ERROR(parse_xyz("1\n\nXx 0 0 0\n", "f"), "H to Ar");
    EXPECT_USER_ERROR(parse_xyz("1\n\nH 0 2e6 0\n", "f"), "'2e6'");
    EXPECT_USER_ERROR(parse_xyz("1\n\nH 0 zero 0\n", "f"), "'zero'");
    EXPECT_USER_ERROR(parse_xyz("1\n\nH 0 +-1 0\n", "f"), "'+-1'");
    EXPECT_USER_ERROR(parse_xyz("1\n\nH 0 ++1 0\n", "f"), "'++1'");
    EXPECT_USER_ERROR(parse_xyz("# only a remark\n", "f"), "empty");
    EXPECT_USER_ERROR(parse_xyz("# a remark\none\n", "f"), "line 2: the number");
    EXPECT_USER_ERROR(read_xyz(""), "''");
    EXPECT_USER_ERROR(parse_xyz("1\n\nH 0 nan 0\n", "f"), "'nan'");
    EXPECT_USER_ERROR(parse_xyz("1\n\nH 0 1e400 0\n", "f"), "'1e400'");
    EXPECT_USER_ERROR(read_xyz("/nonexistent/x.xyz"), "/nonexistent/x.xyz");
}

TEST(Molecules, ClosedShellsOnly) {
    auto m = parse_xyz("2\n\nH 0 0 0\nH 0 0 0.74\n", "h2");
    check_closed_shell(m);
    EXPECT_NEAR(m.nuclear_repulsion(), kBohrInAngstrom / 0.74, 1e-14);
    m.charge = 1;
    EXPECT_USER_ERROR(check_closed_shell(m), "1 electron with charge 1: only closed shells");
    m.charge = 2;
    EXPECT_USER_ERROR(check_closed_shell(m), "0 electrons");
    m.charge = 0;
    m.atoms[1].at = m.atoms[0].at;
    EXPECT_USER_ERROR(check_closed_shell(m), "on top of each other");
    m.charge = -2;
    m.atoms.clear();
    EXPECT_USER_ERROR(check_closed_shell(m), "without atoms");
}

TEST(BasisSets, AreFoundAndRead) {
    for (const char* n :
         {"sto-3g", "DEF2-SVP", "cc-pVDZ", "cc-pvtz", "aug-cc-pvdz", "def2-tzvp", "def2-universal-jkfit"}) {
        const auto set = find_basis(n);
        for (int z = 1; z <= 18; ++z) EXPECT_TRUE(set.elements.contains(z)) << n << z;
        EXPECT_EQ(set.elements.size(), 18u) << n;  // as the message of an unknown element says
    }
    const auto water = parse_xyz("3\n\nO 0 0 0\nH 0 0 1\nH 0 1 0\n", "w");
    EXPECT_EQ(place(find_basis("sto-3g"), water).functions, 7);
    EXPECT_EQ(place(find_basis("cc-pvdz"), water).functions, 24);
    EXPECT_USER_ERROR(find_basis("6-31g"), "def2-svp, def2-svp-rifit,");
    EXPECT_USER_ERROR(find_basis("cc-pvdz", "/nonexistent"), "/nonexistent");
}

TEST(BasisSets, OfTheUser) {
    namespace fs = std::filesystem;
    const auto folder = fs::temp_directory_path() / ("tessera_basis_" + std::to_string(getpid()));
    fs::create_directories(folder / "share/basis");
    const auto file = folder / "share/basis/Mine.g94";
    std::ofstream(file) << "H 0\nS 1 1.00\n 0.4 1.0\n****\n";
    // By path, by name in a folder, and by name among shared files that the environment names.
    EXPECT_EQ(find_basis(file.string()).elements.size(), 1u);
    EXPECT_EQ(find_basis("mine", (folder / "share/basis").string()).elements.size(), 1u);
    setenv("TESSERA_SHARE", (folder / "share").c_str(), 1);
    EXPECT_EQ(find_basis("MINE").elements.size(), 1u);
    EXPECT_EQ(find_basis("sto-3g").elements.size(), 18u);
    unsetenv("TESSERA_SHARE");
    EXPECT_USER_ERROR(find_basis("mine"), "unknown basis 'mine'");
    fs::remove_all(folder);
}

TEST(BasisSets, UsersFilesAndTheirErrors) {
    const auto set = parse_g94(
        "! mine\n****\nH 0\nS 2 1.00\n 3.0D+00 0.5\n 0.2 0.7\nSP 1 1.00\n 1.0 1.0 1.0\n****\nXx 0\nS 1 1.0\n 1.0 "
        "1.0\n****\n",
        "mine");
    ASSERT_EQ(set.elements.size(), 1u);
    ASSERT_EQ(set.elements.at(1).size(), 3u);
    EXPECT_EQ(set.elements.at(1)[2].l, 1);
    EXPECT_DOUBLE_EQ(set.elements.at(1)[0].exponents[0], 3.0);
    EXPECT_USER_ERROR(parse_g94("hello\n", "f"), "Gaussian-94");
    EXPECT_USER_ERROR(parse_g94("H 0\nS 2 1.00\n 3.0 0.5\n", "f"), "ends within");
    EXPECT_USER_ERROR(parse_g94("H 0\nS 1 1.00\n -3.0 0.5\n", "f"), "'-3.0'");
    EXPECT_USER_ERROR(parse_g94("H 0\nQ 1 1.00\n 3.0 0.5\n", "f"), "'Q'");
    EXPECT_USER_ERROR(parse_g94("H 0\nI 1 1.00\n 3.0 0.5\n", "f"), "I shells");
    EXPECT_USER_ERROR(place(set, parse_xyz("1\n\nHe 0 0 0", "he")), "no functions for He");
    EXPECT_USER_ERROR(parse_g94("H 0\n****\n", "f"), "no basis functions");
    const auto half = parse_g94("H 0\n****\nHe 0\nS 1 1.0\n 1.0 1.0\n****\n", "f");
    EXPECT_USER_ERROR(place(half, parse_xyz("2\n\nHe 0 0 0\nH 0 0 1", "heh")),
                      "no functions for H (atom 2); it has He");
    EXPECT_USER_ERROR(parse_g94("H 0\nSP 1 1.00\n 3.0 0.5\n", "f"), "line 3: an exponent and 2 coefficients");
    EXPECT_USER_ERROR(parse_g94("H 0\nS 1 1.00\n 3.0\n", "f"), "line 3: an exponent and 1 coefficient are");
    const std::string functions = "H 0\nS 1 1.0\n 1.0 1.0\n****\n";
    EXPECT_USER_ERROR(parse_g94(functions + functions, "f"), "line 5: H a second time");
    // Potentials are a second part of the file, for elements that may have been there before.
    const std::string potential = "-ECP 2 2\nd potential\n 1\n2 1.0 0.0\n";
    EXPECT_USER_ERROR(parse_g94(functions + "\nH 0\nH" + potential, "f"), "f line 7: 'H-ECP 2 2': effective core");
    EXPECT_USER_ERROR(parse_g94(functions + "\nAu 0\nau" + potential, "f"), "line 7: 'au-ECP 2 2': effective core");
    EXPECT_USER_ERROR(parse_g94("Au 0\nS 1 1.0\n 1.0 1.0\nECP\n", "f"), "line 4: 'ECP': effective core");
}

/// A contracted function that is none is refused where it stands; what is merely odd is not.
TEST(BasisSets, ShellsMustBeNormalisable) {
    const auto shell = [](const char* lines, int primitives) {
        return parse_g94(fmt::format("H 0\nS {} 1.0\n{}\n****\n", primitives, lines), "f");
    };
    for (const char* line : {" 1e300 1", " 1e-300 1", " 1.0 1e-300", " 1.0 1e300"})
        EXPECT_USER_ERROR(shell(line, 1), "line 3: the S shell that ends here cannot be normalised") << line;
    EXPECT_USER_ERROR(shell(" 0.5 1\n 0.5 -1", 2), "norm 0");
    for (const char* line : {" 1e12 1", " 1e-12 1", " 1.0 -1e-6", " 1.0 1e6"})
        EXPECT_EQ(shell(line, 1).elements.size(), 1u);
    EXPECT_EQ(shell(" 0.5 1\n 0.501 -1", 2).elements.size(), 1u);
}

/// In a process of its own, which has had no second thread before.
TEST(ThreadsDeathTest, OneThreadIsOne) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto threads = [] {
        int n = 0;
        for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++n;
        return n;
    };
    const auto started = [&](int asked) {
        const int before = threads();  // a sanitizer has one of its own
        const auto m = parse_xyz("3\n\nO 0 0 0.1\nH 0 0.8 -0.4\nH 0.1 -0.7 -0.5\n", "w");
        const auto set = find_basis("cc-pvdz");
        const Integrals x(place(set, m), asked);
        TensorWork work({.here = {.threads = asked}});
        atomic_guess(m, set, x.basis(), work);
        return 10 + threads() - before;
    };
    EXPECT_EXIT(std::exit(started(1)), testing::ExitedWithCode(10), "");
    EXPECT_EXIT(std::exit(started(3)), testing::ExitedWithCode(12), "");
}

/// The 2p of a sodium ion lie above the 2s of neon: cores are told by what they are made of.
TEST(Orbitals, CoresAreThoseOfTheAtoms) {
    auto m = parse_xyz("2\n\nNa 0 0 0\nNe 0 0 2.5\n", "nane");
    m.charge = 1;
    const auto set = find_basis("def2-svp");
    const Integrals x(place(set, m));
    const AoIntegrals ao(x, tile_atoms(x.basis(), 16), 0);
    TensorWork work({});
    const auto guess = atomic_guess(m, set, x.basis(), work);
    ASSERT_EQ(guess.cores.cols(), 6);
    const Matrix own = guess.cores.transpose() * x.overlap() * guess.cores;
    EXPECT_LT((own - Matrix::Identity(6, 6)).cwiseAbs().maxCoeff(), 0.05);
    TwoElectron field(ao);
    auto scf = rhf(m, x, field, guess.density, {}, work);
    const auto before = scf;
    const auto choice = put_cores_first(scf, guess.cores, 6);
    EXPECT_GT(choice.least, 0.95);
    EXPECT_GT(choice.highest, choice.lowest_other);
    // 1s, 1s, 2s, 2p 2p 2p, then the 2s of neon, which was the fourth, and its 2p.
    EXPECT_EQ(scf.orbital_energies(6), before.orbital_energies(3));
    EXPECT_EQ(scf.orbital_energies(3), before.orbital_energies(4));
    for (Eigen::Index i = 7; i < scf.orbital_energies.size(); ++i)
        EXPECT_EQ(scf.orbital_energies(i), before.orbital_energies(i));
    const auto sodium = x.basis().functions_of(0);
    for (Eigen::Index i = 2; i < 6; ++i) EXPECT_GT(scf.coefficients.col(i).head(sodium).norm(), 0.9) << i;
    EXPECT_GT(scf.coefficients.col(6).tail(x.basis().functions - sodium).norm(), 0.8);
    // Where the order is the common one nothing moves; where the cores are not all known the lowest are taken.
    auto again = before;
    Matrix of_1s(guess.cores.rows(), 2);
    of_1s << guess.cores.col(0), guess.cores.col(5);
    EXPECT_GT(put_cores_first(again, of_1s, 2).lowest_other, -5);
    EXPECT_EQ((again.coefficients - before.coefficients).norm(), 0);
    put_cores_first(again, guess.cores.leftCols(5), 6);
    EXPECT_EQ((again.coefficients - before.coefficients).norm(), 0);
}

TEST(Integrals, ShellsAreNormalisedAndBounded) {
    const auto m = parse_xyz("2\n\nO 0 0 0\nH 0 0.3 0.9\n", "oh");
    const Integrals x(place(find_basis("cc-pvdz"), m));
    const Matrix s = x.overlap();
    for (Eigen::Index i = 0; i < s.rows(); ++i) EXPECT_NEAR(s(i, i), 1, 1e-12);
    Integrals::Coulomb engine(x);
    const auto n = static_cast<std::int64_t>(x.basis().shells.size());
    const auto size = [&](std::int64_t i) { return x.basis().shells[i].shell.functions(); };
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j)
            for (std::int64_t k = 0; k < n; k += 2)
                for (std::int64_t l = 0; l < n; l += 3) {
                    const double* v = engine.block(i, j, k, l);
                    if (!v) continue;
                    double square = 0, most = 0;
                    for (std::int64_t e = 0; e < size(i) * size(j) * size(k) * size(l); ++e) {
                        square += v[e] * v[e];
                        most = std::max(most, std::abs(v[e]));
                    }
                    EXPECT_LE(std::sqrt(square), x.schwarz_norm()(i, j) * x.schwarz_norm()(k, l) * (1 + 1e-10));
                    EXPECT_LE(most, x.schwarz_largest()(i, j) * x.schwarz_largest()(k, l) * (1 + 1e-10));
                }
}

/// The Fock matrix by pairs against the sum as it is written.
void compare_fock(const Molecule& m, bool tiles_missing) {
    const Integrals x(place(find_basis("def2-svp"), m));
    const auto n = x.basis().functions;
    const auto shells = static_cast<std::int64_t>(x.basis().shells.size());
    Matrix d(n, n);
    for (Eigen::Index i = 0; i < n; ++i)
        for (Eigen::Index j = 0; j <= i; ++j) d(i, j) = d(j, i) = std::cos(3.0 * static_cast<double>(i * j + i));
    Matrix expected = Matrix::Zero(n, n);
    Integrals::Coulomb engine(x);
    for (std::int64_t i = 0; i < shells; ++i)
        for (std::int64_t j = 0; j < shells; ++j)
            for (std::int64_t k = 0; k < shells; ++k)
                for (std::int64_t l = 0; l < shells; ++l) {
                    const double* v = engine.block(i, j, k, l);
                    if (!v) continue;
                    const auto& s = x.basis().shells;
                    for (auto a = s[i].first; a < s[i].first + s[i].shell.functions(); ++a)
                        for (auto b = s[j].first; b < s[j].first + s[j].shell.functions(); ++b)
                            for (auto c = s[k].first; c < s[k].first + s[k].shell.functions(); ++c)
                                for (auto e = s[l].first; e < s[l].first + s[l].shell.functions(); ++e, ++v) {
                                    expected(a, b) += 2 * *v * d(c, e);
                                    expected(a, c) -= *v * d(b, e);
                                }
                }
    for (std::int64_t target : {5, 14, 100})
        for (int threads : {1, 2}) {
            const AoIntegrals ao(x, tile_atoms(x.basis(), target), threads);
            const auto& tiling = ao.pairs().single();
            std::int64_t missing = 0;
            for (std::int64_t p = 0; p < ao.pairs().pairs().tile_count(); ++p)
                for (std::int64_t q = 0; q <= p; ++q) missing += ao.tile(p, q).empty();
            EXPECT_EQ(missing > 0, tiles_missing && tiling.tile_count() > 1) << target;
            TensorWork work({.here = {.threads = threads}});
            const auto density = to_tensor(d, tiling, tiling);
            // All of it kept, a part, and nothing; the second time from what was kept.
            for (const std::int64_t kept : {1 << 30, 200000, 0}) {
                TwoElectron fock(ao, 100000, kept);
                const auto first = fock.of(density, nullptr, work);
                EXPECT_LT((to_matrix(first) - expected).cwiseAbs().maxCoeff(), 1e-9) << target << ' ' << kept;
                EXPECT_TRUE(fock.of(density, nullptr, work) == first) << target << ' ' << kept;
            }
        }
}

TEST(AoIntegrals, FockMatrixAgainstThePlainSum) {
    compare_fock(parse_xyz("3\n\nO 0 0 0.1\nH 0 0.8 -0.4\nH 0.1 -0.7 -0.5\n", "w"), false);
    // Pairs of functions on both are nothing: tiles of them are not stored.
    compare_fock(parse_xyz("4\n\nH 0 0 0\nHe 0 0.3 0.9\nHe 60 0.1 0\nH 60.4 0.9 0.2\n", "apart"), true);
}

TEST(Pairs, UnpackedAndPackedAgree) {
    const Tiling single{3, 1, 4}, other{2, 3};
    const PairIndex pairs(single);
    EXPECT_EQ(pairs.pairs().extent(), 36);
    const auto x = Tensor<double>::random(Shape::dense(TileGrid{pairs.pairs(), other, other}), 1);
    const auto y = unpack_pairs(x, pairs);
    EXPECT_TRUE(pack_pairs(y, pairs) == x);
    // (i, j, a, b) = (j, i, b, a) off the diagonal i = j, where x is not symmetric in a and b.
    const auto dense = y.to_dense();
    const auto at = [&](int i, int j, int a, int b) { return dense[((i * 8 + j) * 5 + a) * 5 + b]; };
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < i; ++j)
            for (int a = 0; a < 5; ++a)
                for (int b = 0; b < 5; ++b) EXPECT_EQ(at(i, j, a, b), at(j, i, b, a));
}

/// (q|p) in parts along p, unpacked, against the plain definition; then packed along the other pair.
TEST(Pairs, PartsUnpackToTheWhole) {
    const Tiling single{3, 1, 4}, other{2, 3};
    const PairIndex pairs(single), few(other);
    const auto at = pairs.positions();
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) EXPECT_EQ(at[i * 8 + j], at[j * 8 + i]);
    const auto whole = Tensor<double>::random(Shape::dense(TileGrid{other, pairs.pairs()}), 1);
    const auto dense = whole.to_dense();
    PairParts parts(pairs);
    const std::vector<std::int64_t> cuts{0, 2, 3, 6};
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        std::vector<std::int64_t> sizes;
        for (auto p = cuts[c]; p < cuts[c + 1]; ++p) sizes.push_back(pairs.pairs().size(TileIndex{p}));
        parts.add(Tensor<double>::generate(
            Shape::dense(TileGrid{other, Tiling::from_sizes(sizes)}), [&](const TileInfo& info, std::span<double> out) {
                const auto from = whole.tile({info.coordinates[0], cuts[c] + info.coordinates[1]});
                std::ranges::copy(from, out.begin());
            }));
    }
    for (std::int64_t first : {0, 1}) {
        const auto made = parts.unpacked(first, 2);
        const auto full = Tensor<double>::generate(made.shape, made.make);
        for (std::int64_t s = 0; s < full.tile_count(); ++s)
            EXPECT_LE(full.shape().norm_of(s), made.shape.norm_of(s) * (1 + 1e-12));
        const auto values = full.to_dense();
        const auto from = first == 0 ? 0 : 2;
        for (int x = from; x < 5; ++x)
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    EXPECT_EQ(values[((x - from) * 8 + i) * 8 + j], dense[x * 36 + at[i * 8 + j]]);
    }
    const auto square = Tensor<double>::random(Shape::dense(TileGrid{other, other, single}), 2);
    const auto packed = pack_first(square, few, 1).to_dense(), loose = square.to_dense();
    const auto place = few.positions();
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j <= i; ++j)
            for (int x = 0; x < 8; ++x) EXPECT_EQ(packed[place[i * 5 + j] * 8 + x], loose[(i * 5 + j) * 8 + x]);
}

/// A large result is added to in runs of tiles: the bits of one contraction, and little memory beside it.
TEST(TensorWork, LargeResultsAreAddedToInRuns) {
    const Tiling rows = even_tiling(2907, 400), columns = even_tiling(3001, 130), sums = Tiling::uniform(6, 4);
    const auto a = RealTensor::random(Shape::dense(TileGrid{rows, sums}), 1);
    const auto b = RealTensor::random(Shape::dense(TileGrid{sums, columns}), 2);
    const auto old = RealTensor::random(Shape::dense(TileGrid{rows, columns}), 3);
    ASSERT_GE(old.tile_bytes(), kLargeResult);
    ContractOptions options;
    options.alpha = -0.5;
    options.beta = 1;
    RealTensor wanted = old, c = old;
    contract_into<double>("ik,kj->ij", a, b, wanted, {.threads = 2}, options);
    TensorWork work({.here = {.threads = 2}});
    work.add_product("ik,kj->ij", a, b, c, -0.5);
    EXPECT_TRUE(c == wanted);
    EXPECT_GE(work.count(), kRuns);
    EXPECT_LE(work.count(), kRuns + 1);
    EXPECT_EQ(work.flops(), 2.0 * 2907 * 3001 * 6);
    // Tiles that c lacks are added.
    c = filter(old, 1e9);
    ASSERT_EQ(c.tile_count(), 0);
    work.add_product("ik,kj->ij", a, b, c, 1);
    EXPECT_TRUE(c == work.product("ik,kj->ij", a, b));

    DryRun dry;
    const RealTensor x(a.shape()), y(b.shape());
    RealTensor z(old.shape());
    const auto before = dry.peak();
    work.add_product("ik,kj->ij", x, y, z);
    EXPECT_LE(dry.peak() - before, old.tile_bytes() / 5);
}

TEST(Clustering, GroupsNeighboursAlongTheChain) {
    std::vector<Point> chain;
    for (int i = 0; i < 12; ++i) chain.push_back({1.0 * i + (i / 4) * 5.0, 0.1 * (i % 2), 0});
    const auto group = cluster(chain, 3);
    for (int i = 0; i < 12; ++i) EXPECT_EQ(group[i], i / 4);
    EXPECT_EQ(cluster(chain, 1), std::vector<std::int64_t>(12, 0));
    auto many = cluster(chain, 50);
    std::sort(many.begin(), many.end());
    EXPECT_EQ(many.back(), 11);
    // Points on top of each other leave no group empty.
    const auto same = cluster({{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, 2);
    EXPECT_EQ(same, std::vector<std::int64_t>(3, 0));
}

// One amplitude, as in helium: all errors are parallel, and shrink from 1 to 1e-14.
TEST(Diis, ParallelErrorsOfAnyLength) {
    Diis<double> diis(6, [](double a, double b) { return a * b; });
    double error = 1;
    for (int n = 0; n < 12; ++n, error *= n % 3 == 0 ? -0.02 : 0.15) {
        diis.add(1 + error, error);
        const auto c = diis.coefficients();
        double sum = 0, x = 0;
        for (std::size_t i = 0; i < c.size(); ++i) {
            sum += c[i];
            x += c[i] * *diis.iterate(i);
        }
        EXPECT_NEAR(sum, 1, 1e-12) << n;
        EXPECT_LE(std::abs(x - 1), std::max(1e-12, 1e-6 * std::abs(error)) + (n == 0 ? 1 : 0)) << n;
    }
}

/// With all electrons correlated the core stays apart: its orbitals are those of the carbon atoms, not tails of bonds.
TEST(Localisation, CoreIsNeverMixedWithTheRest) {
    const auto m = read_xyz(find_shared_data("molecules/c2h6.xyz"));
    const auto set = find_basis("sto-3g");
    const Integrals x(place(set, m));
    const auto tiling = tile_atoms(x.basis(), 16);
    const AoIntegrals ao(x, tiling, 0);
    TensorWork work({});
    TwoElectron field(ao);
    const auto scf = rhf(m, x, field, atomic_guess(m, set, x.basis(), work).density, {}, work);
    for (const std::int64_t tile : {2, 4, 32}) {
        const auto orbitals = make_orbitals(scf, 0, 2, tiling.functions, 5);
        const LocalPairs local(x, orbitals, tile);
        EXPECT_EQ(local.tiling().extent(), 9);
        EXPECT_EQ(local.tiling().tile_count() > 1, tile < 9);
        const auto u = local.rotation().to_dense();
        int core = 0;
        for (int k = 0; k < 9; ++k) {
            double square = 0, of_core = 0;
            for (int i = 0; i < 9; ++i) {
                square += u[i * 9 + k] * u[i * 9 + k];
                if (i < 2) of_core += u[i * 9 + k] * u[i * 9 + k];
            }
            EXPECT_NEAR(square, 1, 1e-12);
            EXPECT_TRUE(of_core == 0 || std::abs(of_core - 1) < 1e-12) << of_core;
            core += of_core > 0.5;
        }
        EXPECT_EQ(core, 2);
        // There and back; in between it is another tensor.
        const Tiling o = orbitals.occupied.grid().tiling(1), v = orbitals.virtuals.grid().tiling(1);
        const auto t = RealTensor::random(Shape::dense(TileGrid{o, o, v, v}), 7);
        const auto there = local.to_local(t, work);
        EXPECT_NEAR(norm(there), norm(t), 1e-12 * norm(t));
        EXPECT_LT(max_abs(add(1.0, local.to_canonical(there, work), -1.0, t)), 1e-13);
        // Against the sum as it is written.
        const auto dense = t.to_dense(), rotated = there.to_dense();
        const auto n = orbitals.virtual_count();
        for (int k = 0; k < 9; k += 2)
            for (int l = 0; l < 9; ++l) {
                double sum = 0;
                for (int i = 0; i < 9; ++i)
                    for (int j = 0; j < 9; ++j)
                        sum += u[i * 9 + k] * u[j * 9 + l] * dense[((i * 9 + j) * n + 3) * n + 1];
                EXPECT_NEAR(rotated[((k * 9 + l) * n + 3) * n + 1], sum, 1e-13);
            }
    }
}

TEST(Localisation, OrbitalsOfEthaneSitOnTheirBonds) {
    const auto m = read_xyz(find_shared_data("molecules/c2h6.xyz"));
    const auto set = find_basis("sto-3g");
    const Integrals x(place(set, m));
    const AoIntegrals ao(x, tile_atoms(x.basis(), 16), 0);
    TensorWork work({});
    TwoElectron field(ao);
    const auto scf = rhf(m, x, field, atomic_guess(m, set, x.basis(), work).density, {}, work);
    const Matrix valence = scf.coefficients.middleCols(2, 7);
    const auto local = foster_boys(valence, x.dipole());
    EXPECT_LT((local.rotation.transpose() * local.rotation - Matrix::Identity(7, 7)).cwiseAbs().maxCoeff(), 1e-12);
    // Seven bonds: one centre near the middle of C-C, the others on the C-H lines.
    int near_middle = 0;
    for (const auto& c : local.centres) {
        if (distance(c, {0, 0, 0}) < 0.1) {
            ++near_middle;
            continue;
        }
        double nearest = 100;
        for (const auto& a : m.atoms)
            if (a.number == 1) nearest = std::min(nearest, distance(a.at, c));
        EXPECT_LT(nearest, 1.2);
    }
    EXPECT_EQ(near_middle, 1);
}

}  // namespace
}  // namespace tessera::chem
