#pragma once
// A program of subcommands: what all of them take. Exit codes: 0 done, 2 wrong input, 3 the
// machine cannot, 4 a check failed, 70 our own bug.

#include <nlohmann/json.hpp>

#include <string>

#include "command_line.hpp"

namespace tessera::app {

struct CommonOptions {
    int threads = 0;
    bool quiet = false, json = false;
};
/// Adds --threads, --quiet, --json.
void add_common(Command command, CommonOptions& options);

/// One JSON object on stdout.
void print_json(const nlohmann::json& object);

/// "tessera: what" on stderr, in one line; gives the exit code back.
int complain(const std::string& what, int exit_code);

}  // namespace tessera::app
