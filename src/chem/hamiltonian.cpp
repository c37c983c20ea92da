#include "tessera/chem/hamiltonian.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/units.hpp"
#include "chem/correlate.hpp"
#include "chem/text.hpp"
#include "device/discovery.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kOrbitalsInTile = 16;  // of the file's

void check(const Hamiltonian& h, const EnergyOptions& o) {
    const auto n = h.orbitals, pairs = n * (n + 1) / 2;
    require(n >= 1 && static_cast<std::int64_t>(h.one.size()) == n * n &&
                static_cast<std::int64_t>(h.two.size()) == pairs * (pairs + 1) / 2,
            "{}: {} and {} integrals are not those of {} orbitals", h.name, h.one.size(), h.two.size(), n);
    require(h.electrons >= 2 && h.electrons % 2 == 0 && h.electrons <= 2 * n,
            "{}: {} electrons: an even number from 2 to {} is needed", h.name, h.electrons, 2 * n);
    require(!o.frozen_core,
            "{}: a file of integrals has no atoms whose cores could be frozen; freeze them where it is "
            "written",
            h.name);
    require(o.integrals == IntegralKind::conventional && o.method != Method::ri_mp2,
            "{}: integrals of a file are not fitted", h.name);
    require(o.abcd == Abcd::stored && o.screen == 0, "{}: integrals of a file are stored, not made", h.name);
    require(!o.fno, "fno {}: of molecules; leave orbitals out where {} is written", o.fno.value_or(0), h.name);
    require(o.checkpoint.empty(), "checkpoint {}: there are none of calculations over integrals of a file",
            o.checkpoint);
    require(o.converge > 0 && o.converge < 1, "convergence threshold {} is not between 0 and 1", o.converge);
    require(o.max_iterations >= 1, "{} iterations at most: at least one is needed", o.max_iterations);
    require(o.tile >= 1, "tiles of {} orbitals: at least one is needed", o.tile);
    for (const int device : o.here.devices) device::info(device);  // throws where there is none
}

/// An upper bound of what is held at once: integrals of the file twice, half transformed, and transformed; amplitudes,
/// twenty vectors like the doubles.
std::int64_t memory_of(const Hamiltonian& h, Method method) {
    const double n = static_cast<double>(h.orbitals), o = static_cast<double>(h.electrons) / 2, v = n - o;
    const double file = n * n * n * n;  // 8 bytes of an eighth
    double bytes = 2.2 * file + 2 * 8 * n * n * (o * v + o * o);
    if (method != Method::rhf) bytes += 8 * 3 * o * o * v * v;
    if (method >= Method::ccsd)
        bytes += 8 * (v * v * n * n / 4 + 3 * v * v * v * v / 4 + 2 * o * v * v * v + 24 * o * o * v * v);
    return static_cast<std::int64_t>(std::min(bytes, 9e18)) + (std::int64_t{96} << 20);
}

class GivenCalculation {
  public:
    GivenCalculation(const Hamiltonian& h, const EnergyOptions& o)
        : h_(h), o_(o), field_({.here = {.threads = o.here.threads}}), work_({o.here, o.share_from, o.device_from}) {}

    EnergyResult run() {
        const double start = now_seconds();
        check(h_, o_);
        result_.memory_estimate = memory_of(h_, o_.method);
        const auto limit = o_.here.memory > 0 ? o_.here.memory : memory_bytes();
        if (result_.memory_estimate > limit)
            throw BudgetError(fmt::format("{} of memory is too little for {} of {}: {} ({} bytes) are needed",
                                          format_bytes(limit), chem::name(o_.method), h_.name,
                                          format_bytes(result_.memory_estimate), result_.memory_estimate),
                              limit, result_.memory_estimate);
        try {
            solve();
        } catch (NotConverged& e) {
            (e.where() == "scf" ? result_.scf_iterations : result_.iterations) = e.iterations();
            e.set_result(result_);
            throw;
        }
        result_.total = result_.rhf + (o_.method == Method::mp2 ? result_.mp2 : result_.ccsd + result_.triples);
        result_.converged = true;
        result_.seconds = now_seconds() - start;
        result_.contractions = field_.count() + work_.count();
        result_.contraction_seconds = field_.seconds() + work_.seconds();
        result_.contraction_flops = field_.flops() + work_.flops();
        return result_;
    }

  private:
    void say(const std::string& line) {
        if (o_.log) o_.log(line);
    }

    void solve() {
        const Tiling functions = even_tiling(h_.orbitals, kOrbitalsInTile);
        double start = now_seconds();
        auto integrals = std::make_unique<AoIntegrals>(functions, h_.two, o_.here.threads);
        result_.integral_seconds = now_seconds() - start;
        say(fmt::format("{}, {}", counted(h_.electrons, "electron"), counted(h_.orbitals, "orbital")));
        const auto n = h_.orbitals, pairs = h_.electrons / 2;
        const RhfProblem problem{
            h_.name, "of the file", Matrix::Identity(n, n), Eigen::Map<const Matrix>(h_.one.data(), n, n),
            pairs,   h_.constant};
        Matrix guess = Matrix::Zero(n, n);
        guess.diagonal().head(pairs).setOnes();
        RhfOptions how;
        how.converge = o_.converge;
        how.max_iterations = o_.max_iterations;
        how.log = o_.log;
        how.warn = o_.warn;
        start = now_seconds();
        say("RHF");
        TwoElectron field(*integrals);
        const RhfResult scf = rhf(problem, field, guess, how, field_);
        result_.scf_seconds = now_seconds() - start;
        result_.nuclear = h_.constant;
        result_.rhf = scf.energy;
        result_.scf_iterations = scf.iterations;
        result_.smallest_overlap = scf.smallest_overlap;
        result_.basis_functions = n;
        result_.occupied = pairs;
        result_.virtuals = n - pairs;
        if (o_.method == Method::rhf || result_.virtuals == 0) return;
        correlate(std::move(integrals), make_orbitals(scf, 0, 0, functions, o_.tile));
    }

    void correlate(std::unique_ptr<AoIntegrals> integrals, const Orbitals& orbitals) {
        const bool cc = o_.method >= Method::ccsd;
        double start = now_seconds();
        MoIntegrals mo =
            transform(std::move(integrals), orbitals, cc ? Transform::ccsd_four_virtuals : Transform::mp2, work_);
        result_.transform_seconds = now_seconds() - start;
        start = now_seconds();
        const Tiling o = orbitals.occupied.grid().tiling(1), v = orbitals.virtuals.grid().tiling(1);
        std::unique_ptr<AbcdTerm> abcd;
        if (cc) {
            // Orbitals of a file have no place in which to localise them.
            const auto count = orbitals.occupied_count();
            abcd = stored_abcd(mo.vvvv, LocalPairs(to_tensor(Matrix::Identity(count, count), o, o)), v);
        }
        StoredSource source(mo, abcd.get());
        Amplitudes t{RealTensor(Shape::dense(TileGrid{o, v}, 0)), first_order_doubles(source, orbitals, work_)};
        result_.mp2 = correlation_energy(source, t.t2, work_);
        say(fmt::format("MP2 correlation energy {:.10f}", result_.mp2));
        if (!cc) return;
        say("CCSD");
        const CcsdResult found = ccsd(source, orbitals, std::move(t), ccsd_options(o_), work_);
        take_ccsd(found, h_.electrons, result_);
        result_.ccsd_seconds = now_seconds() - start;
        if (o_.method != Method::ccsd_t) return;
        abcd.reset();
        mo.vvvv = {};
        take_triples(
            o_.log,
            [&](const TriplesProgress& progress) {
                return triples_energy(stored_triples_integrals(mo), orbitals, found.amplitudes, work_.workers(),
                                      progress);
            },
            result_);
    }

    const Hamiltonian& h_;
    const EnergyOptions& o_;
    TensorWork field_, work_;
    EnergyResult result_;
};

}  // namespace

EnergyResult energy(const Hamiltonian& hamiltonian, const EnergyOptions& options) {
    return GivenCalculation(hamiltonian, options).run();
}

}  // namespace tessera::chem
