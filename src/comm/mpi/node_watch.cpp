#include "comm/mpi/node_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/check.hpp"
#include "comm/mpi/transfer.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kAlive = 1, kEnd = 2;  // tags
constexpr int kMachineCannot = 3;    // exit code

double since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

}  // namespace

double node_timeout() {
    const char* text = std::getenv("TESSERA_NODE_TIMEOUT");
    if (!text || !*text) return 6;
    char* end = nullptr;
    const double seconds = std::strtod(text, &end);
    require(end != text && *end == '\0' && (seconds == 0 || (seconds >= 2 && seconds <= 1e6)),
            "TESSERA_NODE_TIMEOUT={} is not a number of seconds from 2 to 1e6, or 0 for none", text);
    return seconds;
}

bool NodeWatch::wanted(const std::vector<int>& nodes, double seconds) {
    int level = 0;
    check_mpi(MPI_Query_thread(&level), "thread level");
    return seconds > 0 && level >= MPI_THREAD_MULTIPLE && std::ranges::count(nodes, 0) < std::ssize(nodes);
}

NodeWatch::NodeWatch(MPI_Comm ranks, std::vector<int> nodes, double seconds)
    : nodes_(std::move(nodes)), seconds_(seconds) {
    check_mpi(MPI_Comm_dup(ranks, &ranks_), "duplicate of a communicator");
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ranks_, &rank_);
    // A ring in which the ranks of a node are neighbours: one rank misses a lost node, and one line says so.
    std::vector<int> ring(nodes_.size());
    std::iota(ring.begin(), ring.end(), 0);
    std::ranges::stable_sort(ring, {}, [&](int r) { return nodes_[static_cast<std::size_t>(r)]; });
    const auto me = static_cast<std::size_t>(std::ranges::find(ring, rank_) - ring.begin());
    before_ = ring[(me + ring.size() - 1) % ring.size()];
    after_ = ring[(me + 1) % ring.size()];
    std::array<char, 256> mine{}, theirs{};
    gethostname(mine.data(), mine.size() - 1);
    check_mpi(MPI_Sendrecv(mine.data(), 256, MPI_CHAR, after_, kAlive, theirs.data(), 256, MPI_CHAR, before_, kAlive,
                           ranks_, MPI_STATUS_IGNORE),
              "names of nodes");
    name_before_ = theirs.data();
    thread_ = std::thread([this] { watch(); });
}

NodeWatch::~NodeWatch() {
    over_ = true;
    thread_.join();
    MPI_Comm_free(&ranks_);
}

void NodeWatch::watch() {
    char alive_in = 0, end_in = 0;
    const char alive_out = 0;
    MPI_Request heard = MPI_REQUEST_NULL, end = MPI_REQUEST_NULL, said = MPI_REQUEST_NULL;
    const auto listen = [&] { return MPI_Irecv(&alive_in, 1, MPI_CHAR, before_, kAlive, ranks_, &heard); };
    const auto over = [](MPI_Request& request, int& code) {
        int flag = 0;
        code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        return code == MPI_SUCCESS && flag;
    };
    int code = listen();
    if (code == MPI_SUCCESS) code = MPI_Irecv(&end_in, 1, MPI_CHAR, MPI_ANY_SOURCE, kEnd, ranks_, &end);
    auto last_heard = Clock::now(), last_look = last_heard;
    auto last_said = last_heard - 1s;
    while (!over_ && code == MPI_SUCCESS) {
        // A process that was stopped, and goes on, has not listened meanwhile: that time does not count.
        if (since(last_look) > 2) last_heard += Clock::now() - last_look;
        last_look = Clock::now();
        if (over(end, code)) std::_Exit(kMachineCannot);  // another rank has said why
        if (code == MPI_SUCCESS && over(heard, code)) {
            last_heard = Clock::now();
            code = listen();
        }
        if (since(last_heard) > seconds_) lost(fmt::format("has been silent for {:.0f} s", seconds_));
        if (since(last_said) >= 1) {
            int sent = 1, why = MPI_Test(&said, &sent, MPI_STATUS_IGNORE);  // who does not take it is not our affair
            if (why == MPI_SUCCESS && sent) MPI_Isend(&alive_out, 1, MPI_CHAR, after_, kAlive, ranks_, &said);
            last_said = Clock::now();
        }
        std::this_thread::sleep_for(20ms);
    }
    if (!over_) lost("is out of reach");
    for (MPI_Request* request : {&heard, &end, &said}) {
        if (*request == MPI_REQUEST_NULL) continue;
        if (request != &said) MPI_Cancel(request);
        MPI_Request_free(request);
    }
}

void NodeWatch::lost(const std::string& how) {
    // Where MPI hangs in what follows, this process ends all the same.
    std::thread([] {
        std::this_thread::sleep_for(2s);
        std::_Exit(kMachineCannot);
    }).detach();
    const int node = nodes_[static_cast<std::size_t>(before_)];
    std::fflush(stdout);
    fmt::print(stderr, "tessera: rank {}: {}, the node of rank {}, {}: it is lost, and all ranks end\n", rank_,
               name_before_, before_, how);
    std::fflush(stderr);
    std::this_thread::sleep_for(100ms);  // until the launcher has passed the message on
    const char word = 0;
    std::vector<MPI_Request> words;
    for (int r = 0; r < static_cast<int>(nodes_.size()); ++r) {
        if (r == rank_ || nodes_[static_cast<std::size_t>(r)] == node) continue;
        words.emplace_back();
        if (MPI_Isend(&word, 1, MPI_CHAR, r, kEnd, ranks_, &words.back()) != MPI_SUCCESS) words.pop_back();
    }
    for (int looks = 0, all = 0; looks < 25 && !all; ++looks) {
        if (MPI_Testall(static_cast<int>(words.size()), words.data(), &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
        std::this_thread::sleep_for(20ms);
    }
    MPI_Abort(MPI_COMM_WORLD, kMachineCannot);
    std::_Exit(kMachineCannot);
}

}  // namespace tessera
