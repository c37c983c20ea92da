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

std::atomic<int> working{0};        // threads in teams
thread_local bool in_team = false;  // this one is

/// OpenMP's threads do not survive fork(): waiting for them, a child would never end.
std::atomic<bool> forked{false};

}  // namespace

int ranks_on_node() {
    static const int ranks = [] {
        for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"})
            if (const char* text = std::getenv(variable)) return std::max(1, std::atoi(text));
        return 1;
    }();
    return ranks;
}

int resolve_threads(int threads) {
    require(threads >= 0 && threads <= kMostThreads, "threads: {} is outside 0..{} (0: all cores)", threads,
            kMostThreads);
    static const int own = own_cores();
    [[maybe_unused]] static const int watched = ::pthread_atfork(nullptr, nullptr, [] { forked = true; });
    if (forked) return 1;
    return threads > 0 ? threads : own;
}

Team::Team(int wanted) {
    if (in_team) return;
    const int cores = std::max(resolve_threads(0), wanted);
    int others = working.load(std::memory_order_relaxed);
    do size_ = std::clamp(cores - others, 1, wanted);
    while (!working.compare_exchange_weak(others, others + size_, std::memory_order_relaxed));
    taken_ = size_;
}
Team::~Team() { working.fetch_sub(taken_, std::memory_order_relaxed); }

Team::Member::Member() { in_team = true; }
Team::Member::~Member() { in_team = false; }

}  // namespace tessera
