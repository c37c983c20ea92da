#pragma once
// Messages of a rank's plan, moved by a thread of their own while others work: a few receives of tiles from each rank
// are open at a time, a send is posted as soon as what it sends is there.

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "execute/cpu/execute.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

constexpr bool is_message(StepKind kind) {
    return kind == StepKind::send || kind == StepKind::receive || kind == StepKind::send_sums ||
           kind == StepKind::receive_sums;
}

/// Which steps are done, and whether something failed. Anyone may look and mark.
class StepBoard {
  public:
    explicit StepBoard(std::size_t steps) : done_(steps) {}
    bool done(std::int32_t step) const { return done_[step].load(std::memory_order_acquire) != 0; }
    void mark(std::int32_t step) { done_[step].store(1, std::memory_order_release); }
    bool failed() const { return failed_; }
    void fail() { failed_ = true; }
    /// For those who look again and again: busy at first, then at ease.
    static void pause(int times);

  private:
    std::vector<std::atomic<std::uint8_t>> done_;
    std::atomic<bool> failed_{false};
};

class Messages {
  public:
    using Pieces = std::function<std::vector<MessagePiece>(std::int32_t step)>;

    Messages(const Plan& plan, Communicator& ranks, StepBoard& board);
    ~Messages();
    void start(Pieces pieces);
    /// Where MPI answers to the main thread alone there is no thread for messages: the caller moves them itself, once
    /// the work of others has begun elsewhere. Nothing otherwise.
    bool by_caller() const { return by_caller_; }
    void move_by_caller();
    /// Waits until all are over; throws what went wrong.
    void finish();
    void count(ExecuteCounts& counts) const;

  private:
    struct Message {
        std::int32_t step, tag;
    };
    void work();
    void guarded_work();

    const Plan& plan_;
    Communicator& ranks_;
    StepBoard& board_;
    Pieces pieces_;
    std::vector<Message> messages_;
    std::thread thread_;
    bool by_caller_ = false;
    std::exception_ptr failure_;
    std::int64_t sent_ = 0, received_ = 0;
    double seconds_ = 0;
};

}  // namespace tessera
