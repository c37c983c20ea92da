#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "comm/outcome.hpp"
#include "comm/wait.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {
namespace {

/// Random pieces with gaps between them over one block, `bytes` in all.
std::vector<MessagePiece> cut(std::vector<std::byte>& block, std::int64_t bytes, std::mt19937& random, int most) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t left = bytes; left > 0;) {
        sizes.push_back(std::min<std::int64_t>(left, random() % static_cast<unsigned>(most + 1)));
        left -= sizes.back();
    }
    block.assign(static_cast<std::size_t>(bytes) + sizes.size() * 16, std::byte{0});
    std::vector<MessagePiece> pieces;
    std::byte* at = block.data();
    for (const std::int64_t n : sizes) {
        pieces.push_back({at, n});
        at += n + random() % 16;
    }
    return pieces;
}

std::byte value(std::int64_t i, int from, int message) {
    return static_cast<std::byte>(static_cast<unsigned>(i * 31 + i / 251 + from * 7 + message * 13));
}

/// Everyone to everyone, itself included: several messages of one tag, cut differently on both sides.
void exchange_all(Communicator& ranks, const std::vector<std::int64_t>& sizes, int most_out, int most_in) {
    std::mt19937 random(static_cast<unsigned>(ranks.rank() + 1));
    const int n = ranks.size(), me = ranks.rank();
    std::vector<std::vector<std::byte>> blocks(2 * sizes.size() * static_cast<std::size_t>(n));
    std::vector<std::vector<MessagePiece>> received;
    std::vector<std::unique_ptr<Transfer>> transfers;
    std::size_t next = 0;
    for (int r = 0; r < n; ++r)
        for (const std::int64_t bytes : sizes) {
            received.push_back(cut(blocks[next++], bytes, random, most_in));
            transfers.push_back(ranks.receive(r, 5, received.back()));
        }
    for (int r = 0; r < n; ++r)
        for (std::size_t m = 0; m < sizes.size(); ++m) {
            const auto pieces = cut(blocks[next++], sizes[m], random, most_out);
            std::int64_t i = 0;
            for (const auto& p : pieces)
                for (std::int64_t b = 0; b < p.bytes; ++b)
                    static_cast<std::byte*>(p.data)[b] = value(i++, me, static_cast<int>(m));
            transfers.push_back(ranks.send(r, 5, pieces));
        }
    wait_all(transfers);
    for (int r = 0; r < n; ++r)
        for (std::size_t m = 0; m < sizes.size(); ++m) {
            std::int64_t i = 0, wrong = 0;
            for (const auto& p : received[static_cast<std::size_t>(r) * sizes.size() + m])
                for (std::int64_t b = 0; b < p.bytes; ++b)
                    if (static_cast<std::byte*>(p.data)[b] != value(i++, r, static_cast<int>(m))) ++wrong;
            EXPECT_EQ(wrong, 0) << "from " << r << ", message " << m;
            EXPECT_EQ(i, sizes[m]);
        }
}

TEST(Messages, AnyPiecesInOrder) {
    const std::vector<std::int64_t> sizes{0, 1, 17, 4000, 0, 100001, 3};
    exchange_all(mpi_world(), sizes, 100, 37);      // small pieces: copied
    exchange_all(mpi_world(), sizes, 5000, 60000);  // larger ones: described to MPI
    exchange_all(mpi_world(), sizes, 200000, 10);   // one on one side, many on the other
    exchange_all(self_communicator(), sizes, 50, 70);
}

TEST(Messages, TagsGoUpToTheHighest) {
    auto& ranks = mpi_world();
    ASSERT_GE(ranks.most_tag(), 32767);
    const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
    int out[] = {ranks.rank(), -ranks.rank()}, in[2] = {-1, -1};
    // Posted in the other order: the tag decides.
    const auto r1 = ranks.receive(from, ranks.most_tag(), std::vector<MessagePiece>{{&in[1], sizeof(int)}});
    const auto r0 = ranks.receive(from, 0, std::vector<MessagePiece>{{&in[0], sizeof(int)}});
    const auto s0 = ranks.send(to, 0, std::vector<MessagePiece>{{&out[0], sizeof(int)}});
    const auto s1 = ranks.send(to, ranks.most_tag(), std::vector<MessagePiece>{{&out[1], sizeof(int)}});
    for (auto* t : {r0.get(), r1.get(), s0.get(), s1.get()}) wait(*t);
    EXPECT_EQ(in[0], from);
    EXPECT_EQ(in[1], -from);
}

TEST(Messages, AboveTheLimitTheyTravelInParts) {
    for (const std::int64_t limit : {1, 7, 1000, 4096}) {
        const auto ranks = mpi_communicator(MPI_COMM_WORLD, limit);
        const std::int64_t large = limit < 1000 ? 100 * limit : 20000;
        exchange_all(*ranks, {limit, limit + 1, large, 0, 5}, 3000, 2000);
        exchange_all(*ranks, {large, large + 1}, 1000000, 1000000);  // a single piece above the limit
    }
}

TEST(Messages, TagsSeparateThem) {
    Communicator& ranks = mpi_world();
    const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
    int out[2] = {10 + ranks.rank(), 20 + ranks.rank()}, in[2] = {};
    std::vector<std::unique_ptr<Transfer>> all;
    all.push_back(ranks.send(to, 1, std::vector<MessagePiece>{{&out[0], 4}}));
    all.push_back(ranks.send(to, 2, std::vector<MessagePiece>{{&out[1], 4}}));
    all.push_back(ranks.receive(from, 2, std::vector<MessagePiece>{{&in[1], 4}}));
    all.push_back(ranks.receive(from, 1, std::vector<MessagePiece>{{&in[0], 4}}));
    wait_all(all);
    EXPECT_EQ(in[0], 10 + from);
    EXPECT_EQ(in[1], 20 + from);
}

TEST(Messages, RefusesWhatIsNoMessage) {
    Communicator& ranks = mpi_world();
    int x = 0;
    const std::vector<MessagePiece> good{{&x, 4}}, negative{{&x, -1}}, nowhere{{nullptr, 4}};
    EXPECT_THROW(ranks.send(ranks.size(), 1, good), UserError);
    EXPECT_THROW(ranks.receive(-1, 1, good), UserError);
    EXPECT_THROW(ranks.send(0, -1, good), UserError);
    EXPECT_THROW(mpi_communicator(MPI_COMM_WORLD, 0), UserError);
    EXPECT_THROW(mpi_communicator(MPI_COMM_WORLD, std::int64_t{1} << 31), UserError);
    EXPECT_THROW(mpi_communicator(MPI_COMM_NULL), UserError);
    if (ranks_of_environment() > 0) {
        EXPECT_THROW(ranks.send(0, 1, negative), UserError);
        EXPECT_THROW(ranks.send(0, 1, nowhere), UserError);
    }
    ranks.barrier();
}

TEST(Messages, AShortOneIsOurBug) {
    Communicator& ranks = mpi_world();
    int out = 7;
    std::int64_t in = 0;
    const auto sent = ranks.send(ranks.rank(), 9, std::vector<MessagePiece>{{&out, 4}});
    const auto got = [&] {
        const auto receive = ranks.receive(ranks.rank(), 9, std::vector<MessagePiece>{{&in, 8}});
        wait(*receive);
    };
    EXPECT_THROW(got(), InternalError);
}

TEST(Collectives, BroadcastGatherSumMax) {
    for (const std::int64_t limit : {std::int64_t{16}, kMessageLimit}) {
        const auto ranks = mpi_communicator(MPI_COMM_WORLD, limit);
        const int n = ranks->size(), me = ranks->rank();
        for (int root = 0; root < n; ++root) {
            std::vector<std::byte> bytes(me == root ? 1001 : 3, static_cast<std::byte>(me));
            ranks->broadcast(bytes, root);
            EXPECT_EQ(bytes, std::vector<std::byte>(1001, static_cast<std::byte>(root)));
        }
        const std::vector<std::byte> mine(static_cast<std::size_t>(me * 40), static_cast<std::byte>(me));
        const auto all = ranks->all_gather(mine);
        ASSERT_EQ(static_cast<int>(all.size()), n);
        for (int r = 0; r < n; ++r)
            EXPECT_EQ(all[static_cast<std::size_t>(r)],
                      std::vector<std::byte>(static_cast<std::size_t>(r * 40), static_cast<std::byte>(r)));
        std::vector<double> d(100), m(100);
        std::vector<std::int64_t> i(100);
        for (int k = 0; k < 100; ++k) {
            d[k] = k % n == me ? 0.1 * k : 0.0;
            i[k] = k * (me + 1);
            m[k] = k == me ? 5.0 : -1.0;
        }
        ranks->sum(d);
        ranks->sum(i);
        ranks->max(m);
        for (int k = 0; k < 100; ++k) {
            EXPECT_EQ(d[k], 0.1 * k);
            EXPECT_EQ(i[k], k * n * (n + 1) / 2);
            EXPECT_EQ(m[k], k < n ? 5.0 : -1.0);
        }
        ranks->sum(std::span<double>());
        ranks->barrier();
    }
}

TEST(Outcome, TheRootsErrorIsEveryones) {
    Communicator& ranks = mpi_world();
    const int root = ranks.size() - 1;
    const auto fails = [&](auto&& error) {
        Outcome outcome;
        if (ranks.rank() == root) {
            outcome.attempt([&] { throw error; });
            outcome.attempt([] { throw InternalError("too late"); });
        }
        outcome.share(ranks, root);
    };
    EXPECT_THROW(fails(UserError("wrong")), UserError);
    EXPECT_THROW(fails(MachineError("full")), MachineError);
    EXPECT_THROW(fails(std::bad_alloc()), MachineError);
    EXPECT_THROW(fails(std::runtime_error("odd")), InternalError);
    Outcome().share(ranks, root);
}

}  // namespace
}  // namespace tessera
