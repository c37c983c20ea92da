#include "chem/correlate.hpp"

#include <algorithm>
#include <cmath>

#include "base/hash.hpp"
#include "base/units.hpp"
#include "chem/calculation.hpp"
#include "chem/natural_orbitals.hpp"
#include "chem/ri_mp2.hpp"
#include "chem/text.hpp"

namespace tessera::chem {

namespace {

constexpr double kScreenNoticed = 1e-6;  // hartree

std::uint64_t checksum_of(const Amplitudes& t) { return combine(checksum(t.t1), checksum(t.t2)); }

}  // namespace

CcsdOptions ccsd_options(const EnergyOptions& options) {
    CcsdOptions how;
    how.converge = options.converge;
    how.max_iterations = options.max_iterations;
    how.log = options.log;
    return how;
}

void take_ccsd(const CcsdResult& found, std::int64_t electrons, EnergyResult& result) {
    result.ccsd = found.energy;
    result.iterations = found.iterations;
    result.t1_diagnostic = norm(found.amplitudes.t1) / std::sqrt(static_cast<double>(electrons));
}

std::string take_triples(const std::function<void(const std::string&)>& log,
                         const std::function<TriplesResult(const TriplesProgress&)>& run, EnergyResult& result) {
    release_memory();  // the triples kernel has memory of its own
    const auto say = [&](const std::string& line) {
        if (log) log(line);
    };
    const double start = now_seconds();
    say("(T)");
    const TriplesResult found = run([&, told = 0](double done, double total) mutable {
        const int quarters = std::min(4, static_cast<int>(4 * done / total));  // the last ranks' turn may pass the end
        if (quarters == told) return;
        told = quarters;
        say(fmt::format("{:5} % {:43.2f} s", 25 * told, now_seconds() - start));
    });
    result.triples_recorded = found.recorded;
    result.triples = found.energy;
    result.triples_flops = found.flops;
    result.device_triples_flops = found.device_flops;
    result.triples_seconds = now_seconds() - start;
    say(fmt::format("(T) {:.10f} in {:.2f} s{}", found.energy, result.triples_seconds,
                    found.operands_seconds > 0
                        ? fmt::format(", {:.2f} s until a device had the operands", found.operands_seconds)
                        : ""));
    return found.why_not;
}

void tell_kept(const NaturalOrbitals& fno, bool spins, const std::function<void(const std::string&)>& log) {
    if (!log) return;
    const auto text = [&](std::size_t s) {
        return fmt::format("{} of {} virtual orbitals with {:.3f} % of the occupation", fno.kept[s], fno.all[s],
                           fno.occupation[s] > 0 ? 100 * fno.occupation_kept[s] / fno.occupation[s] : 100.0);
    };
    log(spins ? fmt::format("natural orbitals: alpha {}, beta {}", text(0), text(1))
              : fmt::format("natural orbitals: {}", text(0)));
}

void Calculation::correlate_spins() {
    std::optional<Fitting> fitting;
    if (fitted()) {
        fitted_field_.reset();
        fitting.emplace(*integrals_, ao_tiling_, place(*rifit_, molecule_), options_.here.threads);
    }
    correlate_open_shell(spins_, std::move(ao_), fitting ? &*fitting : nullptr, ao_tiling_.functions, *integrals_,
                         options_, result_, work_,
                         [this] { check_memory(integrals_->basis(), options_.method, result_.fno->kept, true); });
}

/// MP2 over all virtual orbitals, whose natural ones are kept.
void Calculation::leave_orbitals_out() {
    const double start = now_seconds();
    const Orbitals orbitals = make_orbitals(scf_, result_.frozen, core_, ao_tiling_.functions, options_.tile);
    MoIntegrals mo;
    FittedOrbitals b;
    std::unique_ptr<IntegralSource> source;
    if (fitted()) {
        b = transform(Fitting(*integrals_, ao_tiling_, place(*rifit_, molecule_), options_.here.threads), orbitals,
                      Transform::mp2, work_);
        source = std::make_unique<FittedSource>(b, orbitals, nullptr);
    } else {
        mo = transform(ao_, orbitals, Transform::mp2, work_);
        source = std::make_unique<StoredSource>(mo, nullptr);
    }
    const RealTensor t2 = first_order_doubles(*source, orbitals, work_);
    result_.mp2 = correlation_energy(*source, t2, work_);
    say(fmt::format("MP2 correlation energy {:.10f}", result_.mp2));
    const Matrix density = to_matrix(natural_density(t2, work_));
    NaturalOrbitals& fno = result_.fno.emplace();
    keep_natural(scf_, 0.5 * (density + density.transpose()), *options_.fno, 0, fno);
    fno.kept[1] = fno.kept[0];
    fno.all[1] = fno.all[0];
    fno.occupation[1] = fno.occupation[0] /= 2;
    fno.occupation_kept[1] = fno.occupation_kept[0] /= 2;
    fno.correction = result_.mp2;  // less that of the orbitals that are kept, once it is known
    share_orbitals(scf_);
    result_.virtuals = fno.kept[0];
    result_.fno_seconds = now_seconds() - start;
    tell_kept(fno, false, options_.log);
    if (result_.virtuals > 0) check_memory(integrals_->basis(), options_.method, fno.kept, true);
}

void Calculation::correlate() {
    if (result_.virtuals == 0) {
        say("no virtual orbitals: the correlation energy is zero");
        return;
    }
    if (options_.fno) leave_orbitals_out();
    if (result_.virtuals == 0) return;
    release_memory();
    const double start = now_seconds();
    const bool cc = options_.method != Method::mp2, stored = options_.abcd == Abcd::stored;
    const Orbitals orbitals = make_orbitals(scf_, result_.frozen, core_, ao_tiling_.functions, options_.tile);
    MoIntegrals mo;
    FittedOrbitals b, there;  // and on the device that CCSD lives on
    std::unique_ptr<IntegralSource> source;
    const auto what = !cc ? Transform::mp2 : stored && !fitted() ? Transform::ccsd_four_virtuals : Transform::ccsd;
    if (fitted()) {
        if (!cc) fitted_field_.reset();
        const Fitting fitting(*integrals_, ao_tiling_, place(*rifit_, molecule_), options_.here.threads);
        b = transform(fitting, orbitals, what, work_);
        if (home_) there = to_device(b, *home_);
        source = std::make_unique<FittedSource>(home_ ? there : b, orbitals, fitted_field_.get());
    } else {
        mo = transform(std::move(ao_), orbitals, what, work_);
        source = std::make_unique<StoredSource>(mo, nullptr);
    }
    result_.transform_seconds = now_seconds() - start;
    say(fmt::format("transformed to {} occupied ({} frozen) and {} virtual orbitals in {:.2f} s", result_.occupied,
                    result_.frozen, result_.virtuals, result_.transform_seconds));

    std::optional<Stopwatch> time;
    if (cc) time.emplace(result_.ccsd_seconds);
    Amplitudes t;
    t.t2 = first_order_doubles(*source, orbitals, work_);
    const double mp2 = correlation_energy(*source, t.t2, work_);
    if (result_.fno) {
        result_.fno->correction -= mp2;
        say(fmt::format("MP2 correlation energy of these {:.10f}", mp2));
    } else {
        result_.mp2 = mp2;
        say(fmt::format("MP2 correlation energy {:.10f}", mp2));
    }
    if (!cc) return;

    const Tiling o = orbitals.occupied.grid().tiling(1), v = orbitals.virtuals.grid().tiling(1);
    t.t1 = RealTensor(Shape::dense(TileGrid{o, v}, 0));
    if (home_) t.t1 = to_devices(t.t1, {*home_});
    CcsdOptions how = ccsd_options(options_);
    if (home_) {
        how.vectors_on_host = vectors_on_host_;
        result_.diis_on_disk = false;
    }
    if (result_.diis_on_disk) {
        how.scratch = scratch();
        say(fmt::format("the vectors of DIIS are in {}", how.scratch));
    }
    std::optional<ConvergedCcsd> done_before;
    if (!options_.checkpoint.empty()) {
        if (checkpoint_) {
            t = amplitudes_of(*checkpoint_, options_.checkpoint, orbitals, scf_.overlap, work_);
            if (const auto found = record_ ? record_->found() : std::nullopt;
                found && found->amplitudes == checksum_of(t) && found->converge <= options_.converge)
                done_before = found;
            if (home_) t = to_device(t, *home_);
            say(fmt::format("going on from iteration {} in {}", checkpoint_->iteration, options_.checkpoint));
            how.before = result_.iterations_before = checkpoint_->iteration;
            checkpoint_.reset();
        }
        how.keep = [&](const Amplitudes& now, int iteration, double energy, double residual) {
            on_rank_zero([&] {
                write_checkpoint(options_.checkpoint, checkpoint_of(), orbitals, home_ ? to_host(now) : now,
                                 {iteration, energy, residual});
            });
        };
    }
    if (options_.screen > 0)
        how.advice = fmt::format("; screen {:g} leaves integrals out: a smaller one may help", options_.screen);
    if (!options_.checkpoint.empty()) how.advice += fmt::format("; run again with {} to go on", options_.checkpoint);
    std::unique_ptr<AbcdTerm> abcd;
    DirectAbcd* direct = nullptr;
    if (fitted()) {
        // No term of its own: FittedSource has it.
    } else if (stored) {
        abcd = stored_abcd(mo.vvvv, LocalPairs(*integrals_, orbitals, options_.tile), v);
    } else {
        auto term = std::make_unique<DirectAbcd>(*integrals_, direct_tiling_, orbitals, options_.screen, kPairsInTile);
        direct = term.get();
        abcd = std::move(term);
    }
    if (!fitted()) source = std::make_unique<StoredSource>(mo, abcd.get());
    say(home_ ? fmt::format("CCSD on device {}, where B, amplitudes and all between them are{}", *home_,
                            vectors_on_host_ ? "; the vectors of DIIS are on the host" : "")
              : "CCSD");
    CcsdResult cc_result;
    if (done_before) {
        say(fmt::format("CCSD had converged to {:.10f}, (T) had begun", done_before->energy));
        cc_result.amplitudes = std::move(t);
        cc_result.energy = done_before->energy;
    } else {
        const double flops = work_.flops(), begin = now_seconds();
        cc_result = ccsd(*source, orbitals, std::move(t), how, work_);
        result_.ccsd_flops = work_.flops() - flops;
        const double seconds = now_seconds() - begin;
        say(fmt::format("{} of {:.3g} Tflop in {:.2f} s each: {:.3g} TFLOP/s",
                        counted(cc_result.iterations, "iteration"), result_.ccsd_flops / cc_result.iterations / 1e12,
                        seconds / cc_result.iterations, result_.ccsd_flops / seconds / 1e12));
    }
    if (home_) cc_result.amplitudes = to_host(cc_result.amplitudes);
    if (record_)
        record_->begin(done_before ? *done_before
                                   : ConvergedCcsd{how.before + cc_result.iterations, cc_result.energy,
                                                   options_.converge, checksum_of(cc_result.amplitudes)});
    if (direct) report_screening(*direct, *source, orbitals, cc_result.amplitudes);
    take_ccsd(cc_result, 2 * result_.occupied, result_);
    time.reset();
    if (options_.method != Method::ccsd_t) return;

    source.reset();
    abcd.reset();
    mo.vvvv = {};
    there = {};
    fitted_field_.reset();
    const auto of_triples = fitted() ? fitted_triples_integrals(b, mo, work_) : stored_triples_integrals(mo);
    const auto why_not = take_triples(
        options_.log,
        [&](const TriplesProgress& progress) {
            return triples_energy(of_triples, orbitals, cc_result.amplitudes, work_.workers(), progress,
                                  record_ ? &*record_ : nullptr);
        },
        result_);
    if (record_) record_->remove();
    if (!why_not.empty()) warn(why_not);
}

/// MP2 in tensors that the ranks share.
void Calculation::correlate_on_ranks() {
    if (result_.virtuals == 0) {
        say("no virtual orbitals: the correlation energy is zero");
        return;
    }
    fitted_field_.reset();
    release_memory();
    const Orbitals orbitals = make_orbitals(scf_, result_.frozen, core_, ao_tiling_.functions, options_.tile);
    const auto r = ri_mp2(*integrals_, ao_tiling_, place(*rifit_, molecule_), orbitals,
                          {.here = options_.here, .filter = options_.filter});
    result_.mp2 = r.energy;
    result_.transform_seconds = r.transform_seconds;
    ranks_flops_ = r.flops;
    result_.fitted_tiles = r.tiles;
    result_.fitted_tiles_kept = r.tiles_kept;
    result_.fitted_left_out = r.left_out;
    result_.dropped_auxiliary = r.dropped_functions;
    result_.metric_condition = r.condition;
    result_.rank_bytes = r.rank_bytes;
    say(fmt::format(
        "(P|mn): {} of {} tiles, {:.1e} left out in norm; (P|Q): condition {:.1e}; {} on the rank with most",
        r.tiles_kept, r.tiles, r.left_out, r.condition, format_bytes(r.rank_bytes)));
    if (r.dropped_functions > 0)
        warn(fmt::format("auxiliary basis {}: {} of its functions depend on each other in this molecule and {} dropped",
                         rifit_->name, r.dropped_functions, r.dropped_functions == 1 ? "was" : "were"));
    say(fmt::format("RI-MP2 correlation energy {:.10f}", result_.mp2));
}

/// What the skipped tiles would have added to the doubles, and through them to the energy.
void Calculation::report_screening(DirectAbcd& abcd, const IntegralSource& source, const Orbitals& orbitals,
                                   const Amplitudes& t) {
    result_.v_tiles = abcd.tiles();
    result_.v_tiles_made = abcd.tiles_made();
    if (options_.screen == 0) return;
    if (result_.v_tiles_made < result_.v_tiles) {
        abcd.take_skipped();
        RealTensor left_out = abcd.apply(make_tau(t, work_), t.t1, work_);
        divide_by_energies(left_out, orbitals);
        result_.screen_change = 0.0 - correlation_energy(source, left_out, work_);  // never -0
    }
    say(fmt::format("screening skipped {} of {} tiles of integrals; the CCSD energy changed by {:.1e} (first order)",
                    result_.v_tiles - result_.v_tiles_made, result_.v_tiles, result_.screen_change));
    if (!(std::abs(result_.screen_change) < kScreenNoticed))
        warn(fmt::format("screen {:g} changed the CCSD energy by {:.1e} (first order): a smaller one is more exact",
                         options_.screen, result_.screen_change));
}

}  // namespace tessera::chem
