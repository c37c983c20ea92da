#include "command.hpp"

namespace tessera::app {

Action add_bench(CLI::App& app) {
    auto* command = app.add_subcommand("bench", "the benchmark tables");
    command->require_subcommand(1);
    return [] {};
}

}  // namespace tessera::app
