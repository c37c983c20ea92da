#pragma once
// Ranks that work together: one process alone, or the processes of an MPI communicator.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// A piece of memory that is part of a message.
struct MessagePiece {
    void* data = nullptr;
    std::int64_t bytes = 0;
};

/// A transfer under way. Its pieces must stay where they are until it is done.
class Transfer {
  public:
    virtual ~Transfer() = default;
    /// True once all of it is over; never blocks.
    virtual bool done() = 0;
};

/// Calls may come from one thread at a time. Every rank calls the collective ones in the same order.
class Communicator {
  public:
    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// Each rank's node (ranks that share memory), numbered from 0 in order of their first ranks.
    virtual std::vector<int> nodes() const { return std::vector<int>(static_cast<std::size_t>(size()), 0); }

    /// Whether calls must come from the thread that started MPI (MPI_THREAD_FUNNELED).
    virtual bool main_thread_alone() const { return false; }

    /// The highest tag that a message may have; MPI promises 32,767.
    virtual int most_tag() const = 0;
    /// One message to or from a peer, scattered over pieces; messages between two ranks with the same tag match in
    /// order. Any number of bytes: what is above the message limit travels in several parts.
    virtual std::unique_ptr<Transfer> send(int to, int tag, std::span<const MessagePiece> pieces) = 0;
    virtual std::unique_ptr<Transfer> receive(int from, int tag, std::span<const MessagePiece> pieces) = 0;

    virtual void barrier() = 0;
    /// From root to everyone; the vector gets the root's size.
    virtual void broadcast(std::vector<std::byte>& bytes, int root) = 0;
    /// Everyone's bytes, by rank, on everyone.
    virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;
    /// Element-wise over all ranks; each element is nonzero on at most one rank, or the order of the sum does not
    /// matter.
    virtual void sum(std::span<double> values) = 0;
    virtual void sum(std::span<std::int64_t> values) = 0;
    virtual void max(std::span<double> values) = 0;

    /// Ends every rank with this exit code; the message has been printed.
    [[noreturn]] virtual void abort(int exit_code) = 0;
};

/// The one process.
Communicator& self_communicator();

}  // namespace tessera
