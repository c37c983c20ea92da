#pragma once
// What the subcommands share: common options, a progress bar, output.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "check_failed.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::app {

struct CommonOptions {
    int threads = 0;
    bool quiet = false, json = false;
};
/// Adds --threads, --quiet, --json.
void add_common(CLI::App& command, CommonOptions& options);

struct ContractionOptions {
    double alpha = 1, beta = 0, filter = 0;
    std::string devices = "none", memory, algorithm = "auto", blocks = "auto", grid;
    bool explain = false;
    int check = 8;
    PlanParameters parameters;
};
/// Adds --alpha --beta --filter --devices --memory --algorithm --blocks --grid --explain --check and the parameters.
void add_contraction(CLI::App& command, ContractionOptions& options);
/// Adds --block-share --chunk-share --block --depth --lookahead.
void add_parameters(CLI::App& command, PlanParameters& parameters);
/// For names of files to write: an empty one, of a variable that is not set, would mean that nothing is written.
std::string check_name(const std::string& text);
/// Adds --memory. An empty text (a shell variable that was never set) is no budget, and refused.
void add_memory(CLI::App& command, std::string& memory, const std::string& help);
/// none, all, or numbers; checked against the devices that are here.
std::vector<int> parse_devices(const std::string& text);
/// "4x9", of this option
std::pair<int, int> parse_grid(const std::string& text, const char* option = "--grid");
/// Checks them, and makes the library's options of them.
ContractOptions library_options(const ContractionOptions& options, const CommonOptions& common);

/// A bar on stderr while it lives, on a terminal only.
class ProgressBar {
  public:
    ProgressBar(const std::string& what, bool wanted);
    ~ProgressBar();
    void show(double done, double total);

  private:
    std::string what_;
    bool on_ = false;
    double start_ = 0, last_ = 0;
};

/// One JSON object on stdout.
void print_json(const nlohmann::json& object);
std::string hex(std::uint64_t value);

using Action = std::function<void()>;
Action add_info(CLI::App& app);
Action add_run(CLI::App& app);
Action add_contract(CLI::App& app);
Action add_show(CLI::App& app);
Action add_plan(CLI::App& app);
Action add_simulate(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_energy(CLI::App& app);

}  // namespace tessera::app
