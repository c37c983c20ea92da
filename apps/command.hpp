#pragma once
// What the subcommands share: common options, a progress bar, output.

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "check_failed.hpp"
#include "program.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::app {

/// Where: --devices --memory --device-memory, and --machine where it is a matter of rates alone.
struct WhereOptions {
    std::string devices = "none", memory, device_memory, machine;
};
void add_devices(Command command, WhereOptions& where);
/// An empty text (a shell variable that was never set) is no budget, and refused.
void add_memory(Command command, WhereOptions& where, const std::string& help);
/// With devices and no --device-memory, --memory still is that of the devices, with a warning.
struct Budgets {
    std::int64_t host = 0, device = 0;
};
Budgets budgets_of(const WhereOptions& where, bool devices, const char* devices_option = "--devices");
Resources resources_of(const WhereOptions& where, const CommonOptions& common);

/// What this process had of memory at most, all of it.
std::int64_t process_peak_bytes();

/// How: --algorithm --blocks --deal --grid --block-share --chunk-share --block --depth --lookahead.
struct HowOptions {
    std::string algorithm = "auto", blocks = "auto", deal = "auto", grid;
    PlanParameters parameters;
};
void add_how(Command command, HowOptions& how);
PlanOptions plan_options_of(const HowOptions& how, int ranks, bool devices);

/// What `run` and `contract` share: --alpha --beta --filter --check --explain, where, and how.
struct ContractionOptions {
    double alpha = 1, beta = 0, filter = 0;
    bool explain = false;
    int check = 8;
    WhereOptions where;
    HowOptions how;
};
void add_contraction(Command command, ContractionOptions& options);
ContractOptions contract_options_of(const ContractionOptions& options);

/// An empty word is a variable of a script that is not set.
std::string check_word(const std::string& text);
/// For names of files to write: an empty one, of a variable that is not set, would mean that nothing is written.
std::string check_name(const std::string& text);
/// none, all, or numbers; checked against the devices that are here.
std::vector<int> parse_devices(const std::string& text);
/// "1,2" at commas; as many words as marks and one.
std::vector<std::string> split(const std::string& text, char mark);
/// "4x9", of this option
std::pair<int, int> parse_grid(const std::string& text, const char* option = "--grid");

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

std::string hex(std::uint64_t value);

Action add_info(Command app);
Action add_run(Command app);
Action add_contract(Command app);
Action add_show(Command app);
Action add_selftest(Command app);
Action add_plan(Command app);
Action add_simulate(Command app);
Action add_tune(Command app);
Action add_figures(Command app);
Action add_bench(Command app);
/// tessera-bench in the place of this program, with the words behind `bench`. Returns, with an exit code, only where
/// it cannot.
int start_bench(char** argv);
Action add_energy(Command app);
Action add_optimise(Command app);

}  // namespace tessera::app
