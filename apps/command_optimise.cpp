#include <fmt/format.h>

#include <span>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "commit.hpp"
#include "io/file.hpp"
#include "tessera/chem/optimise.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    chem::OptimiseOptions optimise;
    std::string molecule, method = "rhf", reference = "rhf", integrals = "conventional", out, trajectory;
    WhereOptions where;
    int charge = 0;
};

void write_text(const std::string& path, const std::string& text) { write_file(path, std::as_bytes(std::span(text))); }

void run(Options& o) {
    auto& e = o.optimise.energy;
    e.method = chem::parse_method(o.method);
    e.reference = chem::parse_reference(o.reference);
    require(o.integrals == "conventional" || o.integrals == "df", "--integrals {}: conventional or df", o.integrals);
    e.integrals = o.integrals == "df" || e.method == chem::Method::ri_mp2 ? chem::IntegralKind::df
                                                                          : chem::IntegralKind::conventional;
    e.here = resources_of(o.where, o.common);
    const bool first = mpi_world().rank() == 0;
    e.warn = [first](const std::string& line) {
        if (first) fmt::print(stderr, "tessera: warning: {}\n", one_line(line));
    };
    if (first)
        for (const auto* path : {&o.out, &o.trajectory})
            if (!path->empty()) require_writable(*path);
    auto molecule = chem::read_xyz(o.molecule);
    molecule.charge = o.charge;
    std::string trajectory;
    o.optimise.progress = [&](int step, const chem::Molecule& m, double energy, double gradient) {
        trajectory += chem::to_xyz(m, fmt::format("step {} energy {:.10f} gradient {:.2e}", step, energy, gradient));
        if (!first) return;
        if (!o.trajectory.empty()) write_text(o.trajectory, trajectory);
        if (o.common.quiet) return;
        if (step == 0) fmt::print(o.common.json ? stderr : stdout, " step        energy / Eh   gradient / (Eh/bohr)\n");
        fmt::print(o.common.json ? stderr : stdout, "{:5} {:18.10f} {:22.2e}\n", step, energy, gradient);
        std::fflush(nullptr);
    };
    const auto r = chem::optimise(molecule, o.optimise);
    const std::string xyz = chem::to_xyz(r.molecule, fmt::format("{} {} energy {:.10f}", o.method, e.basis, r.energy));
    if (first && r.converged && !o.out.empty()) write_text(o.out, xyz);
    if (first && o.common.json)
        print_json({{"molecule", o.molecule},
                    {"method", chem::name(e.method)},
                    {"reference", chem::name(e.reference)},
                    {"basis", e.basis},
                    {"charge", o.charge},
                    {"energy", r.energy},
                    {"gradient", r.gradient},
                    {"steps", r.steps},
                    {"energies", r.energies},
                    {"converged", r.converged},
                    {"xyz", xyz},
                    {"ranks", mpi_world().size()},
                    {"threads", resolve_threads(e.here.threads)},
                    {"commit", bench::build_commit()}});
    else if (first)
        fmt::print("{}", xyz);
    if (!r.converged)
        throw chem::NotConverged(
            fmt::format("{}: no minimum in {} steps (largest gradient {:.1e}); go on from the last "
                        "geometry",
                        o.molecule, r.steps, r.gradient),
            "optimise", r.steps, r.energy);
}

}  // namespace

Action add_optimise(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("optimise", "the geometry of least energy, by numerical gradients");
    auto& e = o->optimise.energy;
    command.add_option("molecule", o->molecule, "xyz file, coordinates in Angstrom").required();
    command.add_option("--basis", e.basis, "basis set by name, or a .g94 file").show_default();
    command.add_option("--method", o->method, "rhf, mp2, ri-mp2, ccsd or ccsd(t)").show_default();
    command.add_option("--reference", o->reference, "rhf, uhf or rohf").show_default();
    command.add_option("--multiplicity", e.multiplicity, "2 S + 1 (default: 1, or 2 where electrons are odd)")
        .check(between(1, 1000));
    command.add_option("--integrals", o->integrals, "conventional, or df (density fitting)").show_default();
    command.add_flag("--frozen-core", e.frozen_core, "leave the core electrons uncorrelated");
    command.add_option("--charge", o->charge, "charge of the molecule").show_default();
    command.add_option("--gradient", o->optimise.gradient, "largest component to reach, hartree per bohr")
        .show_default();
    command.add_option("--max-steps", o->optimise.max_steps, "at most").show_default();
    command.add_option("--out", o->out, "write the geometry here (.xyz)").check(check_name);
    command.add_option("--trajectory", o->trajectory, "write all geometries on the way here (.xyz)").check(check_name);
    add_memory(command, o->where, "refuse what needs more than this on the host, as in 16GiB (default: what it has)");
    add_common(command, o->common);
    command.footer("Example: tessera optimise share/molecules/h2o.xyz --method mp2 --basis cc-pvdz --out best.xyz");
    return [o] { run(*o); };
}

}  // namespace tessera::app
