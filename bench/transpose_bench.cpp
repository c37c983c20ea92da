// The transpose benchmark as a program of its own, with the knobs that tuning needs.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench_transpose.hpp"
#include "commands.hpp"
#include "tessera/base/error.hpp"

int main(int argc, char** argv) {
    tessera::bench::BenchTransposeOptions options;
    std::string file;
    bool json = false, no_scatter = false, join = false;
    CLI::App app{"times tensor transposes against a copy and the scatter loop"};
    tessera::app::add_device(tessera::app::Command(&app), options.device, "CUDA device; without it the CPU");
    app.add_option("--volume", options.volumes, "elements (default 37e6 77e6 141e6)");
    app.add_option("--rank", options.ranks, "ranks (default 2..8 15)");
    app.add_option("--ratio", options.ratios, "largest over smallest extent (default 1 5 15)");
    app.add_option("--samples", options.samples, "random permutations per shape, with their inverses");
    app.add_flag("--reverse", options.reverse, "reverse permutations instead of random ones");
    app.add_option("--threads", options.threads, "CPU threads (0: all)");
    app.add_option("--repeats", options.repeats, "best of so many");
    app.add_option("--alpha", options.alpha, "CPU: scales the transposed tensor");
    app.add_option("--beta", options.beta, "CPU: scales what the output held, which is added");
    app.add_option("--seed", options.seed, "of extents' order and permutations");
    app.add_option("--commit", options.commit, "commit to record");
    app.add_option("--variant", options.variant, "device tile shape, for tuning");
    app.add_flag("--small-pages", options.small_pages, "CPU: ordinary pages for the buffers, no huge ones");
    app.add_flag("--no-scatter", no_scatter, "leave the scatter loop out");
    app.add_flag("--json", json, "all cases as JSON on stdout");
    app.add_option("--output", file, "write the JSON there as well");
    app.add_flag("--join", join,
                 "add to the results that are there already, made by the same build with the same settings");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    options.scatter = !no_scatter;
    try {
        if (join && file.empty()) throw tessera::UserError("--join: needs --output, the results to add to");
        if (std::filesystem::is_directory(file)) throw tessera::UserError("--output: " + file + " is a folder");
        nlohmann::json out, old;
        if (join && std::filesystem::exists(file)) {
            old = nlohmann::json::parse(std::ifstream(file), nullptr, false);
            if (!old.is_object() || !old.contains("cases"))
                throw tessera::UserError("--join: " + file + " holds no results of this program");
        }
        if (!file.empty()) {
            const auto folder = std::filesystem::absolute(file).parent_path();
            if (access(folder.c_str(), W_OK) != 0)
                throw tessera::UserError("--output: nothing can be written in " + folder.string());
        }
        const int code = tessera::bench::bench_transpose(options, out);
        if (!old.is_null()) out = tessera::bench::join_transpose(old, out);
        if (!file.empty() && !(std::ofstream(file) << out.dump(1) << "\n" << std::flush))
            throw tessera::MachineError("--output: " + file + " cannot be written");
        if (json) std::cout << out.dump(1) << "\n";
        if (!json) std::cout << out["summary"].dump(1) << "\n";
        return code;
    } catch (const tessera::Error& e) {
        std::cerr << "transpose_bench: " << e.what() << "\n";
        return e.exit_code();
    }
}
