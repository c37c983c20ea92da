#pragma once
// Finds out that a node is gone: its power, its network, its kernel. MPI itself waits for it, some of them for ever.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tessera/comm/mpi.hpp"

namespace tessera {

/// Each rank sends a sign of life to the next one every second, from a thread of its own; the last rank of a node to
/// the first of the next. Who hears nothing for `seconds` says which node is lost and ends all ranks with exit code 3.
class NodeWatch {
  public:
    /// Collective over `ranks`. `nodes`: each rank's node; `seconds`: of silence, after which a node counts as lost.
    NodeWatch(MPI_Comm ranks, std::vector<int> nodes, double seconds);
    /// All ranks must have come to their end: one that still works would miss the others.
    ~NodeWatch();
    NodeWatch(const NodeWatch&) = delete;
    NodeWatch& operator=(const NodeWatch&) = delete;

    /// Whether it is needed and can be: several nodes, and an MPI that takes calls from several threads.
    static bool wanted(const std::vector<int>& nodes, double seconds);

  private:
    void watch();
    [[noreturn]] void lost(const std::string& how);

    MPI_Comm ranks_ = MPI_COMM_NULL;
    std::vector<int> nodes_;
    int rank_ = 0, before_ = 0, after_ = 0;
    double seconds_;
    std::string name_before_;  // of the host of the rank before
    std::atomic<bool> over_{false};
    std::thread thread_;
};

/// Seconds of silence after which a node is lost: TESSERA_NODE_TIMEOUT, 0 for never; 6 where it is not set.
double node_timeout();

}  // namespace tessera
