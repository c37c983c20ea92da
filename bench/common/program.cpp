#include "program.hpp"

#include <fmt/format.h>

#include <malloc.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "openblas_library.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::app {

namespace {

/// OpenMP ends the program where a thread cannot have its stack.
void require_room_for_threads(int threads) {
    rlimit space{}, stack{};
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return;
    const bool known = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY;
    const std::uint64_t each = known ? stack.rlim_cur : std::uint64_t{8} << 20;
    const std::uint64_t needed = bench::address_space_used() + (static_cast<std::uint64_t>(threads) - 1) * each;
    if (space.rlim_cur >= needed) return;
    throw MachineError(fmt::format(
        "the limit of {} MiB on the address space (ulimit -v) is too small for {} threads: they need {} MiB",
        space.rlim_cur >> 20, threads, (needed >> 20) + 1));
}

}  // namespace

void add_common(CLI::App& command, CommonOptions& options) {
    command.parse_complete_callback([&options] { require_room_for_threads(resolve_threads(options.threads)); });
    command.add_option("--threads", options.threads, "threads to use (default: all cores)")->check(CLI::Range(1, 4096));
    command.add_flag("--quiet", options.quiet, "no progress, no messages but warnings");
    command.add_flag("--json", options.json, "one JSON object on stdout, nothing else there");
}

void print_json(const nlohmann::json& object) {
    std::fputs((object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str(), stdout);
    if (std::fflush(stdout) != 0) throw MachineError("stdout cannot be written");
}

void add_old_name(CLI::App& command, const std::string& old_name, CLI::Option* now) {
    const auto take = [old_name, now](const std::string& text) {
        const auto name = now->get_name();
        if (now->count() > 0) throw CLI::ValidationError(old_name, "the old name of " + name + ", which is given too");
        if (mpi_world().rank() == 0)
            fmt::print(stderr, "tessera: warning: {} is called {} now; the old name goes with the next release\n",
                       old_name, name);
        now->add_result(text);
        now->run_callback();  // it was passed over: it had no value then
    };
    command.add_option_function<std::string>(old_name, take)->group("");
}

int complain(const std::string& what, int exit_code) {
    fmt::print(stderr, "tessera: {}\n", one_line(what));
    return exit_code;
}

namespace {

/// mpirun can start each rank with arguments of its own.
void require_same_arguments(Communicator& ranks, int argc, char** argv) {
    std::vector<std::pair<std::string, std::string>> all;
    for (int i = 1; i < argc; ++i) all.emplace_back(fmt::format("argument {}", i), argv[i]);
    require_same_on_all(ranks, all);
}

/// "unknown subcommand 'fly'...", where the words given name none; else nothing.
std::string unknown_subcommand(CLI::App& app) {
    CLI::App* at = &app;
    while (!at->get_subcommands().empty()) at = at->get_subcommands()[0];
    const auto words = at->remaining();
    if (at->get_require_subcommand_min() == 0 || words.empty() || words[0].starts_with('-')) return {};
    std::string known;
    for (const CLI::App* command : at->get_subcommands({})) known += (known.empty() ? "" : ", ") + command->get_name();
    return fmt::format("unknown subcommand '{}' of {}: there are {}", words[0], at->get_name(), known);
}

}  // namespace

int run_commands(CLI::App& app, std::initializer_list<AddCommand> commands, int argc, char** argv) {
    // What the heap frees stays with the process, as the memory of tiles does: plans of millions of products are made
    // and dropped again and again.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 64 << 20);
    mallopt(M_ARENA_MAX, 1);
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows past the limit of the shell: an error that names it, no signal
    app.require_subcommand(1);
    app.option_defaults()->disable_flag_override();  // --quiet=3 is refused
    app.get_formatter()->column_width(28);
    std::vector<std::pair<CLI::App*, Action>> actions;
    Communicator* ranks = nullptr;
    try {
        for (const AddCommand add : commands) {
            const auto action = add(app);
            actions.emplace_back(app.get_subcommands({}).back(), action);
        }
        ranks = &mpi_world();
        require_same_arguments(*ranks, argc, argv);
        // Rank 0 prints; what the others would say is the same.
        if (ranks->rank() != 0 && !std::freopen("/dev/null", "w", stdout)) return 3;
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) {
            if (ranks->rank() != 0) return 0;
            app.exit(e);
            std::cout.flush();
            return std::cout && std::fflush(stdout) == 0 ? 0 : complain("stdout cannot be written", 3);
        }
        const std::string word = unknown_subcommand(app);
        return ranks->rank() == 0 ? complain(word.empty() ? e.what() : word, 2) : 2;
    } catch (const UserError& e) {  // the same on all ranks
        return ranks && ranks->rank() != 0 ? e.exit_code() : complain(e.what(), e.exit_code());
    } catch (const Error& e) {  // a limit, or many ranks without MPI in this build
        return complain(e.what(), e.exit_code());
    } catch (const std::bad_alloc&) {
        return complain("the machine has no memory left", 3);
    }
    return run_ranks_or_abort(*ranks, [&] {
        for (const auto& [command, action] : actions)
            if (command->parsed()) try {
                    action();
                } catch (const std::system_error& e) {  // printing failed, or the system refuses a thread
                    throw MachineError(e.what());
                }
        if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw MachineError("stdout cannot be written");
    });
}

}  // namespace tessera::app
