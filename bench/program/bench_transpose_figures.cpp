// What is said of many timed transposes together, and how results of several runs become one.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "bench_transpose.hpp"

namespace tessera::bench {

namespace {

struct Mean {
    double log_sum = 0, least = 1e30;
    int count = 0;
    void add(double x) {
        log_sum += std::log(x);
        least = std::min(least, x);
        ++count;
    }
    double geomean() const { return count ? std::exp(log_sum / count) : 0; }
};

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// What is said of a group of cases.
struct Figures {
    Mean of_copy, over_scatter, over_numpy, copy_gbps;
    std::vector<double> plan, cached_plan;  // microseconds
    void add(const nlohmann::json& c) {
        of_copy.add(c["of_copy"].get<double>());
        copy_gbps.add(c["copy_gbps"].get<double>());
        if (c.contains("over_scatter")) over_scatter.add(c["over_scatter"].get<double>());
        if (c.contains("over_numpy")) over_numpy.add(c["over_numpy"].get<double>());
        if (c.contains("plan_microseconds")) {
            plan.push_back(c["plan_microseconds"].get<double>());
            cached_plan.push_back(c["cached_plan_microseconds"].get<double>());
        }
    }
    nlohmann::json to_json() const {
        nlohmann::json j = {{"cases", of_copy.count},
                            {"geomean_of_copy", of_copy.geomean()},
                            {"worst_of_copy", of_copy.least},
                            {"geomean_copy_gbps", copy_gbps.geomean()}};
        if (over_scatter.count) j["geomean_over_scatter"] = over_scatter.geomean();
        if (over_numpy.count) j["geomean_over_numpy"] = over_numpy.geomean();
        if (!plan.empty()) {
            j["median_plan_microseconds"] = median(plan);
            j["worst_plan_microseconds"] = *std::max_element(plan.begin(), plan.end());
            j["median_cached_plan_microseconds"] = median(cached_plan);
        }
        return j;
    }
};

}  // namespace

void summarise(nlohmann::json& report) {
    const auto& cases = report["cases"];
    Figures all;
    std::map<int, Figures> by_rank;
    std::map<double, Figures> by_volume;
    for (const auto& c : cases) {
        all.add(c);
        by_rank[c["rank"].get<int>()].add(c);
        by_volume[c["volume"].get<double>()].add(c);
    }
    nlohmann::json out = all.to_json();
    for (const auto& [rank, figures] : by_rank) {
        out["by_rank"].push_back(figures.to_json());
        out["by_rank"].back()["rank"] = rank;
    }
    for (const auto& [volume, figures] : by_volume) {
        out["by_volume"].push_back(figures.to_json());
        out["by_volume"].back()["volume"] = volume;
    }
    out["total"] = all.of_copy.count;
    out.erase("cases");
    for (const auto& [key, value] : out.items()) report[key] = value;
    report["summary"] = std::move(out);
}

nlohmann::json join_transpose(nlohmann::json earlier, const nlohmann::json& more) {
    for (const auto& [key, value] : more.items())
        if (key != "cases" && key != "summary" && !more.at("summary").contains(key))
            require(earlier.contains(key) && earlier[key] == value,
                    "bench transpose: the earlier results have {} for {}, these have {}",
                    earlier.contains(key) ? earlier[key].dump() : "nothing", key, value.dump());
    // A shape counts once. (Its permutations may be the same ones again: rank 2 has but one.)
    const auto shape_of = [](const nlohmann::json& c) {
        return nlohmann::json{c.at("volume"), c.at("rank"), c.at("ratio")};
    };
    for (const auto& c : more.at("cases"))
        for (const auto& e : earlier.at("cases"))
            require(shape_of(c) != shape_of(e),
                    "bench transpose: the earlier results have volume {}, rank {}, ratio {} already",
                    c["volume"].get<double>(), c["rank"].get<int>(), c["ratio"].get<int>());
    for (const auto& c : more.at("cases")) earlier["cases"].push_back(c);
    summarise(earlier);
    return earlier;
}

}  // namespace tessera::bench
