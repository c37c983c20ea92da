#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/check.hpp"
#include "comm/mpi/node_watch.hpp"
#include "comm/mpi/transfer.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {

namespace {

/// Whether MPI answers to the main thread alone.
bool require_threads() {
    int level = 0, is_main = 0;
    check_mpi(MPI_Query_thread(&level), "thread level");
    if (level >= MPI_THREAD_SERIALIZED) return false;
    if (level < MPI_THREAD_FUNNELED)
        throw MachineError(
            "MPI was initialised with MPI_THREAD_SINGLE: Tessera works with several threads; MPI_Init_thread with "
            "MPI_THREAD_FUNNELED or more is needed");
    check_mpi(MPI_Is_thread_main(&is_main), "thread level");
    if (!is_main)
        throw MachineError("MPI was initialised with MPI_THREAD_FUNNELED: Tessera must be called by its main thread");
    return true;
}

class MpiCommunicator final : public Communicator {
  public:
    MpiCommunicator(MPI_Comm ranks, std::int64_t limit) : limit_(limit) {
        require(limit >= 1 && limit <= INT32_MAX, "message limit {} is outside 1..{}", limit, INT32_MAX);
        require(ranks != MPI_COMM_NULL, "communicator: MPI_COMM_NULL");
        main_thread_alone_ = require_threads();
        check_mpi(MPI_Comm_dup(ranks, &ranks_), "duplicate of a communicator");
        MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(ranks_, &rank_);
        MPI_Comm_size(ranks_, &size_);
        int* top = nullptr;
        int found = 0;
        MPI_Comm_get_attr(ranks_, MPI_TAG_UB, &top, &found);
        if (found) top_tag_ = *top;
        number_nodes();
    }
    ~MpiCommunicator() override {
        int over = 0;
        MPI_Finalized(&over);
        if (!over) MPI_Comm_free(&ranks_);
    }
    MpiCommunicator(const MpiCommunicator&) = delete;
    MpiCommunicator& operator=(const MpiCommunicator&) = delete;

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    std::vector<int> nodes() const override { return nodes_; }
    bool main_thread_alone() const override { return main_thread_alone_; }
    MPI_Comm handle() const { return ranks_; }
    int most_tag() const override { return top_tag_; }

    std::unique_ptr<Transfer> send(int to, int tag, std::span<const MessagePiece> pieces) override {
        return start(Way::send, to, tag, pieces);
    }
    std::unique_ptr<Transfer> receive(int from, int tag, std::span<const MessagePiece> pieces) override {
        return start(Way::receive, from, tag, pieces);
    }

    void barrier() override {
        finish([&](MPI_Request* r) { return MPI_Ibarrier(ranks_, r); }, "barrier");
    }

    void broadcast(std::vector<std::byte>& bytes, int root) override {
        require_rank(root);
        auto size = static_cast<std::int64_t>(bytes.size());
        finish([&](MPI_Request* r) { return MPI_Ibcast(&size, 1, MPI_INT64_T, root, ranks_, r); }, "broadcast");
        bytes.resize(static_cast<std::size_t>(size));
        broadcast_parts(bytes.data(), size, root);
    }

    std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
        const auto size = static_cast<std::int64_t>(mine.size());
        std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_));
        finish(
            [&](MPI_Request* r) {
                return MPI_Iallgather(&size, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, ranks_, r);
            },
            "gather");
        std::vector<std::vector<std::byte>> all(sizes.size());
        for (int r = 0; r < size_; ++r) {
            auto& theirs = all[static_cast<std::size_t>(r)];
            if (r == rank_)
                theirs.assign(mine.begin(), mine.end());
            else
                theirs.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(r)]));
            broadcast_parts(theirs.data(), static_cast<std::int64_t>(theirs.size()), r);
        }
        return all;
    }

    void sum(std::span<double> values) override { reduce(values, MPI_DOUBLE, MPI_SUM); }
    void sum(std::span<std::int64_t> values) override { reduce(values, MPI_INT64_T, MPI_SUM); }
    void max(std::span<double> values) override { reduce(values, MPI_DOUBLE, MPI_MAX); }

    [[noreturn]] void abort(int exit_code) override {
        std::fflush(nullptr);
        MPI_Abort(MPI_COMM_WORLD, exit_code);
        std::_Exit(exit_code);
    }

  private:
    /// A rank that waits for others gives its core away, as it does for messages: the waits of an MPI may spin (MPICH's
    /// do), and where ranks share cores those who are waited for would not get to work.
    template <class Start>
    void finish(const Start& start, const char* what) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(start(&request), what);
        int over = 0;
        for (int spins = 0; !over; ++spins) {
            check_mpi(MPI_Test(&request, &over, MPI_STATUS_IGNORE), what);
            if (!over && spins > 100) std::this_thread::yield();
        }
    }

    void number_nodes() {
        MPI_Comm node = MPI_COMM_NULL;
        check_mpi(MPI_Comm_split_type(ranks_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "ranks of a node");
        int first = rank_;  // of this node
        check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, node), "ranks of a node");
        MPI_Comm_free(&node);
        std::vector<int> firsts(static_cast<std::size_t>(size_));
        check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, ranks_), "ranks of a node");
        int numbered = 0;
        nodes_.resize(firsts.size());
        for (std::size_t r = 0; r < firsts.size(); ++r) {
            const auto before = static_cast<std::size_t>(firsts[r]);
            nodes_[r] = before == r ? numbered++ : nodes_[before];
        }
    }

    void require_rank(int rank) const {
        require(rank >= 0 && rank < size_, "rank {} is outside 0..{}", rank, size_ - 1);
    }

    std::unique_ptr<Transfer> start(Way way, int peer, int tag, std::span<const MessagePiece> pieces) {
        require_rank(peer);
        require(tag >= 0 && tag <= top_tag_, "message tag {} is outside 0..{}", tag, top_tag_);
        return start_transfer(ranks_, way, peer, tag, pieces, limit_);
    }

    void broadcast_parts(std::byte* data, std::int64_t bytes, int root) {
        for (std::int64_t at = 0; at < bytes; at += limit_)
            finish(
                [&](MPI_Request* r) {
                    const auto count = static_cast<int>(std::min(limit_, bytes - at));
                    return MPI_Ibcast(data + at, count, MPI_BYTE, root, ranks_, r);
                },
                "broadcast");
    }

    template <class T>
    void reduce(std::span<T> values, MPI_Datatype type, MPI_Op op) {
        const std::size_t most = std::max<std::size_t>(1, static_cast<std::size_t>(limit_) / sizeof(T));
        for (std::size_t at = 0; at < values.size(); at += most)
            finish(
                [&](MPI_Request* r) {
                    const auto count = static_cast<int>(std::min(most, values.size() - at));
                    return MPI_Iallreduce(MPI_IN_PLACE, values.data() + at, count, type, op, ranks_, r);
                },
                "reduction");
    }

    MPI_Comm ranks_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1, top_tag_ = 32767;
    bool main_thread_alone_ = false;
    std::vector<int> nodes_;
    std::int64_t limit_;
};

/// Lives from the first mpi_world() to exit.
MpiCommunicator* the_world = nullptr;
NodeWatch* the_watch = nullptr;

void end_world(int status, void* we_initialised) {
    // A rank that ends with an error code takes the others along: they may wait for it for ever. Rank 0, which may be
    // about to say the same, goes first.
    if (status != 0 && the_world->size() > 1) {
        if (the_world->rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    if (the_watch) {
        the_world->barrier();  // who still works is watched
        delete the_watch;
    }
    delete the_world;
    the_world = nullptr;
    int over = 0;
    MPI_Finalized(&over);
    if (we_initialised && !over) MPI_Finalize();
}

}  // namespace

Communicator& mpi_world() {
    if (the_world) return *the_world;
    int over = 0, begun = 0;
    MPI_Finalized(&over);
    require(!over, "MPI has been finalised: its ranks are gone");
    MPI_Initialized(&begun);
    if (!begun) {
        if (ranks_of_environment() == 0) return self_communicator();
        int level = 0;  // several threads: the watch over the nodes has one of its own
        check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "initialisation");
    }
    the_world = new MpiCommunicator(MPI_COMM_WORLD, kMessageLimit);
    // A program that has MPI of its own may finalise it at any time.
    if (const double seconds = node_timeout(); !begun && NodeWatch::wanted(the_world->nodes(), seconds))
        the_watch = new NodeWatch(the_world->handle(), the_world->nodes(), seconds);
    on_exit(end_world, begun ? nullptr : &the_world);
    return *the_world;
}

std::unique_ptr<Communicator> mpi_communicator_from_handle(int handle, std::int64_t message_limit) {
    int over = 0, begun = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    require(begun && !over, "communicator {}: MPI {}", handle, over ? "has been finalised" : "is not initialised");
    const MPI_Comm ranks = MPI_Comm_f2c(handle);
    require(ranks && ranks != MPI_COMM_NULL, "communicator {}: there is none with this handle", handle);
    return std::make_unique<MpiCommunicator>(ranks, message_limit);
}

}  // namespace tessera
