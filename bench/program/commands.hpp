#pragma once
// The subcommands of `tessera bench`, one a table.

#include "program.hpp"

namespace tessera::app {

/// Adds --devices, which takes one number, or none (-1).
void add_device(CLI::App& command, int& device, const std::string& help);

Action add_contractions(CLI::App& app);
Action add_dense(CLI::App& app);
Action add_grouped(CLI::App& app);
Action add_latency(CLI::App& app);
Action add_rectangular(CLI::App& app);
Action add_run(CLI::App& app);
Action add_sign(CLI::App& app);
Action add_sparse(CLI::App& app);
Action add_threads(CLI::App& app);
Action add_transpose(CLI::App& app);
Action add_triples(CLI::App& app);

}  // namespace tessera::app
