// The command line: one subcommand a file. Exit codes: 0 done, 2 wrong input, 3 the machine cannot, 4 a check failed,
// 70 our own bug.

#include <fmt/format.h>

#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "command.hpp"
#include "probe/rates.hpp"
#include "tessera/base/error.hpp"
#include "tessera/io/hdf5.hpp"

namespace {

/// The GEMM rate that results are held against must be the one this processor can reach: start over with the right
/// kernels of OpenBLAS where it chose wrongly. They cannot be changed once it is loaded.
void choose_blas_kernels(char** argv) {
    const char* core = tessera::better_blas_core();
    if (!core || setenv("OPENBLAS_CORETYPE", core, 0) != 0 || std::strcmp(std::getenv("OPENBLAS_CORETYPE"), core) != 0)
        return;
    if (std::getenv("TESSERA_RESTARTED")) return;
    setenv("TESSERA_RESTARTED", "1", 1);
    std::error_code none;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", none);  // by its name, for ps and top
    execv(program.c_str(), argv);  // returns only where it failed; then the rate is the lower one
}

int complain(const std::string& what, int exit_code) {
    fmt::print(stderr, "tessera: {}\n", tessera::one_line(what));
    return exit_code;
}

/// mpirun can start each rank with arguments of its own.
void require_same_arguments(tessera::Communicator& ranks, int argc, char** argv) {
    std::vector<std::pair<std::string, std::string>> all;
    for (int i = 1; i < argc; ++i) all.emplace_back(fmt::format("argument {}", i), argv[i]);
    tessera::require_same_on_all(ranks, all);
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

int main(int argc, char** argv) {
    using namespace tessera;
    try {
        choose_blas_kernels(argv);
    } catch (const UserError& e) {  // TESSERA_ISA
        return complain(e.what(), e.exit_code());
    }
    // What the heap frees stays with the process, as the memory of tiles does: plans of millions of products are made
    // and dropped again and again.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 64 << 20);
    mallopt(M_ARENA_MAX, 1);
    hdf5_without_exit_handler();
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows past the limit of the shell: an error that names it, no signal
    CLI::App app("Tessera contracts block-sparse tensors.\n", "tessera");
    app.set_version_flag("--version", TESSERA_VERSION);
    app.require_subcommand(1);
    app.option_defaults()->disable_flag_override();  // --quiet=3 is refused
    app.get_formatter()->column_width(28);
    app.footer("Example: tessera run alkane:8:v3:min --explain\nEvery subcommand has --help with an example.");

    std::vector<std::pair<CLI::App*, app::Action>> commands;
    for (auto* add : {app::add_info, app::add_contract, app::add_run, app::add_plan, app::add_simulate, app::add_energy,
                      app::add_show, app::add_bench}) {
        const auto action = add(app);
        commands.emplace_back(app.get_subcommands({}).back(), action);
    }
    Communicator* ranks = nullptr;
    try {
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
    } catch (const Error& e) {  // started on many ranks, but there is no MPI in this build
        return complain(e.what(), e.exit_code());
    }
    return run_ranks_or_abort(*ranks, [&] {
        for (const auto& [command, action] : commands)
            if (command->parsed()) try {
                    action();
                } catch (const std::system_error& e) {  // printing failed, or the system refuses a thread
                    throw MachineError(e.what());
                }
        if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw MachineError("stdout cannot be written");
    });
}
