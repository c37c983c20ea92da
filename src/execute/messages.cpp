#include "execute/messages.hpp"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <map>

#include "base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {
/// Messages of tiles that are received from one rank at a time. MPI moves all that has its place before it says that
/// any of it is there: with few places work begins as soon as the first tiles are.
constexpr int kOpenReceives = 2;
}  // namespace

void StepBoard::pause(int times) {
    if (times > 300)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    else if (times > 200)
        std::this_thread::yield();
}

/// Messages between two ranks are numbered in the plan's order, the same on both: a number is a tag. They start in any
/// order (sums when they are complete, receives of tiles a few at a time), so no two may share one.
Messages::Messages(const Plan& plan, Communicator& ranks, StepBoard& board)
    : plan_(plan), ranks_(ranks), board_(board) {
    std::map<std::int32_t, int> sends, receives;
    for (std::size_t i = 0; ranks.size() > 1 && i < plan.steps.size(); ++i) {
        const auto& s = plan.steps[i];
        if (s.rank != ranks.rank() || !is_message(s.kind)) continue;
        const bool out = s.kind == StepKind::send || s.kind == StepKind::send_sums;
        const int number = (out ? sends : receives)[s.peer]++;
        if (number > ranks.most_tag())
            throw MachineError(
                fmt::format("ranks {} and {} have more messages for each other than the {} tags of this MPI", s.rank,
                            s.peer, static_cast<std::int64_t>(ranks.most_tag()) + 1));
        messages_.push_back({static_cast<std::int32_t>(i), number});
    }
}

Messages::~Messages() {
    if (!thread_.joinable()) return;
    board_.fail();
    thread_.join();
}

void Messages::start(Pieces pieces) {
    if (messages_.empty()) return;
    pieces_ = std::move(pieces);
    by_caller_ = ranks_.main_thread_alone();
    if (!by_caller_) thread_ = std::thread([this] { guarded_work(); });
}

void Messages::move_by_caller() {
    if (by_caller_) guarded_work();
}

void Messages::guarded_work() {
    try {
        work();
    } catch (...) {
        failure_ = std::current_exception();
        board_.fail();
    }
}

void Messages::work() {
    struct Open {
        std::int32_t step;
        std::unique_ptr<Transfer> transfer;
    };
    std::vector<Open> open;
    /// Messages of tiles to or from one rank, which begin in the plan's order.
    struct Peer {
        std::deque<Message> sends, receives;
        int open = 0;  // receives
    };
    std::vector<Message> waiting;  // sums
    std::map<std::int32_t, Peer> peers;
    std::size_t to_come = 0;
    const auto post = [&](const Message& m) {
        const auto& s = plan_.steps[m.step];
        const auto pieces = pieces_(m.step);
        std::int64_t bytes = 0;
        for (const auto& p : pieces) bytes += p.bytes;
        const bool out = s.kind == StepKind::send || s.kind == StepKind::send_sums;
        (out ? sent_ : received_) += bytes;
        open.push_back({m.step, out ? ranks_.send(s.peer, m.tag, pieces) : ranks_.receive(s.peer, m.tag, pieces)});
    };
    const auto ready = [&](const Message& m) {
        const auto& s = plan_.steps[m.step];
        for (std::int64_t d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
            if (!board_.done(plan_.dependencies[d])) return false;
        return true;
    };
    // Receives first, so that whatever comes has its place.
    for (const auto& m : messages_) switch (plan_.steps[m.step].kind) {
            case StepKind::send:
                peers[plan_.steps[m.step].peer].sends.push_back(m);
                ++to_come;
                break;
            case StepKind::receive:
                peers[plan_.steps[m.step].peer].receives.push_back(m);
                ++to_come;
                break;
            case StepKind::receive_sums:
                post(m);
                break;
            default:
                waiting.push_back(m);
        }
    double last = now_seconds();
    while (!open.empty() || !waiting.empty() || to_come > 0) {
        if (board_.failed()) return;
        bool moved = false;
        if (to_come > 0)
            for (auto& [rank, peer] : peers) {
                for (; peer.open < kOpenReceives && !peer.receives.empty() && ready(peer.receives.front());
                     ++peer.open, --to_come) {
                    post(peer.receives.front());
                    peer.receives.pop_front();
                }
                for (; !peer.sends.empty() && ready(peer.sends.front()); --to_come) {
                    post(peer.sends.front());
                    peer.sends.pop_front();
                }
            }
        std::erase_if(waiting, [&](const Message& m) {
            if (!ready(m)) return false;
            post(m);
            return moved = true;
        });
        const bool sums_only = [&] {
            for (const auto& o : open)
                if (plan_.steps[o.step].kind != StepKind::receive_sums) return false;
            return true;
        }();
        std::erase_if(open, [&](Open& o) {
            if (!o.transfer->done()) return false;
            board_.mark(o.step);
            if (plan_.steps[o.step].kind == StepKind::receive) --peers[plan_.steps[o.step].peer].open;
            return moved = true;
        });
        const double now = now_seconds();
        // Receives of sums wait for another rank's work: they are under way only once something moves.
        if (!sums_only) seconds_ += now - last;
        last = now;
        if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

void Messages::finish() {
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(failure_);
}

void Messages::count(ExecuteCounts& counts) const {
    counts.sent_bytes = sent_;
    counts.received_bytes = received_;
    counts.transfer_seconds = seconds_;
}

}  // namespace tessera
