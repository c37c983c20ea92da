#pragma once
// A program of subcommands: what all of them take, and main() around them. Exit codes: 0 done, 2 wrong input, 3 the
// machine cannot, 4 a check failed, 70 our own bug.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <functional>
#include <initializer_list>
#include <string>

namespace tessera::app {

struct CommonOptions {
    int threads = 0;
    bool quiet = false, json = false;
};
/// Adds --threads, --quiet, --json.
void add_common(CLI::App& command, CommonOptions& options);

/// One JSON object on stdout.
void print_json(const nlohmann::json& object);

/// "tessera: what" on stderr, in one line; gives the exit code back.
int complain(const std::string& what, int exit_code);

/// The name that an option had before: taken for one more release, hidden, with a warning; not beside the new one.
void add_old_name(CLI::App& command, const std::string& old_name, CLI::Option* now);

/// What a subcommand does once all words are parsed.
using Action = std::function<void()>;
using AddCommand = Action (*)(CLI::App&);

/// Adds the subcommands, parses the words and does what they say, on all ranks; rank 0 prints. Returns the exit code.
int run_commands(CLI::App& app, std::initializer_list<AddCommand> commands, int argc, char** argv);

}  // namespace tessera::app
