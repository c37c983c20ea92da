#include "base/parallel.hpp"

#include <omp.h>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/check.hpp"

namespace tessera {

namespace {

/// As many as OMP_NUM_THREADS says; without it the cores this process is bound to, or its share of the node's where
/// several ranks are bound to the same ones.
int own_cores() {
    if (const char* text = std::getenv("OMP_NUM_THREADS"))
        if (const int wanted = std::atoi(text); wanted > 0) return std::min(wanted, kMostThreads);
    const int share = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)) / ranks_on_node();
    return std::max(1, std::min(omp_get_num_procs(), std::max(1, share)));
}

/// OpenMP's threads do not survive fork(): waiting for them, a child would never end.
std::atomic<bool> forked{false};

}  // namespace

int ranks_on_node() {
    for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"})
        if (const char* text = std::getenv(variable)) return std::max(1, std::atoi(text));
    return 1;
}

int resolve_threads(int threads) {
    require(threads >= 0 && threads <= kMostThreads, "threads: {} is outside 0..{} (0: all cores)", threads,
            kMostThreads);
    static const int own = own_cores();
    [[maybe_unused]] static const int watched = ::pthread_atfork(nullptr, nullptr, [] { forked = true; });
    if (forked) return 1;
    return threads > 0 ? threads : own;
}

}  // namespace tessera
