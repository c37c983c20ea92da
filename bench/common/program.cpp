#include "program.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "base/units.hpp"
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

void add_common(Command command, CommonOptions& options) {
    command.when_parsed([&options] { require_room_for_threads(resolve_threads(options.threads)); });
    command.add_option("--threads", options.threads, "threads to use (default: all cores)").check(between(1, 4096));
    command.add_flag("--quiet", options.quiet, "no progress, no messages but warnings");
    command.add_flag("--json", options.json, "one JSON object on stdout, nothing else there");
}

void print_json(const nlohmann::json& object) {
    std::fputs((object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str(), stdout);
    if (std::fflush(stdout) != 0) throw MachineError("stdout cannot be written");
}

int complain(const std::string& what, int exit_code) {
    fmt::print(stderr, "tessera: {}\n", one_line(what));
    return exit_code;
}

}  // namespace tessera::app
