#pragma once
// Parallel loops over OpenMP threads that carry exceptions out, and the thread count of a call.

#include <atomic>
#include <cstdint>
#include <exception>

namespace tessera {

/// Ranks on this node, as Open MPI, MPICH (Intel MPI, MVAPICH) or Slurm tell each of them; 1 without ranks.
int ranks_on_node();

inline constexpr int kMostThreads = 4096;
/// 0 means all cores this process may use; ranks on one node share them. UserError outside 0..kMostThreads.
int resolve_threads(int threads);

/// Calls body(i) for i in [0, n), dynamically scheduled in chunks; the first exception stops the loop and is rethrown.
template <class Body>
void parallel_for(std::int64_t n, int threads, std::int64_t chunk, Body&& body) {
    const int team = n <= chunk ? 1 : resolve_threads(threads);
    if (team == 1) {
        for (std::int64_t i = 0; i < n; ++i) body(i);
        return;
    }
    std::atomic<bool> failed{false};
    std::exception_ptr first;
#pragma omp parallel for num_threads(team) schedule(dynamic, chunk)
    for (std::int64_t i = 0; i < n; ++i) {
        if (failed.load(std::memory_order_relaxed)) continue;
        try {
            body(i);
        } catch (...) {
            if (!failed.exchange(true)) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}

/// Runs body(thread, team) once on each thread of a team.
template <class Body>
void parallel_region(int threads, Body&& body) {
    const int team = resolve_threads(threads);
    if (team == 1) {
        body(0, 1);
        return;
    }
    std::atomic<bool> failed{false};
    std::exception_ptr first;
    // The runtime may give fewer threads than asked for; bodies must take work dynamically or by (thread, team).
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int t = 0; t < team; ++t) {
        try {
            body(t, team);
        } catch (...) {
            if (!failed.exchange(true)) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}

}  // namespace tessera
