#include "simulate/network.hpp"

#include <algorithm>

namespace tessera {

Network::Network(const MachineModel& machine, int ranks)
    : between_(machine.network),
      within_(machine.node_link.bytes_per_second > 0 ? machine.node_link : machine.network),
      tile_seconds_(machine.network_tile_seconds / std::max(1, machine.ranks_per_node)),
      ranks_per_node_(std::max(1, machine.ranks_per_node)),
      nodes_((ranks + ranks_per_node_ - 1) / ranks_per_node_),
      links_(static_cast<std::size_t>(2 * nodes_)),
      in_free_(links_.size()),
      in_seconds_(links_.size()) {}

void Network::post(std::int32_t send, std::int32_t receive, int from_rank, int to_rank, double bytes,
                   std::int64_t tiles) {
    const int from = from_rank / ranks_per_node_, to = to_rank / ranks_per_node_;
    const std::int32_t link = from == to ? nodes_ + from : from, end = from == to ? link : to;
    auto& s = links_[link];
    auto q = std::find_if(s.queues.begin(), s.queues.end(), [&](const Queue& x) { return x.to == end; });
    if (q == s.queues.end()) {
        s.queues.push_back({end, 0, {}});
        q = s.queues.end() - 1;
    }
    q->messages.push_back({send, receive, bytes, tiles});
    if (++s.waiting == 1 && !s.busy) idle_.push_back(link);
}

bool Network::start_one(double now, Transfer& transfer) {
    while (!idle_.empty()) {
        const auto link = idle_.back();
        idle_.pop_back();
        auto& s = links_[link];
        if (s.busy || s.waiting == 0) continue;
        Queue* best = nullptr;
        for (auto& q : s.queues) {
            if (q.head == q.messages.size()) continue;
            const auto key = [&](const Queue& x) {
                return std::pair(std::max(now, in_free_[x.to]), x.messages[x.head].receive);
            };
            if (!best || key(q) < key(*best)) best = &q;
        }
        const auto m = best->messages[best->head++];
        if (best->head == best->messages.size()) {
            best->messages.clear();
            best->head = 0;
        }
        --s.waiting;
        s.busy = true;
        const auto& model = within_node(link) ? within_ : between_;
        const double seconds = (model.bytes_per_second > 0 ? m.bytes / model.bytes_per_second : 0) +
                               static_cast<double>(m.tiles) * tile_seconds_;
        s.seconds += seconds;
        in_seconds_[best->to] += seconds;
        const double in_start = std::max(now, in_free_[best->to]);
        in_free_[best->to] = in_start + seconds;
        transfer = {m.send,
                    m.receive,
                    link,
                    now,
                    now + seconds,
                    in_start,
                    in_start + seconds,
                    in_start + seconds + model.latency};
        return true;
    }
    return false;
}

double Network::busy_seconds(int node) const { return std::max(links_[node].seconds, in_seconds_[node]); }

}  // namespace tessera
