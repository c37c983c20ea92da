#include "command_purify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/units.hpp"
#include "chem/eigenvalues.hpp"
#include "report.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/base/error.hpp"
#include "tessera/matrix/functions.hpp"
#include "tessera/problems/insulator.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera::app {

namespace {

constexpr std::int64_t kMostDense = 2000;

nlohmann::json history_of(const MatrixReport& r) {
    auto steps = nlohmann::json::array();
    for (const auto& s : r.history)
        steps.push_back({{"residual", s.residual},
                         {"trace", s.trace},
                         {"left_out", s.left_out},
                         {"tiles", s.tiles},
                         {"planned", s.planned},
                         {"plan_seconds", s.plan_seconds},
                         {"seconds", s.seconds}});
    return steps;
}

/// What infinity is in JSON.
nlohmann::json known(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); }

std::string step_line(std::size_t n, const MatrixStep& s) {
    return fmt::format("{:>5}{:>14.3e}{:>16.6f}{:>12.1e}{:>12}{:>9}{:>10}\n", n, s.residual, s.trace, s.left_out,
                       format_count(s.tiles), s.planned ? "anew" : "kept", format_seconds(s.seconds));
}

}  // namespace

void run_purify(const PurifyRequest& q) {
    const auto model = make_insulator(q.problem);
    Communicator& ranks = mpi_world();
    // F, X and X X are there at once, and X X has twice the band.
    const double least = 3 * model.stored_bytes() / ranks.size();
    const auto limit = q.here.memory > 0 ? q.here.memory : memory_bytes();
    if (least > static_cast<double>(limit))
        throw BudgetError(
            fmt::format(
                "a memory of {} ({} bytes) is too small for {}: F alone takes {} on a rank, the work {} at least",
                format_bytes(limit), limit, model.name, format_bytes(static_cast<std::int64_t>(least / 3)),
                format_bytes(static_cast<std::int64_t>(least))),
            limit, static_cast<std::int64_t>(least));
    const bool first = ranks.rank() == 0, talks = first && !q.common.json && !q.common.quiet;
    const auto f = model.hamiltonian({ranks, Distribution::even(model.grid(), ranks.size())}, q.here.threads);
    MatrixOptions options;
    options.filter = q.filter;
    if (talks) {
        fmt::print("{}: {} states, {} electrons; F has {} tiles, {} stored\n", model.name, model.states,
                   model.electrons(), format_count(f.tile_count()), format_bytes(f.shape().elements() * 8));
        fmt::print("{:>5}{:>14}{:>16}{:>12}{:>12}{:>9}{:>10}\n", "step", "X - X X", "trace", "left out", "tiles",
                   "plan", "time");
    }
    std::optional<MatrixResult<double>> done;
    try {
        done = purify(f, model.electrons(), options, q.here);
    } catch (const MatrixNotConverged& stop) {
        if (first && q.common.json)
            print_json({{"problem", model.name},
                        {"converged", false},
                        {"filter", q.filter},
                        {"history", history_of(stop.report())},
                        {"stopped", {{"in", "purify"}, {"message", stop.what()}}}});
        if (talks)
            for (std::size_t n = 0; n < stop.report().history.size(); ++n)
                fmt::print("{}", step_line(n, stop.report().history[n]));
        std::fflush(stdout);
        throw;
    }
    const auto& [d, report] = *done;
    const double energy = trace(d, f), electrons = trace(d);
    // trace((F - m)(D - exact)) + m (trace D - electrons), for any m: in the middle of the gap.
    const double middle = (report.homo + report.lumo) / 2;
    auto shifted = f;
    add_on_diagonal(shifted, -middle);
    const double energy_error =
        norm(shifted) * report.error + std::abs(middle) * std::abs(electrons - static_cast<double>(model.electrons()));
    const auto sum = checksum(d);

    std::optional<double> exact;
    if (q.check && model.states <= kMostDense) {
        const auto dense = f.to_dense();
        if (first) {
            const auto levels = chem::symmetric_eigenvalues(dense, model.states);
            exact = 0;
            for (std::int64_t i = 0; i < model.electrons(); ++i) *exact += levels[static_cast<std::size_t>(i)];
        }
    }
    if (!first) return;
    if (q.common.json) {
        nlohmann::json j = {{"problem", model.name},
                            {"converged", true},
                            {"states", model.states},
                            {"electrons", model.electrons()},
                            {"filter", q.filter},
                            {"energy", energy},
                            {"energy_error", known(energy_error)},
                            {"error", known(report.error)},
                            {"residual", report.residual},
                            {"trace", electrons},
                            {"homo", report.homo},
                            {"lumo", report.lumo},
                            {"lowest", report.lowest},
                            {"highest", report.highest},
                            {"tiles", d.tile_count()},
                            {"density", d.shape().density()},
                            {"iterations", report.history.size()},
                            {"products", report.products},
                            {"plans", report.plans},
                            {"device_products", report.device_products},
                            {"devices", q.here.devices},
                            {"flops", report.flops},
                            {"seconds", report.seconds},
                            {"time", {{"plan", report.plan_seconds}, {"products", report.product_seconds}}},
                            {"checksum", hex(sum)},
                            {"ranks", ranks.size()},
                            {"history", history_of(report)}};
        if (exact) j["dense"] = {{"energy", *exact}, {"off", std::abs(energy - *exact)}};
        print_json(j);
    } else if (talks) {
        for (std::size_t n = 0; n < report.history.size(); ++n) fmt::print("{}", step_line(n, report.history[n]));
        fmt::print("energy      {:.8f} +- {:.1e}\n", energy, energy_error);
        fmt::print("D           {} tiles, {:.3g} % dense; off by {:.1e} at most; X - X X {:.1e}\n",
                   format_count(d.tile_count()), 100 * d.shape().density(), report.error, report.residual);
        fmt::print("gap         {:.6f}, from {:.6f} to {:.6f}\n", report.gap(), report.homo, report.lumo);
        fmt::print("time        {}, products {} ({} of {} planned anew: {:.1f} % of the time)\n",
                   format_seconds(report.seconds), format_seconds(report.product_seconds), report.plans,
                   report.products, 100 * report.plan_seconds / report.seconds);
        fmt::print("work        {:.3g} flop, {:.1f} GFLOP/s\n", report.flops, report.flops / report.seconds * 1e-9);
        if (exact)
            fmt::print("check       dense diagonalisation {:.8f}: off by {:.1e}\n", *exact, std::abs(energy - *exact));
        fmt::print("checksum    {}\n", hex(sum));
    }
    // Eigenvalues of the dense matrix are rounded too.
    if (exact && std::abs(energy - *exact) > energy_error + 1e-13 * static_cast<double>(model.states))
        throw CheckFailed(
            fmt::format("{}: the energy is {:.2e} from that of dense diagonalisation, its bound is {:.2e}", model.name,
                        std::abs(energy - *exact), energy_error));
}

}  // namespace tessera::app
