#include "tessera/chem/energy.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "chem/calculation.hpp"
#include "chem/clustering.hpp"
#include "chem/direct_field.hpp"
#include "chem/fcidump_write.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/memory.hpp"
#include "chem/molecule.hpp"
#include "chem/text.hpp"
#include "device/discovery.hpp"
#include "device/sharing.hpp"
#include "tessera/io/file.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera::chem {

Method parse_method(const std::string& text) {
    for (auto m : {Method::rhf, Method::mp2, Method::ri_mp2, Method::ccsd, Method::ccsd_t})
        if (equal_ignoring_case(text, name(m))) return m;
    if (equal_ignoring_case(text, "ccsd_t")) return Method::ccsd_t;
    if (equal_ignoring_case(text, "ri_mp2")) return Method::ri_mp2;
    if (equal_ignoring_case(text, "hf") || equal_ignoring_case(text, "scf")) return Method::rhf;
    user_error("unknown method '{}': there are rhf, mp2, ri-mp2, ccsd and ccsd(t)", shown(text));
}

std::string name(Method method) {
    switch (method) {
        case Method::rhf:
            return "rhf";
        case Method::mp2:
            return "mp2";
        case Method::ri_mp2:
            return "ri-mp2";
        case Method::ccsd:
            return "ccsd";
        default:
            return "ccsd(t)";
    }
}

Reference parse_reference(const std::string& text) {
    for (auto r : {Reference::rhf, Reference::uhf, Reference::rohf})
        if (equal_ignoring_case(text, name(r))) return r;
    user_error("unknown reference '{}': there are rhf, uhf and rohf", shown(text));
}

std::string name(Reference reference) {
    return reference == Reference::rhf ? "rhf" : reference == Reference::uhf ? "uhf" : "rohf";
}

Stability parse_stability(const std::string& text) {
    if (equal_ignoring_case(text, "none")) return Stability::none;
    if (equal_ignoring_case(text, "check")) return Stability::check;
    if (equal_ignoring_case(text, "follow")) return Stability::follow;
    user_error("stability '{}': check, follow or none", shown(text));
}

namespace {

constexpr std::int64_t kFunctionsInTile = 16;
constexpr double kShortestBond = 0.5;            // Angstrom; that of H2 is 0.74
constexpr double kCoarse = 1e-4;                 // of --converge
constexpr double kSmallGap = 0.2;                // hartree between frozen and correlated orbitals; that of NaCl is 0.4
constexpr double kMostlyCore = 0.9;              // of a frozen orbital
constexpr std::size_t kAtomsInScreenedTile = 2;  // smaller tiles have tighter bounds, but more of them cost more

}  // namespace

EnergyResult Calculation::run() {
    const double start = now_seconds();
    const auto finish = [&] {
        result_.contractions = field_.count() + work_.count();
        result_.contraction_seconds = field_.seconds() + work_.seconds();
        result_.contraction_flops = field_.flops() + work_.flops() + ranks_flops_;
        const auto& there = work_.on_devices();
        result_.device_contractions = there.count;
        result_.device_contraction_flops = there.flops;
        result_.device_loaded_bytes = there.loaded_bytes;
        result_.device_stored_bytes = there.stored_bytes;
        result_.seconds = now_seconds() - start;
    };
    try {
        check();
        self_consistent_field();
        if (options_.method == Method::ri_mp2)
            correlate_on_ranks();
        else if (options_.method != Method::rhf && open())
            correlate_spins();
        else if (options_.method != Method::rhf)
            correlate();
    } catch (NotConverged& e) {
        (e.where() == "scf" ? result_.scf_iterations : result_.iterations) = e.iterations();
        if (!e.result().scf_history.empty()) result_.scf_history = e.result().scf_history;
        finish();
        e.set_result(result_);
        throw;
    }
    result_.total = result_.rhf + (options_.method < Method::ccsd ? result_.mp2 : result_.ccsd + result_.triples) +
                    (result_.fno ? result_.fno->correction : 0);
    result_.converged = true;
    finish();
    if (work_.on_devices().refused > 0)
        warn(fmt::format("{} not fit in the memory of the devices and ran on the cores",
                         work_.on_devices().refused == 1
                             ? "1 contraction does"
                             : fmt::format("{} contractions do", work_.on_devices().refused)));
    return result_;
}

void Calculation::check() {
    require(options_.converge > 0 && options_.converge < 1, "convergence threshold {} is not between 0 and 1",
            options_.converge);
    if (options_.converge > kCoarse)
        warn(fmt::format(
            "convergence threshold {:g}: iterations may stop far from their end, and the energy is no better",
            options_.converge));
    require(options_.max_iterations >= 1, "{} iterations at most: at least one is needed", options_.max_iterations);
    require(options_.screen >= 0 && std::isfinite(options_.screen), "screening threshold {} is not a number >= 0",
            options_.screen);
    require(options_.filter >= 0 && std::isfinite(options_.filter), "filter {} is not a number >= 0", options_.filter);
    require(options_.method != Method::ri_mp2 || options_.here.devices.empty(),
            "ri-mp2: device {}: it runs on the cores", options_.here.devices.empty() ? 0 : options_.here.devices[0]);
    require(options_.share_from >= 0, "{} multiply-adds to share from is not a number >= 0", options_.share_from);
    const Resources& here = options_.here;
    for (const int device : here.devices) device::info(device);  // throws where there is none
    require(here.memory >= 0, "memory budget {} is negative", here.memory);
    require(here.device_memory >= 0, "device memory budget {} is negative", here.device_memory);
    require(here.device_memory == 0 || !here.devices.empty(), "device memory budget {}: there are no devices",
            here.device_memory);
    if (!here.machine.empty()) read_machine(here.machine);  // throws where there is none
    require(options_.tile >= 1, "tiles of {} orbitals: at least one is needed", options_.tile);
    require(options_.scf == AoStorage::automatic || !fitted(), "scf {}: df integrals are stored by three indices",
            options_.scf == AoStorage::stored ? "stored" : "direct");
    require(options_.abcd == Abcd::stored || !fitted(),
            "abcd direct: df integrals over four virtuals are never stored");
    require(fitted() || (options_.jkfit.empty() && options_.rifit.empty()),
            "auxiliary set {}: conventional integrals need none",
            options_.jkfit.empty() ? options_.rifit : options_.jkfit);
    require(options_.abcd == Abcd::stored || options_.method >= Method::ccsd,
            "abcd direct: {} has no integrals over four virtuals", name(options_.method));
    require(options_.checkpoint.empty() || options_.method >= Method::ccsd,
            "checkpoint {}: it holds the amplitudes of CCSD, of which {} has none", options_.checkpoint,
            name(options_.method));
    check_reference();
    if (options_.fno) {
        require(std::isfinite(*options_.fno) && *options_.fno >= 0 && *options_.fno < 2,
                "fno {}: natural occupations are from 0 to below 2", *options_.fno);
        require(options_.method >= Method::ccsd, "fno {}: it shortens ccsd and ccsd(t), not {}", *options_.fno,
                name(options_.method));
        require(options_.checkpoint.empty(), "checkpoint {}: there are none of calculations with fno",
                options_.checkpoint);
        require(!options_.dipole, "the dipole moment of ccsd: of all virtual orbitals, not with fno {}", *options_.fno);
    }
    if (const auto [first, second, apart] = open() ? check_atoms(molecule_) : check_closed_shell(molecule_);
        apart < kShortestBond)
        warn(fmt::format("{}: atoms {} and {} are {:.3f} Angstrom apart, nearer than any bond: are these Angstrom?",
                         molecule_.name, first + 1, second + 1, apart));
    if (options_.frozen_core)
        for (const auto& a : molecule_.atoms) result_.frozen += core_orbitals(a.number);
    const auto pairs = open() ? electrons_of_spins(molecule_, options_.multiplicity)[0] : molecule_.electrons() / 2;
    if (options_.method == Method::rhf && options_.fcidump_out.empty()) result_.frozen = 0;
    require(options_.method == Method::rhf || result_.frozen < pairs,
            "{}: the frozen core takes {} of {}; nothing is left to correlate", molecule_.name, result_.frozen,
            counted(pairs, "electron pair"));
    // Known now, not after the SCF.
    if (!options_.scratch.empty()) require_writable(options_.scratch + "/tessera-amplitudes");
    if (!options_.checkpoint.empty()) on_rank_zero([&] { require_writable(options_.checkpoint); });
    if (!options_.checkpoint.empty() && options_.method == Method::ccsd_t)
        record_.emplace(options_.checkpoint + ".triples", options_.here.communicator);
    if (options_.fcidump_out.empty()) return;
    require(options_.reference != Reference::uhf,
            "integrals to {}: such a file has one set of orbitals, uhf has two; rohf has one", options_.fcidump_out);
    require(!fitted() && options_.scf != AoStorage::direct,
            "integrals to {}: only stored conventional ones are written", options_.fcidump_out);
    on_rank_zero([&] { require_writable(options_.fcidump_out); });
}

void Calculation::check_reference() {
    require(std::isfinite(options_.level_shift) && options_.level_shift >= 0, "level shift {} is not a number >= 0",
            options_.level_shift);
    require(options_.damping >= 0 && options_.damping < 1, "damping {} is not from 0 to below 1", options_.damping);
    require(options_.stability != Stability::follow || options_.reference == Reference::uhf,
            "stability follow: of reference uhf, not {}", name(options_.reference));
    require(!options_.dipole || (open() && options_.method >= Method::ccsd),
            "the dipole moment of {} with reference {}: of ccsd with uhf and rohf; closed shells may be uhf",
            name(options_.method), name(options_.reference));
    if (!open()) {
        require(options_.multiplicity <= 1 && options_.multiplicity >= 0,
                "multiplicity {}: reference rhf has 1; uhf and rohf treat others", options_.multiplicity);
        require(options_.level_shift == 0 && options_.damping == 0, "{} {}: of references uhf and rohf; rhf has none",
                options_.level_shift != 0 ? "level shift" : "damping",
                options_.level_shift != 0 ? options_.level_shift : options_.damping);
        return;
    }
    const std::string who = name(options_.reference);
    require(options_.method != Method::ri_mp2, "ri-mp2: only of closed shells, not with reference {}", who);
    require(options_.abcd == Abcd::stored, "abcd direct: only of closed shells, not with reference {}", who);
    require(options_.scf != AoStorage::direct, "scf direct: only of closed shells, not with reference {}", who);
    require(options_.checkpoint.empty(), "checkpoint {}: only of closed shells, not with reference {}",
            options_.checkpoint, who);
    const auto [alpha, beta] = electrons_of_spins(molecule_, options_.multiplicity);
    result_.open.emplace();
    result_.open->multiplicity = static_cast<int>(alpha - beta) + 1;
}

/// Of what comes first, and with fno again once it is known how many virtual orbitals of each spin are left.
void Calculation::check_memory(const Basis& basis, Method method, std::array<std::int64_t, 2> virtuals, bool again) {
    if (open()) {
        const auto [alpha, beta] = electrons_of_spins(molecule_, options_.multiplicity);
        const double functions = static_cast<double>(basis.functions);
        const double scf = 8 * (std::pow(functions, 4) / 8 + 60 * functions * functions);
        const auto orbitals = std::max(alpha + virtuals[0], beta + virtuals[1]) - result_.frozen;
        const auto bytes = std::max(
            scf, method == Method::rhf ? 0 : open_shell_bytes({alpha, beta}, orbitals, basis.functions, method));
        const auto needed = static_cast<std::int64_t>(std::min(bytes, 9e18)) + kFockKept + (96 << 20);
        result_.memory_estimate = std::max(result_.memory_estimate, needed);
        fock_kept_ = kFockKept;
        if (needed > memory_limit()) refuse_memory(fmt::format("{} ({} bytes)", format_bytes(needed), needed), needed);
        return;
    }
    MemoryQuestion question;
    question.stored = &ao_tiling_;
    question.direct = &direct_tiling_;
    question.occupied = molecule_.electrons() / 2 - result_.frozen;
    question.virtuals = virtuals[0];
    question.basis = &basis;
    question.method = method;
    question.once_more = options_.fno && !again;
    question.abcd = options_.abcd;
    question.tile = options_.tile;
    question.threads = resolve_threads(options_.here.threads);
    question.workers = work_.workers();
    question.checkpoint = !options_.checkpoint.empty();
    question.scf_direct = result_.scf_direct =
        again ? result_.scf_direct : !fitted() && options_.scf == AoStorage::direct;
    // With natural orbitals the host's part is not counted apart: no less than it.
    question.on_device = home_ && !options_.fno;
    question.vectors_on_host = vectors_on_host_;
    Basis auxiliary[2];
    if (jkfit_) question.jkfit = &(auxiliary[0] = place(*jkfit_, molecule_));
    if (rifit_) question.rifit = &(auxiliary[1] = place(*rifit_, molecule_));
    auto [needed, fock] = needed_memory(question);
    const auto spare = [&](bool& way, bool& told) {
        way = true;
        const auto then = needed_memory(question);
        way = told = then.bytes < needed;  // where it spares nothing it is not done
        if (told) {
            needed = then.bytes;
            fock = then.fock;
        }
    };
    // The vectors of DIIS on disk change no bit: first. They may spare something once the integrals are gone.
    const auto disk = [&] {
        if (needed > memory_limit() && method >= Method::ccsd && !question.diis_on_disk && !question.on_device)
            spare(question.diis_on_disk, result_.diis_on_disk);
    };
    disk();
    if (needed > memory_limit() && !fitted() && options_.scf == AoStorage::automatic && !again)
        spare(question.scf_direct, result_.scf_direct);
    disk();
    result_.memory_estimate = std::max(result_.memory_estimate, needed);
    fock_kept_ = fock;
    if (needed <= memory_limit()) return;
    question.abcd = Abcd::direct;
    const auto with_direct = fitted() ? needed : needed_memory(question).bytes;
    const bool direct_would = options_.abcd == Abcd::stored && method >= Method::ccsd && with_direct < needed;
    refuse_memory(fmt::format("{} ({} bytes){}", format_bytes(needed), needed,
                              direct_would ? fmt::format("; abcd direct needs {}", format_bytes(with_direct)) : ""),
                  needed);
}

/// Where the stored integrals alone are too much, before anything grows with the number of atoms.
void Calculation::check_rough_memory(std::int64_t functions) {
    // n^4 / 8 numbers, or at least as many auxiliary functions as others, with n^2 / 2 numbers each.
    const double n = static_cast<double>(functions);
    const double least = fitted()                            ? 4 * std::pow(n, 3)
                         : options_.scf != AoStorage::stored ? 8 * 40 * n * n
                                                             : std::pow(n, 4);
    constexpr std::int64_t kFewFunctions = 700;  // the exact figure is soon known
    if (least <= static_cast<double>(memory_limit()) || functions <= kFewFunctions) return;
    const auto bytes = static_cast<std::int64_t>(std::min(least, 9e18));
    refuse_memory(fmt::format("more than {}", format_bytes(bytes)), bytes);
}

void Calculation::refuse_memory(const std::string& smallest, std::int64_t needed) {
    throw BudgetError(
        fmt::format("{} is too small for {} of {}: the smallest that works is {}",
                    options_.here.memory > 0
                        ? fmt::format("a memory budget of {} ({} bytes)", format_bytes(options_.here.memory),
                                      options_.here.memory)
                        : fmt::format("{} of {}",
                                      memory_limit() < memory_bytes() ? "a rank's share of this machine's memory"
                                                                      : "this machine's memory",
                                      format_bytes(memory_limit())),
                    name(options_.method), molecule_.name, smallest),
        memory_limit(), needed);
}

/// Neighbouring atoms make a tile of basis functions; puts the atoms in the order of their clusters.
Basis Calculation::make_tilings(const BasisSet& set) {
    const auto target = std::min<std::int64_t>(options_.tile, kFunctionsInTile);
    std::vector<Point> points;
    for (const auto& a : molecule_.atoms) points.push_back(a.at);
    auto groups = (place(set, molecule_).functions + target - 1) / target;
    if (options_.screen > 0)
        groups = std::max(groups,
                          static_cast<std::int64_t>((points.size() + kAtomsInScreenedTile - 1) / kAtomsInScreenedTile));
    auto group = cluster(points, groups);
    std::vector<std::size_t> order(group.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return group[a] < group[b]; });
    const auto atoms = molecule_.atoms;
    for (std::size_t i = 0; i < order.size(); ++i) molecule_.atoms[i] = atoms[order[i]];
    input_atom_ = std::move(order);
    std::sort(group.begin(), group.end());

    Basis basis = place(set, molecule_);
    direct_tiling_ = tile_clusters(basis, group);
    // Nothing is skipped of the stored integrals: neighbouring small clusters share a tile there.
    ao_tiling_ = options_.screen > 0 ? merge_tiles(direct_tiling_, target) : direct_tiling_;
    return basis;
}

/// An element that they lack is refused here.
void Calculation::find_auxiliary_sets() {
    const auto known = auxiliary_sets(options_.basis);
    const auto find = [&](const std::string& asked, const std::string& by_basis, const char* what) {
        require(!asked.empty() || !by_basis.empty(), "basis {}: no {} set is known for it; name one", options_.basis,
                what);
        BasisSet set = find_basis(asked.empty() ? by_basis : asked, options_.basis_folder);
        for (auto& reference : set.references_of(molecule_)) result_.references.push_back(std::move(reference));
        return set;
    };
    jkfit_ = find(options_.jkfit, known.jkfit, "jkfit");
    const auto jk = place(*jkfit_, molecule_).functions;
    result_.jkfit = jkfit_->name;
    result_.jkfit_functions = jk;
    if (options_.method == Method::rhf) return;
    rifit_ = find(options_.rifit, known.rifit, "rifit");
    result_.rifit_functions = place(*rifit_, molecule_).functions;
    result_.rifit = rifit_->name;
}

/// B, amplitudes and all between them live on the first device, where one process has fitted integrals, the device has
/// room for them, and nobody asked which contractions go there. Known before the Hartree-Fock iterations, whose Fock
/// matrices are then made there too.
void Calculation::choose_home(const Basis& basis) {
    const Resources& here = options_.here;
    if (here.devices.empty() || options_.device_from >= 0 || work_.workers().rank_count() > 1 || !fitted() ||
        options_.method < Method::ccsd)
        return;
    const auto pairs = molecule_.electrons() / 2;
    const std::vector<int> first{here.devices.front()};
    const auto room = device_memory_for(self_communicator(), first, here.device_memory);
    const auto bytes = [&](bool vectors) {
        return resident_bytes({pairs - result_.frozen, basis.functions - pairs, basis.functions,
                               result_.rifit_functions, result_.jkfit_functions, options_.tile},
                              vectors);
    };
    if (bytes(false) > room)
        return warn(
            fmt::format("CCSD needs {} of a device to live there, which may take {}: its tensors stay on the host",
                        format_bytes(bytes(false)), format_bytes(room)));
    home_ = first.front();
    vectors_on_host_ = bytes(true) > room;
    result_.ccsd_on_device = true;
}

/// Integrals as the Hartree-Fock iterations want them.
void Calculation::make_field() {
    const Stopwatch time(result_.integral_seconds);
    if (fitted()) {
        const Fitting fitting(*integrals_, ao_tiling_, place(*jkfit_, molecule_), options_.here.threads);
        fitted_field_ = std::make_unique<FittedField>(fitting, field_, field_share());
        if (home_) fitted_field_->unpack(home_, options_.here.threads);
    } else {
        ao_ = std::make_shared<AoIntegrals>(result_.scf_direct
                                                ? AoIntegrals::unstored(*integrals_, ao_tiling_, options_.here.threads)
                                                : AoIntegrals(*integrals_, ao_tiling_, options_.here.threads));
    }
}

void Calculation::self_consistent_field() {
    const BasisSet set = find_basis(options_.basis, options_.basis_folder);
    result_.references = set.references_of(molecule_);
    if (fitted()) find_auxiliary_sets();
    check_rough_memory(place(set, molecule_).functions);
    Basis placed = make_tilings(set);
    say(fmt::format("{}, charge {}, {}, {} ({})", counted(static_cast<std::int64_t>(molecule_.atoms.size()), "atom"),
                    molecule_.charge, counted(molecule_.electrons(), "electron"),
                    counted(placed.functions, "basis function"), placed.name));
    if (fitted())
        say(fmt::format("fitted with {} ({} functions){}", result_.jkfit, result_.jkfit_functions,
                        rifit_ ? fmt::format(" and {} ({})", result_.rifit, result_.rifit_functions) : ""));
    const auto pairs = molecule_.electrons() / 2;
    require(pairs <= placed.functions, "{}: {} do not fit in {} of basis {}", molecule_.name,
            counted(pairs, "electron pair"), counted(placed.functions, "function"), placed.name);
    if (!open()) choose_home(placed);
    const auto of_spin =
        open() ? electrons_of_spins(molecule_, options_.multiplicity) : std::array<std::int64_t, 2>{pairs, pairs};
    check_memory(placed, options_.fno ? Method::mp2 : options_.method,
                 {placed.functions - of_spin[0], placed.functions - of_spin[1]}, false);
    // The first thing that grows with the square of the atoms.
    integrals_ = std::make_unique<Integrals>(std::move(placed), options_.here.threads);
    const Basis& basis = integrals_->basis();
    std::vector<std::int64_t> first(input_atom_.size() + 1, 0);
    for (std::size_t a = 0; a < input_atom_.size(); ++a)
        first[input_atom_[a] + 1] = basis.functions_of(static_cast<std::int64_t>(a));
    std::partial_sum(first.begin(), first.end(), first.begin());
    for (std::size_t a = 0; a < input_atom_.size(); ++a)
        for (std::int64_t f = 0; f < basis.functions_of(static_cast<std::int64_t>(a)); ++f)
            input_rows_.push_back(first[input_atom_[a]] + f);
    if (!options_.checkpoint.empty()) {
        const Matrix overlap = integrals_->overlap();
        const OrbitalCounts counts{basis.functions, pairs - result_.frozen,
                                   orthonormal_combinations(overlap).x.cols() - pairs, result_.frozen};
        if (counts.virtuals > 0)
            checkpoint_ =
                read_checkpoint(options_.checkpoint, checkpoint_of(), counts, overlap, options_.here.communicator);
    }
    make_field();
    say(result_.scf_direct ? "integrals are made where they are used and not stored"
                           : fmt::format("integrals in {:.2f} s", result_.integral_seconds));

    const Stopwatch time(result_.scf_seconds);
    RhfOptions how;
    how.converge = options_.converge;
    how.max_iterations = options_.max_iterations;
    how.log = options_.log;
    how.warn = [this](const std::string& line) { warn(line); };
    say(options_.reference == Reference::rhf ? "RHF" : options_.reference == Reference::uhf ? "UHF" : "ROHF");
    const AtomicGuess guess = atomic_guess(molecule_, set, basis, field_);
    std::optional<TwoElectron> stored;
    std::optional<DirectField> direct;
    if (!fitted() && result_.scf_direct)
        direct.emplace(*integrals_, ao_tiling_.functions);
    else if (!fitted())
        stored.emplace(*ao_, kFockBlock, fock_kept_);
    Field& field = stored ? static_cast<Field&>(*stored) : direct ? static_cast<Field&>(*direct) : *fitted_field_;
    for (const auto& a : molecule_.atoms) core_ += a.number <= 18 ? core_orbitals(a.number) : 9;
    result_.nuclear = molecule_.nuclear_repulsion();
    result_.basis_functions = basis.functions;
    if (open()) {
        open_shell_field(field, guess.density, how);
        for (auto& s : spins_.spin) part_core(s, guess.cores);
        for (auto& s : spins_.spin) share_orbitals(s);
        for (auto& f : spins_.fock) share({{f.data(), static_cast<std::size_t>(f.size())}});
        write_integrals(field, spins_.common);
        return;
    }
    scf_ = rhf(molecule_, *integrals_, field, guess.density, how, field_);
    if (direct)
        say(fmt::format("integrals made anew: {:.1f} % of all in the last iteration",
                        100 * static_cast<double>(direct->made()) / static_cast<double>(direct->all())));
    part_core(scf_, guess.cores);
    share_orbitals(scf_);
    write_integrals(field, scf_.coefficients);
    const Matrix filled = scf_.coefficients.leftCols(scf_.occupied).transpose();
    result_.dipole = dipole_moment(molecule_, *integrals_,
                                   between(2 * filled, Matrix::Identity(scf_.occupied, scf_.occupied), filled));
    result_.rhf = scf_.energy;
    result_.scf_iterations = scf_.iterations;
    result_.dropped_functions = scf_.dropped;
    result_.smallest_overlap = scf_.smallest_overlap;
    result_.occupied = scf_.occupied - result_.frozen;
    result_.virtuals = scf_.coefficients.cols() - scf_.occupied;
}

void Calculation::open_shell_field(Field& field, const Matrix& guess, const RhfOptions& how) {
    UhfOptions options;
    options.scf = how;
    options.restricted_open = options_.reference == Reference::rohf;
    options.level_shift = options_.level_shift;
    options.damping = options_.damping;
    options.stability = options_.stability;
    const RhfProblem problem{
        molecule_.name, integrals_->basis().name, integrals_->overlap(), integrals_->core_hamiltonian(molecule_), 0,
        result_.nuclear};
    spins_ = uhf(problem, electrons_of_spins(molecule_, options_.multiplicity), field, guess, options, field_);
    const RhfResult& alpha = spins_.spin[0];
    result_.rhf = alpha.energy;
    result_.scf_iterations = alpha.iterations;
    result_.scf_history = spins_.history;
    result_.dropped_functions = alpha.dropped;
    result_.smallest_overlap = alpha.smallest_overlap;
    result_.dipole = dipole_moment(molecule_, *integrals_, spins_.density);
    result_.occupied = alpha.occupied - result_.frozen;
    result_.virtuals = alpha.coefficients.cols() - alpha.occupied;
    OpenShell& open = *result_.open;
    open.s_squared = spins_.s_squared;
    open.hessian = spins_.hessian;
    open.followed = spins_.followed;
    for (std::size_t s = 0; s < 2; ++s) {
        const RhfResult& r = spins_.spin[s];
        open.occupied[s] = std::max<std::int64_t>(0, r.occupied - result_.frozen);
        open.virtuals[s] = r.coefficients.cols() - r.occupied;
    }
}

void Calculation::write_integrals(Field& field, const Matrix& coefficients) {
    if (options_.fcidump_out.empty()) return;
    const auto unpaired = open() ? result_.open->multiplicity - 1 : 0;
    const OrbitalsToWrite what{
        coefficients,   result_.frozen, molecule_.electrons(), unpaired, integrals_->core_hamiltonian(molecule_),
        result_.nuclear};
    on_rank_zero([&] { write_fcidump(options_.fcidump_out, what, field, ao_, field_); });
    say(fmt::format("integrals over {} orbitals written to {}", coefficients.cols() - result_.frozen,
                    options_.fcidump_out));
}

/// The core orbitals are the first ones from here on, frozen or not.
void Calculation::part_core(RhfResult& scf, const Matrix& cores) {
    const auto choice = put_cores_first(scf, cores, core_);
    if (result_.frozen == 0) return;
    if (const double gap = choice.lowest_other - choice.highest; gap < kSmallGap)
        warn(fmt::format(
            "frozen core: the highest frozen orbital ({:.3f} Eh) lies {} the lowest correlated one ({:.3f} Eh); "
            "other programs may freeze others",
            choice.highest, gap < 0 ? "above" : "just below", choice.lowest_other));
    if (choice.least < kMostlyCore)
        warn(
            fmt::format("frozen core: cores of the atoms make up only {:.0f} % of a frozen orbital; energies that are "
                        "compared should not be frozen",
                        100 * choice.least));
}

/// Everyone goes on with the same numbers to the last bit: rank 0's.
void Calculation::share(std::vector<std::span<double>> parts) {
    if (!options_.here.communicator) return;
    for (const auto& part : parts) {
        const auto from = std::as_bytes(part);
        std::vector<std::byte> bytes(from.begin(), from.end());
        options_.here.communicator->broadcast(bytes, 0);
        ensure(bytes.size() == from.size(), "ranks have orbitals of {} and {} bytes", from.size(), bytes.size());
        std::memcpy(part.data(), bytes.data(), bytes.size());
    }
}

void Calculation::share_orbitals(RhfResult& scf) {
    double iterations = scf.iterations;
    share({{&scf.energy, 1},
           {&iterations, 1},
           {scf.coefficients.data(), static_cast<std::size_t>(scf.coefficients.size())},
           {scf.orbital_energies.data(), static_cast<std::size_t>(scf.orbital_energies.size())}});
    scf.iterations = static_cast<int>(iterations);
}

EnergyResult energy(const Molecule& molecule, const EnergyOptions& options) {
    return Calculation(molecule, options).run();
}

}  // namespace tessera::chem
