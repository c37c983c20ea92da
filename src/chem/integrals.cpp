// The one file that sees libint2: its headers cost a minute to compile.
#include "chem/integrals.hpp"

#include <libint2.hpp>

#include <cmath>
#include <mutex>

#include "base/check.hpp"
#include "base/parallel.hpp"

namespace tessera::chem {

namespace {

// Shell quartets whose Schwarz bound is below kSkip are left out, and primitives that libint2 estimates below
// kPrimitive. Its estimate knows nothing of angular momentum or of how many primitives there are: at 1e-16 the energy
// of butane is wrong by 4e-8, at 1e-30 it is right to 1e-12 and takes no longer.
constexpr double kPrimitive = 1e-30, kSkip = 1e-13;

/// The library's tables, made once and kept while the process lives.
void start_library() {
    static std::once_flag once;
    std::call_once(once, [] { libint2::initialize(); });
}

}  // namespace

std::int64_t coulomb_engine_bytes(const Basis& basis) {
    std::size_t most = 1;
    for (const auto& s : basis.shells) most = std::max(most, s.shell.exponents.size());
    // It prepares all primitives of a quartet of shells before it works on them.
    return static_cast<std::int64_t>(most * most * most * most * sizeof(Libint_t)) + (1 << 19);
}

struct Integrals::Shells {
    std::vector<libint2::Shell> list;
    std::vector<libint2::ShellPair> pairs;  // (i, j) at i n + j
    std::size_t most_primitives = 1;
    int highest = 0;

    std::size_t count() const { return list.size(); }
    const libint2::ShellPair& pair(std::size_t i, std::size_t j) const { return pairs[i * count() + j]; }

    void add(const Basis& basis) {
        for (const auto& s : basis.shells) {
            libint2::svector<double> exponents(s.shell.exponents.begin(), s.shell.exponents.end());
            libint2::svector<double> coefficients(s.shell.coefficients.begin(), s.shell.coefficients.end());
            list.emplace_back(
                libint2::Shell(std::move(exponents), {{s.shell.l, s.shell.l >= 2, std::move(coefficients)}}, s.at));
            most_primitives = std::max(most_primitives, s.shell.exponents.size());
            highest = std::max(highest, s.shell.l);
        }
    }

    /// All blocks of a one-body operator; operators with parts (dipole) give `part`.
    Matrix one_body(libint2::Operator op, const Basis& basis, std::size_t part,
                    const std::vector<std::pair<double, std::array<double, 3>>>* charges = nullptr) const {
        libint2::Engine engine(op, most_primitives, highest, 0);
        if (charges) engine.set_params(*charges);
        const auto& results = engine.results();
        Matrix out = Matrix::Zero(basis.functions, basis.functions);
        for (std::size_t i = 0; i < count(); ++i)
            for (std::size_t j = 0; j <= i; ++j) {
                engine.compute1(list[i], list[j]);
                const double* values = results[part];
                if (!values) continue;
                const auto fi = basis.shells[i].first, fj = basis.shells[j].first;
                const auto ni = static_cast<std::int64_t>(list[i].size()),
                           nj = static_cast<std::int64_t>(list[j].size());
                for (std::int64_t a = 0; a < ni; ++a)
                    for (std::int64_t b = 0; b < nj; ++b)
                        out(fi + a, fj + b) = out(fj + b, fi + a) = values[a * nj + b];
            }
        return out;
    }
};

Integrals::Integrals(Basis basis, int threads) : basis_(std::move(basis)), shells_(std::make_unique<Shells>()) {
    start_library();
    shells_->add(basis_);
    const auto n = shells_->count();
    shells_->pairs.resize(n * n);
    parallel_for(static_cast<std::int64_t>(n), threads, 1, [&](std::int64_t i) {
        for (std::size_t j = 0; j < n; ++j)
            shells_->pairs[i * n + j].init(shells_->list[i], shells_->list[j], std::log(kPrimitive),
                                           libint2::ScreeningMethod::Original);
    });
    // With bounds of infinity block() leaves nothing out.
    largest_ = Matrix::Constant(static_cast<std::int64_t>(n), static_cast<std::int64_t>(n), HUGE_VAL);
    norm_ = largest_;
    Matrix largest = largest_, norm = norm_;
    parallel_region(threads, [&](int thread, int team) {
        Coulomb coulomb(*this);
        for (std::size_t i = static_cast<std::size_t>(thread); i < n; i += static_cast<std::size_t>(team))
            for (std::size_t j = 0; j <= i; ++j) {
                const auto a = static_cast<std::int64_t>(i), b = static_cast<std::int64_t>(j);
                const double* values = coulomb.block(a, b, a, b);
                const auto size = static_cast<std::int64_t>(shells_->list[i].size() * shells_->list[j].size());
                double most = 0, sum = 0;
                for (std::int64_t e = 0; values && e < size; ++e) {
                    most = std::max(most, std::abs(values[e * size + e]));
                    sum += std::abs(values[e * size + e]);
                }
                largest(a, b) = largest(b, a) = std::sqrt(most);
                norm(a, b) = norm(b, a) = std::sqrt(sum);
            }
    });
    largest_ = std::move(largest);
    norm_ = std::move(norm);
}

Integrals::~Integrals() = default;

Matrix Integrals::overlap() const { return shells_->one_body(libint2::Operator::overlap, basis_, 0); }

Matrix Integrals::core_hamiltonian(const Molecule& molecule) const {
    std::vector<std::pair<double, std::array<double, 3>>> charges;
    for (const auto& a : molecule.atoms) charges.emplace_back(a.number, a.at);
    return shells_->one_body(libint2::Operator::kinetic, basis_, 0) +
           shells_->one_body(libint2::Operator::nuclear, basis_, 0, &charges);
}

std::array<Matrix, 3> Integrals::dipole() const {
    std::array<Matrix, 3> out;
    // The overlap comes first.
    for (std::size_t x = 0; x < 3; ++x) out[x] = shells_->one_body(libint2::Operator::emultipole1, basis_, x + 1);
    return out;
}

bool Integrals::negligible(double bound) { return bound < kSkip; }

struct Integrals::Coulomb::Engine {
    libint2::Engine engine;
};

Integrals::Coulomb::Coulomb(const Integrals& of) : of_(of) {
    engine_ = std::make_unique<Engine>(Engine{
        libint2::Engine(libint2::Operator::coulomb, of.shells_->most_primitives, of.shells_->highest, 0, kPrimitive)});
}

Integrals::Coulomb::~Coulomb() = default;

const double* Integrals::Coulomb::block(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) {
    if (negligible(of_.largest_(i, j) * of_.largest_(k, l))) return nullptr;
    const auto& x = *of_.shells_;
    const auto at = [](std::int64_t s) { return static_cast<std::size_t>(s); };
    return engine_->engine
        .compute2<libint2::Operator::coulomb, libint2::BraKet::xx_xx, 0>(
            x.list[at(i)], x.list[at(j)], x.list[at(k)], x.list[at(l)], &x.pair(at(i), at(j)), &x.pair(at(k), at(l)))
        .front();
}

// A function of the auxiliary basis stands with the unit shell, whose value is one everywhere.
struct FittingIntegrals::Shells : Integrals::Shells {
    libint2::Engine two_centres() const {
        libint2::Engine engine(libint2::Operator::coulomb, most_primitives, highest, 0, kPrimitive);
        engine.set(libint2::BraKet::xs_xs);
        return engine;
    }
    const double* block(libint2::Engine& engine, std::size_t p, std::size_t q) const {
        return engine
            .compute2<libint2::Operator::coulomb, libint2::BraKet::xs_xs, 0>(
                list[p], libint2::Shell::unit(), list[q], libint2::Shell::unit(), &pairs[p], &pairs[q])
            .front();
    }
};

struct FittingIntegrals::Coulomb::Engine {
    libint2::Engine engine;
};

FittingIntegrals::FittingIntegrals(const Integrals& of, Basis auxiliary)
    : of_(of), auxiliary_(std::move(auxiliary)), shells_(std::make_unique<Shells>()) {
    auto& x = *shells_;
    x.add(auxiliary_);
    x.pairs.resize(x.count());
    for (std::size_t p = 0; p < x.count(); ++p)
        x.pairs[p].init(x.list[p], libint2::Shell::unit(), std::log(kPrimitive), libint2::ScreeningMethod::Original);
    largest_.resize(static_cast<std::int64_t>(x.count()));
    auto engine = x.two_centres();
    for (std::size_t p = 0; p < x.count(); ++p) {
        const double* values = x.block(engine, p, p);
        double most = 0;
        for (std::size_t a = 0; values && a < x.list[p].size(); ++a)
            most = std::max(most, values[a * x.list[p].size() + a]);
        largest_(static_cast<std::int64_t>(p)) = std::sqrt(most);
    }
}

FittingIntegrals::~FittingIntegrals() = default;

Matrix FittingIntegrals::metric(int threads) const {
    const auto& x = *shells_;
    Matrix out(auxiliary_.functions, auxiliary_.functions);
    parallel_region(threads, [&](int thread, int team) {
        auto engine = x.two_centres();
        for (auto p = static_cast<std::size_t>(thread); p < x.count(); p += static_cast<std::size_t>(team))
            for (std::size_t q = 0; q <= p; ++q) {
                const double* values = x.block(engine, p, q);
                const auto fp = auxiliary_.shells[p].first, fq = auxiliary_.shells[q].first;
                const auto np = static_cast<std::int64_t>(x.list[p].size()),
                           nq = static_cast<std::int64_t>(x.list[q].size());
                for (std::int64_t a = 0; a < np; ++a)
                    for (std::int64_t b = 0; b < nq; ++b)
                        out(fp + a, fq + b) = out(fq + b, fp + a) = values ? values[a * nq + b] : 0.0;
            }
    });
    return out;
}

FittingIntegrals::Coulomb::Coulomb(const FittingIntegrals& of) : of_(of) {
    const Integrals::Shells &a = *of.shells_, &b = *of.of_.shells_;
    engine_ = std::make_unique<Engine>(
        Engine{libint2::Engine(libint2::Operator::coulomb, std::max(a.most_primitives, b.most_primitives),
                               std::max(a.highest, b.highest), 0, kPrimitive)});
    engine_->engine.set(libint2::BraKet::xs_xx);
}

FittingIntegrals::Coulomb::~Coulomb() = default;

const double* FittingIntegrals::Coulomb::block(std::int64_t p, std::int64_t k, std::int64_t l) {
    if (Integrals::negligible(of_.largest_(p) * of_.of_.largest_(k, l))) return nullptr;
    const Integrals::Shells &a = *of_.shells_, &b = *of_.of_.shells_;
    const auto at = [](std::int64_t s) { return static_cast<std::size_t>(s); };
    return engine_->engine
        .compute2<libint2::Operator::coulomb, libint2::BraKet::xs_xx, 0>(
            a.list[at(p)], libint2::Shell::unit(), b.list[at(k)], b.list[at(l)], &a.pairs[at(p)], &b.pair(at(k), at(l)))
        .front();
}

}  // namespace tessera::chem
