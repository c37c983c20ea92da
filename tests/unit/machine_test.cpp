// Machine files: what is read is what is written; what is wrong is named; every shipped figure has its source.

#include "tessera/machine/machine_file.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>

#include "tessera/base/error.hpp"

namespace tessera {
namespace {

TEST(Machine, ReadsBackWhatItWrites) {
    for (const auto& name : known_machines()) {
        const auto file = read_machine(name);
        EXPECT_EQ(file.machine.name, name);
        const auto again = parse_machine(to_json(file), "memory");
        EXPECT_TRUE(again.machine == file.machine) << name;
        EXPECT_EQ(again.sources, file.sources);
        EXPECT_EQ(again.about, file.about);
    }
    MachineModel m;
    m.network = {1.0 / 3, 1e-300};
    EXPECT_TRUE(parse_machine(to_json(m), "memory").machine == m);
}

TEST(Machine, TheShippedOnesAreThereAndSayWhereTheirFiguresComeFrom) {
    const auto names = known_machines();
    for (const char* name : {"summit", "h200x8", "frontier", "pizdaint", "laptop"}) {
        ASSERT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
        const auto file = read_machine(name);
        int figures = 0;
        const std::function<void(const nlohmann::json&, const std::string&)> visit = [&](const nlohmann::json& j,
                                                                                         const std::string& at) {
            for (const auto& [key, value] : j.items()) {
                if (at.empty() && key == "sources") continue;
                const auto field = at.empty() ? key : at + "." + key;
                if (value.is_object()) visit(value, field);
                if (!value.is_number() || value.get<double>() == 0) continue;
                if (field == "devices_per_gpu" && value == 1) continue;  // nothing is shared
                ++figures;
                EXPECT_TRUE(file.sources.contains(field)) << name << ": " << field << " has no source";
            }
        };
        visit(nlohmann::json::parse(to_json(file)), "");
        EXPECT_GT(figures, 7) << name;
    }
    const auto summit = read_machine("summit").machine;
    EXPECT_EQ(summit.threads_per_rank, 21);
    EXPECT_EQ(summit.devices_per_rank, 3);
    int fitted = 0;
    for (const auto& [field, source] : read_machine("summit").sources) fitted += source.starts_with("fitted");
    EXPECT_LE(fitted, 2);
}

TEST(Machine, WhatIsWrongIsNamed) {
    const auto message = [](const std::string& json) -> std::string {
        try {
            parse_machine(json, "x.json");
        } catch (const UserError& e) {
            return e.what();
        }
        return "";
    };
    const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
        {R"({"name": "x", "speed": 3})", "speed", "3"},
        {R"({"name": "x", "network": {"rate": 3}})", "network.rate", "3"},
        {R"({"name": "x", "network": 3})", "network", "3"},
        {R"({"name": "x", "ranks_per_node": "two"})", "ranks_per_node", "two"},
        {R"({"name": "x", "ranks_per_node": 0})", "ranks_per_node", "0"},
        {R"({"name": "x", "ranks_per_node": 1.5})", "ranks_per_node", "1.5"},
        {R"({"name": "x", "ranks_per_node": 1e30})", "ranks_per_node", "1e+30"},
        {R"({"name": "x", "network": {"latency": -1e-6}})", "network.latency", "-1e-06"},
        {R"({"name": "x", "device": {"gemm": {"half_size": null}}})", "device.gemm.half_size", "null"},
        {R"({"name": "x", "devices_per_rank": 2})", "device.memory", "0"},
        {R"({"name": "x", "sources": {"speed": "me"}})", "speed", "sources"},
        {R"({"name": "x", "sources": {"near_devices": 3}})", "near_devices", "3"},
        {R"({"name": "x", "sources": 3})", "sources", "3"},
        {R"({"name": 7})", "name", "7"},
        {R"({"name": "a\u0007b"})", "name", "one line"},
        {R"({"name": ")" + std::string(65, 'x') + R"("})", "name", "64"},
        {R"({"name": "x", "network": {"bytes_per_second": 1e-300}})", "network.bytes_per_second", "1e-300"},
        {R"({"name": "x", "network": {"latency": 1e300}})", "network.latency", "1e+300"},
        {R"({"name": "x", "about": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}", "nested", "8"},
        {R"({"threads_per_rank": 2})", "name", "missing"},
        {R"([1, 2])", "x.json", "[1,2]"},
        {R"({"name": )", "x.json", "JSON"},
        {"", "x.json", "JSON"},
        {R"({"name": "x", "host_memory": 1e400})", "x.json", ""},
    };
    for (const auto& [json, field, value] : cases) {
        const auto text = message(json);
        EXPECT_NE(text, "") << json;
        EXPECT_NE(text.find(field), std::string::npos) << text;
        EXPECT_NE(text.find(value), std::string::npos) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
}

TEST(Machine, NamesAndPaths) {
    EXPECT_THROW(read_machine("no such machine"), UserError);
    EXPECT_THROW(read_machine("/no/such/file.json"), UserError);
    EXPECT_THROW(read_machine("../summit"), UserError);
    EXPECT_THROW(read_machine("/"), UserError);
    try {
        read_machine("sumit");
        FAIL();
    } catch (const UserError& e) {
        EXPECT_NE(std::string(e.what()).find("summit"), std::string::npos) << e.what();
    }
    const std::string path = testing::TempDir() + "own.json";
    std::ofstream(path) << R"({"name": "own", "threads_per_rank": 3, "network": {"bytes_per_second": 1e9}})";
    EXPECT_EQ(read_machine(path).machine.threads_per_rank, 3);
    EXPECT_EQ(read_machine(path).machine.network.bytes_per_second, 1e9);
}

}  // namespace
}  // namespace tessera
