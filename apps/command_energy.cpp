#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "commit.hpp"
#include "device/discovery.hpp"
#include "probe/rates.hpp"
#include "qcschema.hpp"
#include "tessera/chem/energy.hpp"
#include "tessera/chem/hamiltonian.hpp"

namespace tessera::app {

namespace {

constexpr double kDebye = 2.541746473;  // of e bohr

struct Options {
    CommonOptions common;
    chem::EnergyOptions energy;
    std::optional<std::string> molecule, fcidump, trexio, qcschema;
    std::string method = "ccsd(t)", abcd = "stored", integrals = "conventional", scf = "auto", reference = "rhf";
    std::string stability = "check";
    WhereOptions where;
    std::optional<double> filter;
    int charge = 0;
    std::int64_t peak_bytes = 0;  // of a process, known in the end
};

/// The file that is given in place of a molecule, of either kind.
const std::optional<std::string>& file_of_integrals(const Options& o) { return o.fcidump ? o.fcidump : o.trexio; }

/// What is no whole number is told from one that is out of range.
std::function<std::string(const std::string&)> whole_number(int least, int most) {
    return [=](const std::string& text) -> std::string {
        int value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data() + text.starts_with('+'), end, value);
        if (error == std::errc() && stop == end && value >= least && value <= most) return {};
        return fmt::format("'{}' is no whole number from {} to {}", text, least, most);
    };
}

/// Of a process, on the rank with most; collective.
std::int64_t peak_memory_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    double most[] = {1024.0 * static_cast<double>(usage.ru_maxrss)};
    mpi_world().max(most);
    return static_cast<std::int64_t>(most[0]);
}

double share_on_devices(const chem::EnergyResult& r) {
    const double all = r.contraction_flops + r.triples_flops;
    return all > 0 ? (r.device_contraction_flops + r.device_triples_flops) / all : 0;
}

nlohmann::json to_json(const chem::OpenShell& x, chem::Method method) {
    const auto parts = [](const chem::OpenShell::Parts& p) {
        return nlohmann::json{{"same_spin", p.same}, {"opposite_spin", p.opposite}, {"singles", p.singles}};
    };
    const auto amplitudes = [](const std::vector<chem::OpenShell::Amplitude>& list) {
        nlohmann::json out = nlohmann::json::array();
        for (const auto& a : list) out.push_back({{"orbitals", a.orbitals}, {"value", a.value}});
        return out;
    };
    const double s = 0.5 * (x.multiplicity - 1);
    nlohmann::json j{{"multiplicity", x.multiplicity},
                     {"occupied", x.occupied},
                     {"virtual", x.virtuals},
                     {"s_squared", x.s_squared},
                     {"s_squared_pure", s * (s + 1)},
                     {"hessian", nullptr},
                     {"followed", x.followed},
                     {"mp2", nullptr},
                     {"ccsd", nullptr},
                     {"largest_amplitudes", nullptr}};
    if (x.hessian) j["hessian"] = *x.hessian;
    if (method != chem::Method::rhf) j["mp2"] = parts(x.mp2);
    if (method >= chem::Method::ccsd) {
        j["ccsd"] = parts(x.ccsd);
        j["largest_amplitudes"] = {{"singles", amplitudes(x.singles)}, {"doubles", amplitudes(x.doubles)}};
    }
    return j;
}

nlohmann::json to_json(const Options& o, const chem::EnergyResult& r) {
    const double tensor_seconds = r.contraction_seconds + r.triples_seconds;
    nlohmann::json j{
        {"molecule", file_of_integrals(o) ? *file_of_integrals(o) : *o.molecule},
        {"charge", o.charge},
        {"basis", o.energy.basis},
        {"method", chem::name(o.energy.method)},
        {"converge", o.energy.converge},
        {"ranks", mpi_world().size()},
        {"threads", resolve_threads(o.energy.here.threads)},
        {"nuclear", r.nuclear},
        {"reference", o.reference},
        {"rhf", r.rhf},
        {"reference_energy", r.rhf},
        {"mp2", r.mp2},
        {"ccsd", r.ccsd},
        {"triples", r.triples},
        {"total", r.total},
        {"converged", r.converged},
        {"iterations", r.iterations},
        {"iterations_before", r.iterations_before},
        {"scf_iterations", r.scf_iterations},
        {"t1_diagnostic", r.t1_diagnostic},
        {"orbitals",
         {{"basis", r.basis_functions}, {"occupied", r.occupied}, {"frozen", r.frozen}, {"virtual", r.virtuals}}},
        {"dropped_functions", r.dropped_functions},
        {"smallest_overlap", r.smallest_overlap},
        {"seconds", r.seconds},
        {"time",
         {{"integrals", r.integral_seconds},
          {"scf", r.scf_seconds},
          {"transform", r.transform_seconds},
          {"ccsd", r.ccsd_seconds},
          {"triples", r.triples_seconds},
          {"contractions", r.contraction_seconds}}},
        {"share_in_contractions", r.seconds > 0 ? tensor_seconds / r.seconds : 0},
        {"flops", {{"contractions", r.contraction_flops}, {"ccsd", r.ccsd_flops}, {"triples", r.triples_flops}}},
        {"contractions", r.contractions},
        {"peak_bytes", o.peak_bytes},
        {"memory_estimate", r.memory_estimate},
        {"diis_on_disk", r.diis_on_disk},
        {"triples_recorded", r.triples_recorded},
        {"integrals", o.integrals},
        {"references", r.references},
        {"abcd", o.abcd},
        {"scf", r.scf_direct ? "direct" : "stored"},
        {"machine", cpu_name()},
        {"commit", bench::build_commit()},
    };
    if (file_of_integrals(o)) {
        j["charge"] = j["basis"] = j["smallest_overlap"] = j["scf"] = nullptr;
        j["integrals"] = o.fcidump ? "fcidump" : "trexio";
    }
    if (o.reference != "rhf") {
        j["rhf"] = nullptr;
        for (const auto& step : r.scf_history)
            j["scf_history"].push_back({{"energy", step.energy}, {"change", step.change}, {"gradient", step.gradient}});
    }
    j["dipole"] = nullptr;
    if (r.dipole) j["dipole"] = *r.dipole;
    j["ccsd_dipole"] = nullptr;
    if (r.ccsd_dipole) j["ccsd_dipole"] = *r.ccsd_dipole;
    j["open_shell"] = nullptr;
    if (r.open) j["open_shell"] = to_json(*r.open, o.energy.method);
    j["fno"] = nullptr;
    if (r.fno)
        j["fno"] = {{"threshold", *o.energy.fno},
                    {"virtual", r.fno->all},
                    {"kept", r.fno->kept},
                    {"occupation", r.fno->occupation},
                    {"occupation_kept", r.fno->occupation_kept},
                    {"correction", r.fno->correction},
                    {"seconds", r.fno_seconds}};
    // What was not asked for is not zero.
    const auto m = o.energy.method;
    if (m == chem::Method::rhf) j["mp2"] = nullptr;
    if (m < chem::Method::ccsd)
        for (const char* energy : {"ccsd", "t1_diagnostic"}) j[energy] = nullptr;
    if (m != chem::Method::ccsd_t) j["triples"] = nullptr;
    if (!o.energy.here.devices.empty()) {
        const auto info = device::info(o.energy.here.devices.front());
        j["device"] = info.name;
        j["driver"] = info.driver;
        j["on_devices"] = {
            {"devices", o.energy.here.devices},
            {"device_from", o.energy.device_from},
            {"ccsd_lives_there", r.ccsd_on_device},
            {"contractions", r.device_contractions},
            {"flops", {{"contractions", r.device_contraction_flops}, {"triples", r.device_triples_flops}}},
            {"share_of_flops", share_on_devices(r)},
            {"loaded_bytes", r.device_loaded_bytes},
            {"stored_bytes", r.device_stored_bytes}};
    }
    if (o.energy.integrals == chem::IntegralKind::df) {
        j["abcd"] = j["scf"] = nullptr;
        j["jkfit"] = {{"name", r.jkfit}, {"functions", r.jkfit_functions}};
        j["rifit"] = nullptr;
        if (!r.rifit.empty()) j["rifit"] = {{"name", r.rifit}, {"functions", r.rifit_functions}};
    }
    if (m == chem::Method::ri_mp2)
        j["ri"] = {{"filter", o.energy.filter},
                   {"tiles", r.fitted_tiles},
                   {"tiles_kept", r.fitted_tiles_kept},
                   {"left_out", r.fitted_left_out},
                   {"dropped_auxiliary", r.dropped_auxiliary},
                   {"metric_condition", r.metric_condition},
                   {"rank_bytes", r.rank_bytes}};
    if (o.energy.abcd == chem::Abcd::direct)
        j["screening"] = {{"threshold", o.energy.screen},
                          {"tiles", r.v_tiles},
                          {"tiles_made", r.v_tiles_made},
                          {"energy_change", r.screen_change}};
    return j;
}

/// What there is of a calculation that did not converge: no energy that a script could take for one.
nlohmann::json to_json(const Options& o, const chem::NotConverged& e) {
    auto j = to_json(o, e.result());
    for (const char* energy : {"ccsd", "triples", "total", "t1_diagnostic"}) j[energy] = nullptr;
    if (e.where() == "scf")
        for (const char* unknown : {"nuclear", "rhf", "reference_energy", "mp2", "orbitals", "smallest_overlap",
                                    "dipole", "open_shell", "fno"})
            j[unknown] = nullptr;
    if (j.contains("screening"))  // counted after the last iteration
        for (const char* unknown : {"tiles", "tiles_made", "energy_change"}) j["screening"][unknown] = nullptr;
    j["stopped"] = {{"in", e.where()}, {"iterations", e.iterations()}, {"energy", e.energy()}, {"message", e.what()}};
    return j;
}

std::string summary(const Options& o, const chem::EnergyResult& r) {
    using chem::Method;
    const auto m = o.energy.method;
    std::string out =
        fmt::format("\n{:<28}{:>20}\n", "energy / Eh", !file_of_integrals(o) ? o.energy.basis : "integrals of a file");
    const auto line = [&](const std::string& what, double value) {
        out += fmt::format("{:<28}{:>20.10f}\n", what, value);
    };
    line("nuclear repulsion", r.nuclear);
    const auto parts = [&](const chem::OpenShell::Parts& p) {
        line("  same spin", p.same);
        line("  opposite spin", p.opposite);
        if (p.singles != 0) line("  singles", p.singles);
    };
    line(o.energy.reference == chem::Reference::rhf   ? "RHF"
         : o.energy.reference == chem::Reference::uhf ? "UHF"
                                                      : "ROHF",
         r.rhf);
    if (m != Method::rhf) {
        line("MP2 correlation", r.mp2);
        if (r.open) parts(r.open->mp2);
        line("MP2 total", r.rhf + r.mp2);
    }
    if (m == Method::ccsd || m == Method::ccsd_t) {
        line("CCSD correlation", r.ccsd);
        if (r.open) parts(r.open->ccsd);
        line("CCSD total", r.rhf + r.ccsd);
    }
    if (m == Method::ccsd_t) {
        line("(T) correction", r.triples);
        line("CCSD(T) total", r.rhf + r.ccsd + r.triples);
    }
    if (r.fno) {
        const auto& f = *r.fno;
        line("MP2 beyond these orbitals", f.correction);
        line("corrected total", r.total);
        out += fmt::format("{:<28}{:>20}\n", "virtual orbitals kept",
                           r.open ? fmt::format("{} of {}, {} of {}", f.kept[0], f.all[0], f.kept[1], f.all[1])
                                  : fmt::format("{} of {}", f.kept[0], f.all[0]));
    }
    if (r.t1_diagnostic > 0)
        out += fmt::format("{:<28}{:>20.4f}{}\n", "T1 diagnostic", r.t1_diagnostic,
                           r.t1_diagnostic > 0.02 ? "  (above 0.02: one determinant may not be enough)" : "");
    if (r.open) {
        const double s = 0.5 * (r.open->multiplicity - 1);
        out += fmt::format("{:<28}{:>20.4f}  (multiplicity {}: {:.4f} without contamination)\n", "<S^2> of the SCF",
                           r.open->s_squared, r.open->multiplicity, s * (s + 1));
        for (const auto& list : {r.open->singles, r.open->doubles})
            for (const auto& a : list) out += fmt::format("  amplitude {:<16}{:>20.4f}\n", a.orbitals, a.value);
    }
    const auto dipole = [&](const char* what, const std::optional<std::array<double, 3>>& d) {
        if (d)
            out += fmt::format("{:<28}{:>20.4f} D  ({:.5f} {:.5f} {:.5f} e bohr)\n", what,
                               kDebye * std::hypot((*d)[0], (*d)[1], (*d)[2]), (*d)[0], (*d)[1], (*d)[2]);
    };
    dipole("SCF dipole", r.dipole);
    dipole("CCSD dipole", r.ccsd_dipole);
    if (o.energy.abcd == chem::Abcd::direct && r.v_tiles > 0)
        out += fmt::format(
            "integral tiles made: {} of {} ({:.1f} % skipped); the CCSD energy changed by {:.1e} (first order)\n",
            r.v_tiles_made, r.v_tiles,
            100.0 * static_cast<double>(r.v_tiles - r.v_tiles_made) / static_cast<double>(r.v_tiles), r.screen_change);
    if (!o.energy.here.devices.empty())
        out += fmt::format("on devices: {} of {} contractions{}, {:.1f} % of all operations\n", r.device_contractions,
                           r.contractions, r.device_triples_flops > 0 ? " and (T)" : "", 100 * share_on_devices(r));
    for (const auto& reference : r.references) out += fmt::format("basis sets: {}\n", reference);
    out += fmt::format("time {}, peak memory {}\n", format_seconds(r.seconds), format_bytes(o.peak_bytes));
    return out;
}

void set_options(Options& o) {
    auto& e = o.energy;
    e.method = chem::parse_method(o.method);
    e.reference = chem::parse_reference(o.reference);
    o.reference = chem::name(e.reference);
    e.stability = chem::parse_stability(o.stability);
    require(!file_of_integrals(o) || e.reference == chem::Reference::rhf,
            "--reference {}: integrals of a file are a closed shell's", o.reference);
    if (e.method == chem::Method::ri_mp2) o.integrals = "df";
    require(!o.filter || e.method == chem::Method::ri_mp2, "--filter {}: of the integrals of ri-mp2", *o.filter);
    e.filter = o.filter.value_or(e.filter);
    require(o.integrals == "conventional" || o.integrals == "df", "--integrals {}: conventional or df", o.integrals);
    e.integrals = o.integrals == "df" ? chem::IntegralKind::df : chem::IntegralKind::conventional;
    require(o.abcd == "stored" || o.abcd == "direct", "--abcd {}: stored or direct", o.abcd);
    e.abcd = o.abcd == "direct" ? chem::Abcd::direct : chem::Abcd::stored;
    require(o.scf == "auto" || o.scf == "stored" || o.scf == "direct", "--scf {}: auto, stored or direct", o.scf);
    e.scf = o.scf == "auto"     ? chem::AoStorage::automatic
            : o.scf == "direct" ? chem::AoStorage::direct
                                : chem::AoStorage::stored;
    require(e.screen == 0 || e.abcd == chem::Abcd::direct, "--screen {}: screens the integrals of --abcd direct",
            e.screen);
    e.here = resources_of(o.where, o.common);
    const bool first = mpi_world().rank() == 0;
    if (!o.common.quiet && first)
        e.log = [to = o.common.json ? stderr : stdout](const std::string& line) {
            fmt::print(to, "{}\n", line);
            std::fflush(to);
        };
    // Warnings are no progress: --quiet leaves them, and they never stand among the results.
    e.warn = [first](const std::string& line) {
        if (!first) return;
        std::fflush(stdout);
        fmt::print(stderr, "tessera: warning: {}\n", one_line(line));
    };
}

/// Options by the keywords of a question in QCSchema, which have the names of those of Python's `energy`.
void take_keywords(Options& o, const QcSchema& schema) {
    auto& e = o.energy;
    for (const auto& [name, value] : schema.keywords.items()) {
        const auto take = [&, &key = name](auto& to) {
            using To = std::remove_reference_t<decltype(to)>;
            constexpr bool whole = std::is_integral_v<To> && !std::is_same_v<To, bool>;
            const bool fits = std::is_same_v<To, bool>          ? value.is_boolean()
                              : std::is_same_v<To, std::string> ? value.is_string()
                              : whole                           ? value.is_number_integer()
                                                                : value.is_number();
            require(fits, "{}: keyword {} is {}", schema.name, key, value.dump());
            if constexpr (whole)
                require(value.template get<std::int64_t>() >= 1 && value.template get<std::int64_t>() <= 1'000'000,
                        "{}: keyword {} is {}: 1 to 1000000 is needed", schema.name, key, value.dump());
            to = value.template get<To>();
        };
        double number = 0;
        if (name == "frozen_core")
            take(e.frozen_core);
        else if (name == "converge")
            take(e.converge);
        else if (name == "max_iterations")
            take(e.max_iterations);
        else if (name == "integrals")
            take(o.integrals);
        else if (name == "abcd")
            take(o.abcd);
        else if (name == "screen")
            take(e.screen);
        else if (name == "jkfit")
            take(e.jkfit);
        else if (name == "rifit")
            take(e.rifit);
        else if (name == "tile")
            take(e.tile);
        else if (name == "filter") {
            take(number);
            o.filter = number;
        } else if (name == "fno") {
            take(number);
            e.fno = number;
        } else {
            user_error(
                "{}: unknown keyword '{}': there are abcd, converge, filter, fno, frozen_core, integrals, jkfit, "
                "max_iterations, rifit, screen and tile",
                schema.name, name);
        }
    }
    o.method = schema.method;
    e.basis = schema.basis;
    o.charge = schema.molecule.charge;
    o.molecule = schema.name;
}

/// An answer comes for a question that cannot be answered too.
void run_qcschema(Options& o) {
    const bool first = mpi_world().rank() == 0;
    require(*o.qcschema != "-" || mpi_world().size() == 1,
            "--qcschema -: stdin is of one rank; a file can be read by all");
    QcSchema schema;
    o.common.json = true;  // progress goes to stderr
    try {
        schema = parse_qcschema(read_qcschema_text(*o.qcschema), *o.qcschema);
        take_keywords(o, schema);
        set_options(o);
        const auto result = chem::energy(schema.molecule, o.energy);
        o.peak_bytes = peak_memory_bytes();
        if (first) print_json(qcschema_result(schema, result, o.energy.method, summary(o, result)));
    } catch (const Error& e) {
        if (first) print_json(qcschema_failure(schema.input, schema.version, e));
        throw;
    }
}

void run(Options& o) {
    const int given = (o.molecule ? 1 : 0) + (o.fcidump ? 1 : 0) + (o.trexio ? 1 : 0) + (o.qcschema ? 1 : 0);
    require(given > 0, "a molecule (xyz file), --fcidump, --trexio or --qcschema is needed");
    using Given = std::pair<const char*, const std::optional<std::string>&>;
    for (const auto& [option, file] :
         {Given("--fcidump", o.fcidump), Given("--trexio", o.trexio), Given("--qcschema", o.qcschema)})
        require(!file || given == 1, "{} {}: it has a molecule of its own beside {}", option, file.value_or(""),
                o.molecule ? *o.molecule : "the others");
    if (o.qcschema) return run_qcschema(o);
    set_options(o);
    const auto& e = o.energy;
    const bool first = mpi_world().rank() == 0;
    chem::EnergyResult result;
    try {
        if (o.molecule) {
            auto molecule = chem::read_xyz(*o.molecule);
            molecule.charge = o.charge;
            result = chem::energy(molecule, e);
        } else {
            result = chem::energy(
                o.fcidump ? chem::read_fcidump(*o.fcidump, e.here.memory) : chem::read_trexio(*o.trexio, e.here.memory),
                e);
        }
    } catch (const chem::NotConverged& stop) {  // on every rank
        o.peak_bytes = peak_memory_bytes();
        if (first && o.common.json) print_json(to_json(o, stop));
        throw;
    }
    o.peak_bytes = peak_memory_bytes();
    if (!first) return;
    if (o.common.json)
        print_json(to_json(o, result));
    else if (!o.common.quiet)
        fmt::print("{}", summary(o, result));
    else
        fmt::print("{:.10f}\n", result.total);
}

}  // namespace

Action add_energy(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("energy", "the energy of a molecule: Hartree-Fock, MP2, RI-MP2, CCSD, CCSD(T)");
    auto& e = o->energy;
    command.add_option("molecule", o->molecule, "xyz file, coordinates in Angstrom");
    auto fcidump =
        command.add_option("--fcidump", o->fcidump,
                           "in place of a molecule: integrals over orbitals of a closed shell, in an FCIDUMP file");
    auto trexio = command.add_option("--trexio", o->trexio, "the same, in a TREXIO file (its HDF5 back end)");
    auto qcschema = command.add_option(
        "--qcschema", o->qcschema,
        "in place of a molecule: a question in QCSchema (JSON; - for stdin), which the answer on stdout is in too");
    command.add_option("--basis", e.basis, "basis set by name, or a .g94 file").show_default();
    command.add_option("--basis-folder", e.basis_folder,
                       "where named basis sets are (default: those of the program, or $TESSERA_SHARE/basis)");
    command
        .add_option("--integrals", o->integrals,
                    "conventional, or df (density fitting: in less memory, off by some 1e-5 hartree an atom)")
        .show_default();
    command.add_option("--jkfit", e.jkfit, "with df: auxiliary set of Fock matrices (default: by the basis)");
    command.add_option("--rifit", e.rifit, "with df: auxiliary set of correlation (default: by the basis)");
    command.add_option("--method", o->method, "rhf, mp2, ri-mp2, ccsd or ccsd(t), also written ccsd_t").show_default();
    command.add_flag("--frozen-core", e.frozen_core, "leave the core electrons uncorrelated");
    command.add_option("--charge", o->charge, "charge of the molecule").show_default().check(whole_number(-1000, 1000));
    command
        .add_option("--reference", o->reference,
                    "rhf (pairs of electrons), uhf (orbitals of each spin) or rohf (pairs and single electrons)")
        .show_default();
    command.add_option("--multiplicity", e.multiplicity, "2 S + 1 (default: 1, or 2 where electrons are odd)")
        .check(whole_number(1, 1000));
    command.add_option("--level-shift", e.level_shift, "of uhf and rohf: hartree by which empty orbitals are raised");
    command.add_option("--damping", e.damping,
                       "of uhf and rohf: share of the last Fock matrix in the next, from 0 to 1");
    command
        .add_option("--stability", o->stability,
                    "of uhf: none, check (say whether a rotation of orbitals lowers the energy), or follow it")
        .show_default();
    command.add_flag(
        "--dipole", e.dipole,
        "of uhf and rohf: the dipole moment of CCSD, from the Lambda equations (orbitals stay as they are)");
    command.add_option("--fno", e.fno,
                       "of ccsd and ccsd(t): leave out natural orbitals of MP2 with a lower occupation than this "
                       "(1e-4, say; they range from 0 to 2), and correct the energy by MP2");
    command.add_option("--converge", e.converge, "energy change and residual to reach").show_default();
    command.add_option("--max-iterations", e.max_iterations, "of the SCF and of CCSD, each, in this run")
        .show_default()
        .check(whole_number(1, 1'000'000));
    command
        .add_option("--abcd", o->abcd,
                    "integrals over four virtuals: stored, or direct (made from basis functions when needed)")
        .show_default();
    command
        .add_option("--scf", o->scf,
                    "conventional integrals over basis functions: stored, direct (made anew in each iteration), or "
                    "auto: stored where they fit in memory")
        .show_default();
    command.add_option("--screen", e.screen, "with --abcd direct: skip integral tiles below this, per element")
        .show_default();
    command.add_option("--filter", o->filter,
                       "of ri-mp2: leave out tiles of three-index integrals with a norm below this (default: 1e-10)");
    command.add_option("--checkpoint", e.checkpoint, "keep the amplitudes here (.h5); go on from them if it is there")
        .check(check_name);
    for (auto file : {fcidump, trexio, qcschema}) file.check(check_name);
    command
        .add_option("--fcidump-out", e.fcidump_out,
                    "write the integrals over the orbitals of rhf or rohf here, as an FCIDUMP file")
        .check(check_name);
    command
        .add_option("--scratch", e.scratch,
                    "folder for what does not fit in --memory: vectors of DIIS (default: that of temporary files)")
        .check(check_name);
    command.add_option("--tile", e.tile, "about this many orbitals in a tile")
        .show_default()
        .check(between(std::int64_t{1}, std::int64_t{1'000'000}));
    add_devices(command, o->where);
    command
        .add_option(
            "--device-from", e.device_from,
            "multiply-adds from which on a contraction goes to the devices (default: where an estimate says that "
            "it is faster there)")
        .check(zero_or_more());
    add_memory(command, o->where, "refuse what needs more than this on the host, as in 16GiB (default: what it has)");
    add_common(command, o->common);
    command.footer("Example: tessera energy share/molecules/h2o.xyz --basis cc-pvdz --method 'ccsd(t)' --frozen-core");
    for (const char* of_molecules :
         {"--multiplicity", "--level-shift", "--damping", "--stability", "--dipole", "--fno", "--fcidump-out",
          "--basis", "--basis-folder", "--integrals", "--jkfit", "--rifit", "--frozen-core", "--charge", "--abcd",
          "--scf", "--screen", "--checkpoint", "--scratch"}) {
        fcidump.excludes(of_molecules);
        trexio.excludes(of_molecules);
    }
    // The question says it.
    for (const char* asked : {"--basis", "--integrals", "--jkfit", "--rifit", "--method", "--frozen-core", "--charge",
                              "--multiplicity", "--reference", "--converge", "--max-iterations", "--abcd", "--scf",
                              "--screen", "--filter", "--fno", "--tile", "--checkpoint"})
        qcschema.excludes(asked);
    return [o] { run(*o); };
}

}  // namespace tessera::app
