#pragma once
// The subcommands of `tessera bench`, one a table.

#include "program.hpp"

namespace tessera::app {

/// Adds --devices, which takes one number, or none (-1).
void add_device(Command command, int& device, const std::string& help);

Action add_contractions(Command app);
Action add_dense(Command app);
Action add_grouped(Command app);
Action add_latency(Command app);
Action add_rectangular(Command app);
Action add_run(Command app);
Action add_sign(Command app);
Action add_sparse(Command app);
Action add_threads(Command app);
Action add_transpose(Command app);
Action add_triples(Command app);

}  // namespace tessera::app
