#include "tessera/comm/world.hpp"

#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/check.hpp"
#include "base/units.hpp"
#include "comm/outcome.hpp"

namespace tessera {

namespace {

/// The number in an environment variable; 1 where it holds something else, 0 where it is not set.
int ranks_in(const char* variable) {
    const char* text = std::getenv(variable);
    if (!text) return 0;
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    return end != text && *end == '\0' && n >= 1 && n <= INT32_MAX ? static_cast<int>(n) : 1;
}

}  // namespace

int ranks_of_environment() {
    // Open MPI; MPICH, Intel MPI and Slurm's PMI-2; MVAPICH; Cray's launcher; PMIx (Slurm with --mpi=pmix, prun).
    // Slurm's own variables say nothing: they stand in batch scripts and plain shells of an allocation too.
    for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_SIZE"})
        if (const int n = ranks_in(size)) return n;
    for (const char* rank : {"PMIX_RANK", "PMI_RANK", "PALS_RANKID"})
        if (std::getenv(rank)) {
            const int n = ranks_in("SLURM_STEP_NUM_TASKS");
            return n > 0 ? n : 1;
        }
    return 0;
}

int run_ranks_or_abort(Communicator& ranks, const std::function<void()>& work) {
    const auto [code, message] = outcome_of(work);
    if (code == 0) return 0;
    const bool many = ranks.size() > 1;
    // Where all ranks fail alike, one message is enough: rank 0 ends the others while they wait here.
    if (many && ranks.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::fflush(stdout);
    fmt::print(stderr, "tessera: {}{}\n", many ? fmt::format("rank {}: ", ranks.rank()) : "", one_line(message));
    std::fflush(stderr);
    if (many) {
        // Until the launcher has passed the message on: MPICH's drops what it has not read when a rank aborts.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ranks.abort(code);
    }
    return code;
}

}  // namespace tessera
