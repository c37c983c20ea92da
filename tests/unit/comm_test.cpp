#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/outcome.hpp"
#include "comm/wait.hpp"
#include "execute/messages.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera {
namespace {

using Pieces = std::vector<MessagePiece>;

/// One of two ranks, with few tags; nothing ever comes.
class FewTags final : public Communicator {
  public:
    explicit FewTags(int most) : most_(most) {}
    int rank() const override { return 0; }
    int size() const override { return 2; }
    int most_tag() const override { return most_; }
    std::unique_ptr<Transfer> send(int, int, std::span<const MessagePiece>) override { return nullptr; }
    std::unique_ptr<Transfer> receive(int, int, std::span<const MessagePiece>) override { return nullptr; }
    void barrier() override {}
    void broadcast(std::vector<std::byte>&, int) override {}
    std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte>) override { return {}; }
    void sum(std::span<double>) override {}
    void sum(std::span<std::int64_t>) override {}
    void max(std::span<double>) override {}
    [[noreturn]] void abort(int) override { std::abort(); }

  private:
    int most_;
};

/// Messages start in any order, so two of them never have one tag: more messages than tags are refused.
TEST(Messages, EveryMessageHasItsOwnTag) {
    Plan plan;
    plan.ranks = 2;
    for (int i = 0; i < 4; ++i) plan.steps.push_back({StepKind::send, -1, 0, 1, 0, 0, 0, 0});
    for (int i = 0; i < 2; ++i) plan.steps.push_back({StepKind::receive, -1, 0, 1, 0, 0, 0, 0});
    StepBoard board(plan.steps.size());
    for (const int most : {3, 32767}) {
        FewTags ranks(most);
        EXPECT_NO_THROW(Messages(plan, ranks, board));
    }
    FewTags few(2);
    try {
        Messages(plan, few, board);
        ADD_FAILURE();
    } catch (const MachineError& e) {
        EXPECT_NE(std::string(e.what()).find("3 tags"), std::string::npos) << e.what();
    }
}

TEST(SelfCommunicator, MessagesToOneselfMatchInOrder) {
    Communicator& self = self_communicator();
    EXPECT_EQ(self.rank(), 0);
    EXPECT_EQ(self.size(), 1);
    char first[] = "abcdef", second[] = "ghi", one[7] = {}, two[4] = {};
    const auto r1 = self.receive(0, 4, Pieces{{one, 1}, {one + 1, 5}});
    EXPECT_FALSE(r1->done());
    const auto s1 = self.send(0, 4, Pieces{{first, 4}, {first + 4, 0}, {first + 4, 2}});
    EXPECT_TRUE(r1->done() && s1->done());
    const auto s2 = self.send(0, 4, Pieces{{second, 3}});
    const auto other = self.send(0, 5, Pieces{});
    EXPECT_FALSE(s2->done() || other->done());
    const auto r2 = self.receive(0, 4, Pieces{{two, 3}});
    const auto empty = self.receive(0, 5, Pieces{});
    EXPECT_TRUE(r2->done() && s2->done() && other->done() && empty->done());
    EXPECT_STREQ(one, "abcdef");
    EXPECT_STREQ(two, "ghi");
    EXPECT_THROW(self.send(1, 0, Pieces{}), UserError);
    EXPECT_THROW(self.send(0, -1, Pieces{}), UserError);
    const auto longer = self.send(0, 6, Pieces{{first, 6}});
    EXPECT_THROW(self.receive(0, 6, Pieces{{two, 3}}), InternalError);
}

TEST(SelfCommunicator, CollectivesChangeNothing) {
    Communicator& self = self_communicator();
    std::vector<std::byte> bytes(3, std::byte{7});
    self.broadcast(bytes, 0);
    EXPECT_EQ(bytes, std::vector<std::byte>(3, std::byte{7}));
    EXPECT_EQ(self.all_gather(bytes), std::vector<std::vector<std::byte>>{bytes});
    double x[] = {1, 2};
    self.sum(std::span<double>(x));
    self.max(std::span<double>(x));
    EXPECT_EQ(x[1], 2);
    EXPECT_THROW(self.broadcast(bytes, 1), UserError);
}

TEST(World, APlainRunIsOneRank) {
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_SIZE",
                                 "PALS_SIZE", "PALS_RANKID", "SLURM_STEP_NUM_TASKS"})
        ::unsetenv(variable);
    EXPECT_EQ(ranks_of_environment(), 0);
    ::setenv("SLURM_NTASKS", "8", 1);  // a shell inside an allocation
    EXPECT_EQ(ranks_of_environment(), 0);
    EXPECT_EQ(&mpi_world(), &self_communicator());
    ::setenv("PMIX_RANK", "2", 1);
    EXPECT_EQ(ranks_of_environment(), 1);
    ::setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    EXPECT_EQ(ranks_of_environment(), 8);
    ::setenv("PMI_SIZE", "5", 1);
    EXPECT_EQ(ranks_of_environment(), 5);
    ::setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    EXPECT_EQ(ranks_of_environment(), 3);
    ::setenv("OMPI_COMM_WORLD_SIZE", "many", 1);
    EXPECT_EQ(ranks_of_environment(), 1);
}

TEST(World, AnErrorBecomesItsExitCode) {
    Communicator& self = self_communicator();
    EXPECT_EQ(run_ranks_or_abort(self, [] {}), 0);
    EXPECT_EQ(run_ranks_or_abort(self, [] { throw UserError("wrong"); }), 2);
    EXPECT_EQ(run_ranks_or_abort(self, [] { throw MachineError("cannot"); }), 3);
    EXPECT_EQ(run_ranks_or_abort(self, [] { throw std::bad_alloc(); }), 3);
    EXPECT_EQ(run_ranks_or_abort(self, [] { throw InternalError("bug"); }), 70);
    EXPECT_EQ(run_ranks_or_abort(self, [] { throw std::runtime_error("odd"); }), 70);
}

TEST(World, OneRankTensorsMoveWithinThemselves) {
    const TileGrid grid{Tiling{2, 3}, Tiling{4, 1}};
    const auto x = Tensor<double>::random(Shape::dense(grid), 1);
    const auto y = redistribute(x, Distribution(1, {{1}, {1}}));
    EXPECT_EQ(checksum(gather(y)), checksum(x));
    EXPECT_EQ(checksum(scatter(x, self_communicator(), y.distribution())), checksum(x));
    EXPECT_TRUE(x == y);
    EXPECT_THROW(redistribute(x, Distribution(2, {{1}, {2}})), UserError);
}

}  // namespace
}  // namespace tessera
