#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "command.hpp"

namespace tessera::app {

int start_bench(char** argv) {
    std::error_code none;
    const auto here = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
    // Beside this program in a build folder, in libexec/ where both are installed.
    for (const auto& program : {here / "tessera-bench", here.parent_path() / "libexec/tessera/tessera-bench"}) {
        if (!std::filesystem::exists(program, none)) continue;
        execv(program.c_str(), argv + 1);
        return complain(fmt::format("cannot start {}: {}", program.string(), std::strerror(errno)), 3);
    }
    return complain(fmt::format("no {}: the benchmarks are a program of their own, built by `make bench`",
                                (here / "tessera-bench").string()),
                    3);
}

Action add_bench(Command app) {
    app.add_subcommand("bench",
                       "the benchmark tables: contractions, dense, grouped, latency, rectangular, run, sign, sparse, "
                       "threads, transpose, "
                       "triples");
    return [] {};  // main starts them before anything else
}

}  // namespace tessera::app
