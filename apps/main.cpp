// The command line: one subcommand a file. Exit codes: 0 done, 2 wrong input, 3 the machine cannot, 4 a check failed,
// 70 our own bug.

#include <fmt/format.h>

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

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
    execv("/proc/self/exe", argv);  // returns only where it failed; then the rate is the lower one
}

}  // namespace

int main(int argc, char** argv) {
    using namespace tessera;
    choose_blas_kernels(argv);
    // Freed memory stays with the process: getting gigabytes from the system anew for each tensor costs seconds.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 64 << 20);
    hdf5_without_exit_handler();
    CLI::App app("Tessera contracts block-sparse tensors.\n", "tessera");
    app.set_version_flag("--version", TESSERA_VERSION);
    app.require_subcommand(1);
    app.get_formatter()->column_width(28);
    app.footer("Example: tessera run alkane:8:v3:min --explain\nEvery subcommand has --help with an example.");

    std::vector<std::pair<CLI::App*, app::Action>> commands;
    for (auto* add : {app::add_info, app::add_contract, app::add_run, app::add_show, app::add_energy, app::add_bench}) {
        const auto action = add(app);
        commands.emplace_back(app.get_subcommands({}).back(), action);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        fmt::print(stderr, "tessera: {}\n", e.what());
        return 2;
    }
    try {
        for (const auto& [command, action] : commands)
            if (command->parsed()) action();
        return 0;
    } catch (const app::CheckFailed& e) {
        fmt::print(stderr, "tessera: {}\n", e.what());
        return 4;
    } catch (const Error& e) {
        fmt::print(stderr, "tessera: {}\n", e.what());
        return e.exit_code();
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "tessera: out of memory\n");
        return 3;
    } catch (const std::exception& e) {
        fmt::print(stderr, "tessera: internal: {}\n", e.what());
        return 70;
    }
}
