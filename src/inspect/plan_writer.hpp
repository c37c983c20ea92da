#pragma once
// Writes a Plan from an assignment of sums to ranks: who sends what to whom, where it lies, and in which order all of
// it happens. The workers (host cores, devices) add the steps of their own rank.

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "inspect/host_ring.hpp"
#include "inspect/inspection.hpp"

namespace tessera {

struct DeviceCut;
class PlanWriter;

/// The fixed tree that joins the sums of a result tile: neighbours, then neighbours of those. Calls join(to, from).
template <class Join>
void fixed_tree(std::size_t sums, Join&& join) {
    for (std::size_t stride = 1; stride < sums; stride *= 2)
        for (std::size_t i = 0; i + stride < sums; i += 2 * stride) join(i, i + stride);
}

/// The arithmetic of one rank, in turns. Where tiles of other ranks pass through a ring in host memory, each turn uses
/// those that are there for it, and the turns follow each other on all ranks.
class Worker {
  public:
    virtual ~Worker() = default;
    /// Stored tiles of A and B that it uses, each once, in order of first use.
    virtual std::vector<std::pair<Operand, std::int32_t>> needs() const = 0;
    /// Host bytes it needs at least besides what the writer placed, and how many more it has a use for.
    virtual std::int64_t least_host_bytes() const = 0;
    virtual std::int64_t more_host_bytes() const = 0;
    /// The smallest ring through which the tiles of other ranks can pass.
    virtual std::int64_t least_ring_bytes() const = 0;
    /// Cuts its work into turns; ring: bytes for tiles of other ranks, or -1 where all of them stay.
    virtual void prepare(std::int64_t ring) = 0;
    virtual std::size_t turns() const = 0;
    /// With a ring: the tiles of other ranks that a turn uses, each once.
    virtual std::vector<RingUse> uses(std::size_t turn) const = 0;
    /// Adds the arrivals, sums, chains and steps of a turn, in order; with a ring, tells after which step nothing uses
    /// the tiles of others that were there for it.
    virtual std::int32_t emit(std::size_t turn) = 0;
    /// What is left after the last turn. Now writer.ready is set for every sum of the rank.
    virtual void finish() = 0;
};

/// sums: those of the rank, in the order they are best worked on.
std::unique_ptr<Worker> host_worker(PlanWriter& writer, int rank, std::vector<std::int32_t> sums);
std::unique_ptr<Worker> device_worker(PlanWriter& writer, int rank, std::vector<std::int32_t> sums);

class PlanWriter {
  public:
    /// spent: the inspection, where nobody needs its products afterwards.
    PlanWriter(const Inspection& inspection, const Assignment& assignment, DeviceCut* cut, Inspection* spent = nullptr)
        : in(inspection), how(assignment), device_cut(cut), spent_(spent) {}
    Plan write();

    std::int32_t add_step(StepKind kind, int rank, int device, int peer, std::int64_t begin, std::int64_t end,
                          std::vector<std::int32_t> after);
    /// The same after one step, or after none (-1).
    std::int32_t add_step_after(std::int32_t after, StepKind kind, int rank, int device, int peer, std::int64_t begin,
                                std::int64_t end);
    /// A finish step for a sum that is the stored result tile.
    void add_finish(std::int32_t sum, std::int32_t after);
    /// The same for sums that are result tiles stored on a device.
    void add_finish_on(int device, const std::vector<std::int32_t>& sums, std::int32_t after);
    /// Adds an arrival in the arena of a rank's host at this offset.
    std::int32_t add_arrival(Operand o, std::int32_t slot, std::int64_t offset, std::int64_t bytes,
                             std::int32_t from = -1);
    bool finished_by_worker(std::int32_t sum) const {
        return in.first_sum[in.sums[sum].c + 1] - in.first_sum[in.sums[sum].c] == 1 && plan.sums[sum].offset < 0;
    }
    /// Several sums of one result tile, all on the cores of its owner: the worker places and joins them as it goes on.
    bool joined_by_worker(std::int32_t c) const { return joined_by_worker_[c]; }
    /// Adds these sums up, in this order, on their rank's host; the step also completes the sums added to.
    std::int32_t add_merge(int rank, const std::vector<PlanMove>& moves);
    /// Where a stored tile is on the rank at hand: -1 its own storage, else an arrival.
    std::int32_t at(Operand o, std::int32_t slot) const {
        const auto place = in.place(o, slot);
        if (!stream_) return at_[o][place];
        const auto it = stream_->at[o].find(place);
        return it == stream_->at[o].end() ? -1 : it->second;
    }
    /// The rank that stores a tile.
    std::int32_t owner(Operand o, std::int32_t slot) const { return owner_[o][slot]; }
    std::int64_t host_limit() const { return in.request.host_memory > 0 ? in.request.host_memory : INT64_MAX; }

    const Inspection& in;
    const Assignment& how;
    DeviceCut* device_cut;  // of one rank, where it is decided; taken from here
    Plan plan;
    std::vector<std::int64_t> arena;            // per rank: bytes placed so far
    std::vector<std::int64_t> fixed;            // per rank: bytes of stored tiles and whatever else it holds
    std::vector<std::int32_t> ready;            // per sum: the step that completes it
    std::vector<std::int32_t> step_of_arrival;  // -1 where nobody asks for it

  private:
    struct Closing {  // a result tile that takes more than its one sum in place
        std::int32_t c;
        std::vector<std::pair<std::int32_t, PlanMove>> local;  // rank, merge before anything is sent
        std::vector<PlanMove> moves, owner;                    // to the owner; merges there
        std::int32_t result = -1;
    };
    struct Message {
        std::int32_t from;
        std::int64_t begin, end;
    };

    Inspection* spent_;

    /// Tiles of other ranks that pass through a ring on one rank's host.
    struct Stream {
        RingPlan ring;
        std::int64_t offset = 0;                                        // of the ring in the arena
        std::int64_t bytes = 0;                                         // of the ring
        PerOperand<std::unordered_map<std::int32_t, std::int32_t>> at;  // newest arrival of a tile
        std::vector<std::int32_t> over;                                 // per turn: the step that ends it
    };

    void lay_out();
    void place_sums();
    void plan_closing(std::int32_t c);
    std::int32_t sum_at_owner(std::int32_t c, bool in_place);
    void find_needs(int rank, const Worker& worker);
    void open_streams(const std::vector<std::unique_ptr<Worker>>& workers);
    void pack_messages(int rank);
    void check_memory(const std::vector<std::unique_ptr<Worker>>& workers);
    void enter(int rank);
    void emit_messages();
    void emit_message(const Message& m, int rank, std::int32_t after);
    void emit_turn(int rank, std::size_t turn);
    void emit_work(std::vector<std::unique_ptr<Worker>>& workers);
    void emit_closing();
    void count();

    using Need = std::pair<Operand, std::int32_t>;
    PerOperand<std::vector<std::int32_t>> owner_;  // per slot
    std::vector<bool> joined_by_worker_;           // per result tile
    std::vector<Closing> closing_;
    std::vector<std::vector<Need>> needs_;             // per rank: tiles of others, each once
    std::vector<std::int64_t> need_bytes_;             // per rank: all of them together
    std::vector<std::vector<Message>> messages_;       // per receiving rank
    std::vector<std::vector<std::int32_t>> received_;  // per rank: arrivals
    PerOperand<std::vector<std::int32_t>> at_;
    std::vector<std::unique_ptr<Stream>> streams_;  // per rank; none: all tiles of others stay
    Stream* stream_ = nullptr;                      // of the rank at hand
    // Per pair of ranks: its newest sends of tiles. Messages that are on their way from one rank to another at a time:
    // a send waits for the one that was so many before.
    static constexpr std::size_t kOpenSends = 3;
    struct Sends {
        std::array<std::int32_t, kOpenSends> newest{-1, -1, -1};
    };
    std::unordered_map<std::int64_t, Sends> sends_;
};

}  // namespace tessera
