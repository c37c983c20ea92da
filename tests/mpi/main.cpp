// Every rank runs every test; rank 0 reports, the others only what fails.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"

namespace {

class FailuresOnly : public testing::EmptyTestEventListener {
  public:
    explicit FailuresOnly(int rank) : rank_(rank) {}

  private:
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
            std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                         result.summary());
    }
    int rank_;
};

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    // As a program that has MPI of its own and asks it for as little as it can.
    const bool funneled = std::getenv("TESSERA_TEST_FUNNELED") != nullptr;
    int level = 0;
    if (funneled) MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    tessera::Communicator& ranks = tessera::mpi_world();
    if (funneled && !ranks.main_thread_alone()) std::printf("MPI gives level %d\n", level);
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (ranks.rank() != 0) {
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new FailuresOnly(ranks.rank()));
    }
    int failed = 0;
    const int code = tessera::run_ranks_or_abort(ranks, [&] { failed = RUN_ALL_TESTS(); });
    if (funneled) MPI_Finalize();
    return code != 0 ? code : failed;
}
