#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "command.hpp"
#include "commit.hpp"
#include "device/discovery.hpp"
#include "gemm_rate.hpp"
#include "probe/rates.hpp"

namespace tessera::app {

namespace {
double gflops(const ContractionSummary& s) { return s.seconds > 0 ? s.report.flops / s.seconds * 1e-9 : 0; }
double fraction(const ContractionSummary& s) { return s.gemm_gflops > 0 ? gflops(s) / s.gemm_gflops : 0; }

/// "a" and "b" of one or two operands, a list of more.
nlohmann::json density_of(const ContractionSummary& s) {
    if (s.densities.size() > 2) return {{"operands", s.densities}, {"c", s.density_c}};
    return {{"a", s.densities[0]}, {"b", s.densities.size() > 1 ? s.densities[1] : 0.0}, {"c", s.density_c}};
}
/// How near it came.
double of_floor(const ContractionSummary& s) { return s.seconds > 0 ? s.floor->seconds / s.seconds : 0; }
}  // namespace

Spread spread_of(const std::vector<double>& seconds) {
    auto sorted = seconds;
    std::ranges::sort(sorted);
    const auto at = [&](double share) {
        const double place = share * static_cast<double>(sorted.size() - 1);
        const auto below = static_cast<std::size_t>(place), above = std::min(below + 1, sorted.size() - 1);
        return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
    };
    return {at(0.25), at(0.5), at(0.75), seconds};
}

void Floor::add(double flops, ScalarKind scalar, double read, double written) {
    const double here = rates.flops_seconds(flops, scalar), moving = rates.bytes_seconds(read, written);
    arithmetic += here;
    memory += moving;
    seconds += std::max(here, moving);
}

std::string to_text(const Floor& floor) {
    const auto& r = floor.rates;
    auto out = fmt::format("  floor      {} on these cores: arithmetic {} at {:.0f} GFLOP/s of doubles",
                           format_seconds(floor.seconds), format_seconds(floor.arithmetic), r.gemm_gflops);
    if (r.copy_gbs > 0)
        out += fmt::format(", memory {} at {:.0f} GB/s read, {:.0f} GB/s written", format_seconds(floor.memory),
                           r.read_gbs, r.store_gbs);
    return out + "\n";
}

nlohmann::json to_json(const ContractionSummary& s) {
    const auto& r = s.report;
    nlohmann::json j = {
        {"spec", s.spec},
        {"flops", r.flops},
        {"products", r.products},
        {"seconds", s.seconds},
        {"plan_seconds", r.plan_seconds},
        {"gflops", gflops(s)},
        {"gemm_gflops", s.gemm_gflops > 0 ? nlohmann::json(s.gemm_gflops) : nlohmann::json()},
        {"fraction_of_gemm", s.gemm_gflops > 0 ? nlohmann::json(fraction(s)) : nlohmann::json()},
        {"density", density_of(s)},
        {"bytes",
         {{"a", r.bytes_a},
          {"b", r.bytes_b},
          {"c", r.bytes_c},
          {"metadata", s.metadata_bytes},
          {"moved_host_to_device", r.loaded_bytes},
          {"moved_device_to_host", r.stored_bytes},
          {"moved_device_to_device", r.copied_bytes},
          {"descriptors", r.descriptor_bytes},
          {"sent", r.sent_bytes}}},
        {"peak_bytes",
         {{"host", r.peak_host_bytes},
          {"device", r.peak_device_bytes},
          {"process", s.process_bytes > 0 ? nlohmann::json(s.process_bytes) : nullptr}}},
        {"made_tiles", r.made_tiles},
        {"dropped_tiles", r.dropped_tiles},
        {"left_out_bound", r.left_out},
        {"checked",
         {{"tiles", s.checked.tiles},
          {"elements", s.checked.elements},
          {"max_relative_error", s.checked.max_relative_error}}},
        {"checksum", hex(s.checksum)},
        {"algorithm", r.algorithm},
        {"ranks", r.ranks},
        {"overlap", std::isnan(r.overlap) ? nlohmann::json() : nlohmann::json(r.overlap)},
        {"busy_seconds", r.devices.empty() || std::isnan(r.overlap) ? nlohmann::json()
                                                                    : nlohmann::json({{"device", r.device_seconds},
                                                                                      {"transfer", r.transfer_seconds},
                                                                                      {"make", r.make_seconds}})},
        {"devices", r.devices},
        {"threads", r.threads},
        {"machine", cpu_name()},
        {"commit", bench::build_commit()},
    };
    if (!s.problem.empty()) j["problem"] = s.problem;
    for (const auto& step : r.steps)
        j["steps"].push_back({{"flops", step.flops},
                              {"products", step.products},
                              {"seconds", step.execute_seconds},
                              {"algorithm", step.algorithm},
                              {"bytes_c", step.bytes_c},
                              {"left_out_bound", step.left_out}});
    if (!r.devices.empty()) {
        const auto info = device::info(r.devices.front());
        j["device"] = info.name;
        j["driver"] = info.driver;
        for (const int d : r.devices) j["device_names"].push_back(device::info(d).name);
    }
    if (s.floor) {
        j["floor_seconds"] = s.floor->seconds;
        j["of_floor"] = of_floor(s);
        j["floor"] = {{"arithmetic_seconds", s.floor->arithmetic}, {"memory_seconds", s.floor->memory},
                      {"gemm_gflops", s.floor->rates.gemm_gflops}, {"read_gbs", s.floor->rates.read_gbs},
                      {"store_gbs", s.floor->rates.store_gbs},     {"copy_gbs", s.floor->rates.copy_gbs}};
    }
    if (s.spread)
        j["repeated"] = {{"quartiles", {s.spread->lower, s.spread->median, s.spread->upper}},
                         {"seconds", s.spread->seconds}};
    if (s.gemm_sustained_gflops > 0) j["gemm_sustained_gflops"] = s.gemm_sustained_gflops;
    return j;
}

std::string to_text(const ContractionSummary& s) {
    const auto& r = s.report;
    std::string out;
    out += fmt::format("time        {} ({} planning), {} threads", format_seconds(s.seconds),
                       format_seconds(r.plan_seconds), r.threads);
    if (r.ranks > 1) out += fmt::format(" on each of {} ranks", r.ranks);
    if (!r.devices.empty())
        out += fmt::format(", {} device{} a rank", r.devices.size(), r.devices.size() == 1 ? "" : "s");
    out += "\n";
    if (s.spread)
        out += fmt::format("            median of {} executions; quartiles {} and {}\n", s.spread->seconds.size(),
                           format_seconds(s.spread->lower), format_seconds(s.spread->upper));
    if (r.flops > 0) {
        out += fmt::format("rate        {:.1f} GFLOP/s", gflops(s));
        if (s.gemm_gflops > 0)
            out += fmt::format(", {:.0f} % of {} GEMM rate of {:.1f} GFLOP/s", 100 * fraction(s),
                               r.devices.empty() ? "this machine's" : "the devices'", s.gemm_gflops);
        if (s.gemm_gflops > 0 && s.gemm_sustained_gflops > 0)
            out += fmt::format(", {:.0f} % of its mean of {:.1f}", 100 * gflops(s) / s.gemm_sustained_gflops,
                               s.gemm_sustained_gflops);
        out += "\n";
        if (s.gemm_gflops <= 0 && !s.problem.empty() && r.devices.empty())
            out += fmt::format("            GEMM rate unknown: {}\n", bench::why_no_openblas(r.threads));
        if (s.floor)
            out += fmt::format("floor       {}: {:.2f} of the time\n", format_seconds(s.floor->seconds), of_floor(s));
        out += fmt::format("work        {} in {} tile products", format_flops(r.flops), format_count(r.products));
        if (r.made_tiles > 0) out += fmt::format(", {} tiles made on demand", format_count(r.made_tiles));
        out += "\n";
    }
    out += "density     ";
    for (std::size_t o = 0; o < s.densities.size(); ++o)
        out += fmt::format("{} {:.2f} %, ",
                           s.densities.size() > 2 ? fmt::format("{}:", o + 1) : std::string(o == 0 ? "A" : "B"),
                           100 * s.densities[o]);
    out += fmt::format("{} {:.2f} %\n", s.densities.size() > 2 ? "result" : "C", 100 * s.density_c);
    if (r.ranks > 1)
        out += std::isnan(r.overlap) || !r.devices.empty()
                   ? fmt::format("messages    {} sent\n", format_bytes(r.sent_bytes))
                   : fmt::format("messages    {} sent, {:.0f} % of the time they took was hidden behind work\n",
                                 format_bytes(r.sent_bytes), 100 * r.overlap);
    if (!r.devices.empty())
        out += fmt::format("transfers   {} to devices, {} back, {} from device to device; {} on a device at most\n",
                           format_bytes(r.loaded_bytes), format_bytes(r.stored_bytes), format_bytes(r.copied_bytes),
                           format_bytes(r.peak_device_bytes));
    if (!r.devices.empty() && !std::isnan(r.overlap))
        out += fmt::format(
            "overlap     {:.0f} % of the time with transfers under way the devices also worked; devices {}, transfers "
            "{}, cores making tiles {}\n",
            100 * r.overlap, format_seconds(r.device_seconds), format_seconds(r.transfer_seconds),
            format_seconds(r.make_seconds));
    out += fmt::format("memory      {} of tiles at most{} (A {}, B {}, C {})", format_bytes(r.peak_host_bytes),
                       r.ranks > 1 ? " on a rank" : "", format_bytes(r.bytes_a), format_bytes(r.bytes_b),
                       format_bytes(r.bytes_c));
    if (s.process_bytes > 0) out += fmt::format("; {} of the process", format_bytes(s.process_bytes));
    out += "\n";
    if (r.left_out > 0 || r.dropped_tiles > 0)
        out += fmt::format("filter      left out: norm of at most {:.3g}; {} result tiles dropped\n", r.left_out,
                           format_count(r.dropped_tiles));
    if (s.checked.tiles > 0)
        out += fmt::format(
            "check       {} sampled tiles ({} elements) against the slow sum: largest relative error {:.1e}\n",
            s.checked.tiles, format_count(s.checked.elements), s.checked.max_relative_error);
    out += fmt::format("checksum    {}\n", hex(s.checksum));
    return out;
}

}  // namespace tessera::app
