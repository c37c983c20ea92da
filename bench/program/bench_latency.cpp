#include "bench_latency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "commit.hpp"
#include "probe/rates.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::bench {

namespace {

using Json = nlohmann::json;

struct Case {
    std::string name, spec;
    Shape a, b;
};

/// Indices of some sectors each, tiles where the sectors of the first two add up to that of the last two: what a
/// conserved quantity leaves of a tensor.
Shape conserved(int sectors, std::int64_t extent) {
    const Tiling index = Tiling::uniform(sectors * extent, extent);
    std::vector<IndexVector> tiles;
    for (int i = 0; i < sectors; ++i)
        for (int j = 0; j < sectors; ++j)
            for (int k = 0; k < sectors; ++k)
                if (const int l = i + j - k; l >= 0 && l < sectors) tiles.push_back({i, j, k, l});
    return Shape::from_coordinates(TileGrid{index, index, index, index}, tiles);
}

std::vector<Case> cases() {
    const Shape two = conserved(5, 2), four = conserved(5, 4);
    const Shape one = Shape::dense(TileGrid{Tiling{16}, Tiling{16}});
    return {{"85 tiles, extents of 2", "ijkl,klmn->ijmn", two, two},
            {"85 tiles, extents of 4", "ijkl,klmn->ijmn", four, four},
            {"one product, 16x16", "ik,kj->ij", one, one}};
}

/// Median of single calls, after a few that warm up.
template <class Call>
double microseconds(int repeats, Call&& call) {
    std::vector<double> all;
    for (int r = -std::min(repeats, 100); r < repeats; ++r) {
        const double start = now_seconds();
        call();
        if (r >= 0) all.push_back(now_seconds() - start);
    }
    std::nth_element(all.begin(), all.begin() + repeats / 2, all.end());
    return 1e6 * all[static_cast<std::size_t>(repeats / 2)];
}

Json bench_case(const Case& c, const LatencyOptions& o) {
    const auto a = Tensor<double>::random(c.a, 1), b = Tensor<double>::random(c.b, 2);
    const Resources here{.threads = o.threads};
    const auto planned = plan(c.spec, a, b, here);
    Json out = {{"name", c.name},
                {"spec", c.spec},
                {"tiles", c.a.tile_count()},
                {"products", planned.counts().products},
                {"flops", planned.counts().flops},
                {"threads_used", execute(planned, a, b).report.threads}};
    int seen = 0;  // each call has a factor of its own, so none has been planned before
    std::vector<double> planning;
    out["first_sight"] = microseconds(o.repeats, [&] {
        planning.push_back(contract(c.spec, a, b, here, {.alpha = 1 + ++seen * 0x1p-30}).report.plan_seconds);
    });
    std::nth_element(planning.begin(), planning.begin() + planning.size() / 2, planning.end());
    out["planning"] = 1e6 * planning[planning.size() / 2];
    out["cached"] = microseconds(o.repeats, [&] { contract(c.spec, a, b, here); });
    out["kept"] = microseconds(o.repeats, [&] { execute(planned, a, b); });
    Tensor<double> result(planned.plan().c);
    const auto into = plan_into(c.spec, a, b, result, here);
    out["kept_into"] = microseconds(o.repeats, [&] { execute_into(into, a, b, result); });
    return out;
}

Json bench_resident(const Case& c, const LatencyOptions& o) {
    const auto a = Tensor<double>::random(c.a, 1), b = Tensor<double>::random(c.b, 2);
    const auto x = to_devices(a, {o.device}), y = to_devices(b, {o.device});
    const Resources here{.threads = o.threads, .devices = {o.device}};
    const auto planned = plan(c.spec, x, y, here);
    Json out = {{"name", c.name},
                {"spec", c.spec},
                {"tiles", c.a.tile_count()},
                {"products", planned.counts().products},
                {"flops", planned.counts().flops}};
    out["right"] = execute(planned, x, y).tensor == contract(c.spec, a, b).tensor;
    out["kept"] = microseconds(o.repeats, [&] {
        execute(planned, x, y);
        synchronize(o.device);
    });
    const int many = 10 * o.repeats;
    std::optional<Tensor<double>> last;
    const auto memory = device_memory_in_use(o.device);
    const double start = now_seconds();
    for (int r = 0; r < many; ++r) last = execute(planned, x, y).tensor;
    synchronize(o.device);
    out["back_to_back"] = 1e6 * (now_seconds() - start) / many;
    out["calls"] = many;
    out["grown_bytes"] = device_memory_in_use(o.device) - memory;
    out["last_right"] = *last == contract(c.spec, a, b).tensor;
    return out;
}

}  // namespace

Json bench_latency(const LatencyOptions& o) {
    require(o.repeats >= 1, "repeats is {}, must be at least 1", o.repeats);
    Json result = {{"bench", "latency"},
                   {"commit", build_commit()},
                   {"machine", cpu_name()},
                   {"isa", name(detected_isa())},
                   {"threads", resolve_threads(o.threads)},
                   {"repeats", o.repeats},
                   {"cases", Json::array()}};
    if (o.device >= 0) result["device"] = o.device;
    for (const Case& c : cases()) result["cases"].push_back(o.device >= 0 ? bench_resident(c, o) : bench_case(c, o));
    return result;
}

void print_bench_latency(const Json& result) {
    if (result.contains("device")) {
        fmt::print(
            "microseconds, tensors on device {}: median of {} calls, mean of ten times as many back to back\n"
            "{:<24} {:>8} {:>8} {:>13}  right\n",
            result["device"].get<int>(), result["repeats"].get<int>(), "case", "products", "waited", "back to back");
        for (const Json& c : result["cases"])
            fmt::print("{:<24} {:>8} {:>8.1f} {:>13.1f}  {}\n", c["name"].get<std::string>(),
                       c["products"].get<std::int64_t>(), c["kept"].get<double>(), c["back_to_back"].get<double>(),
                       c["right"].get<bool>() && c["last_right"].get<bool>());
        return;
    }
    fmt::print("microseconds, median of {} calls, {} threads of {}\n{:<24} {:>8} {:>11} {:>9} {:>7} {:>6} {:>10}\n",
               result["repeats"].get<int>(), result["threads"].get<int>(), result["machine"].get<std::string>(), "case",
               "products", "first sight", "planning", "cached", "kept", "kept, into");
    for (const Json& c : result["cases"])
        fmt::print("{:<24} {:>8} {:>11.1f} {:>9.1f} {:>7.1f} {:>6.1f} {:>10.1f}\n", c["name"].get<std::string>(),
                   c["products"].get<std::int64_t>(), c["first_sight"].get<double>(), c["planning"].get<double>(),
                   c["cached"].get<double>(), c["kept"].get<double>(), c["kept_into"].get<double>());
}

}  // namespace tessera::bench
