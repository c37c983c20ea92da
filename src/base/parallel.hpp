#pragma once
// Parallel loops over OpenMP threads that carry exceptions out, and the thread count of a call.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// Ranks on this node, as Open MPI, MPICH (Intel MPI, MVAPICH) or Slurm tell each of them; 1 without ranks.
int ranks_on_node();

inline constexpr int kMostThreads = 4096;
/// 0 means OMP_NUM_THREADS, or all cores this process may use; ranks on one node share them. 1 in a forked child of a
/// process that has worked. UserError outside 0..kMostThreads.
int resolve_threads(int threads);

/// Threads of one region. Regions of several callers at once share the cores: who comes while others work gets those
/// that are free, one at least; alone it gets all that it asks for. Within a thread of a team there is no other team.
class Team {
  public:
    explicit Team(int wanted);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    int size() const { return size_; }

    /// While a thread is one of a team.
    struct Member {
        Member();
        ~Member();
        Member(const Member&) = delete;
        Member& operator=(const Member&) = delete;
    };

  private:
    int size_ = 1, taken_ = 0;
};

/// Runs body(thread, team) once on each thread of a team; the first exception is rethrown when all are done.
template <class Body>
void parallel_region(int threads, Body&& body) {
    const int wanted = resolve_threads(threads);
    if (wanted == 1) {
        body(0, 1);
        return;
    }
    const Team given(wanted);
    const int team = given.size();
    if (team == 1) {
        body(0, 1);
        return;
    }
    std::atomic<bool> failed{false};
    std::exception_ptr first;
    const auto member = [&](int t) {
        const Team::Member one;
        try {
            body(t, team);
        } catch (...) {
            if (!failed.exchange(true)) first = std::current_exception();
        }
    };
#ifdef __SANITIZE_THREAD__  // it does not see how OpenMP's threads wait for each other
    std::vector<std::thread> others;
    for (int t = 1; t < team; ++t) others.emplace_back(member, t);
    member(0);
    for (std::thread& other : others) other.join();
#else
    // The runtime may give fewer threads than asked for; bodies must take work dynamically or by (thread, team).
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int t = 0; t < team; ++t) member(t);
#endif
    if (first) std::rethrow_exception(first);
}

/// Calls body(i) for i in [0, n), dynamically scheduled in chunks; the first exception stops the loop and is rethrown.
template <class Body>
void parallel_for(std::int64_t n, int threads, std::int64_t chunk, Body&& body) {
    std::atomic<std::int64_t> next{0};
    parallel_region(n <= chunk ? 1 : threads, [&](int, int) {
        try {
            for (std::int64_t begin; (begin = next.fetch_add(chunk, std::memory_order_relaxed)) < n;)
                for (std::int64_t i = begin; i < std::min(begin + chunk, n); ++i) body(i);
        } catch (...) {
            next = n;
            throw;
        }
    });
}

}  // namespace tessera
