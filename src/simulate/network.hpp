#pragma once
// Messages between nodes. Each node sends one message at a time at the full rate, the one whose receiver is free first;
// a receiver takes messages one after the other. Ranks of one node have a link of their own.

#include <cstdint>
#include <vector>

#include "tessera/machine/machine_model.hpp"

namespace tessera {

class Network {
  public:
    Network(const MachineModel& machine, int ranks);

    struct Transfer {
        std::int32_t send = -1, receive = -1;  // steps
        std::int32_t link = -1;                // of the sender: give it back when it is over
        double out_start = 0, out_end = 0, in_start = 0;
        double in_free = 0, in_end = 0;  // the receiving side may go on; the tiles are there
    };

    /// A message whose send and receive may both start.
    void post(std::int32_t send, std::int32_t receive, int from_rank, int to_rank, double bytes, std::int64_t tiles);
    /// The next message that can leave some link that is idle now; false where there is none.
    bool start_one(double now, Transfer& transfer);
    void link_is_idle(std::int32_t link) {
        links_[link].busy = false;
        if (links_[link].waiting > 0) idle_.push_back(link);
    }
    /// Seconds in which a node's network moved data, the busier direction.
    double busy_seconds(int node) const;
    int nodes() const { return nodes_; }
    bool within_node(std::int32_t link) const { return link >= nodes_; }

  private:
    struct Message {
        std::int32_t send, receive;
        double bytes;
        std::int64_t tiles;
    };
    struct Queue {
        std::int32_t to;  // receiving node
        std::size_t head = 0;
        std::vector<Message> messages;
    };
    struct Sender {
        bool busy = false;
        std::int64_t waiting = 0;
        double seconds = 0;
        std::vector<Queue> queues;
    };
    LinkModel between_, within_;
    double tile_seconds_ = 0;  // of a node's ranks, which work at once
    int ranks_per_node_ = 1, nodes_ = 1;
    std::vector<Sender> links_;    // a node's way out, then the links within nodes
    std::vector<double> in_free_;  // same numbers: when the receiving side is free
    std::vector<double> in_seconds_;
    std::vector<std::int32_t> idle_;  // links that may have something to send
};

}  // namespace tessera
