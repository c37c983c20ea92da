#pragma once
// The interpreter of one rank's steps over devices. Each stream of a device has a thread that issues its steps in the
// plan's order and never waits for the device itself, only for room in a staging ring; one thread watches the streams;
// workers pack, unpack, make and finish tiles.

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "execute/cpu/tile_layouts.hpp"
#include "execute/device/device_tiles.hpp"
#include "execute/device/execute_devices.hpp"
#include "execute/device/scheduler.hpp"
#include "execute/device/staging_ring.hpp"
#include "execute/device/stream_queue.hpp"
#include "execute/device/worker_pool.hpp"
#include "execute/host_tiles.hpp"
#include "execute/messages.hpp"
#include "execute/progress.hpp"

namespace tessera {

template <Scalar T>
class DeviceInterpreter {
  public:
    DeviceInterpreter(std::span<const std::unique_ptr<Device>> devices, const Plan& plan, int rank,
                      const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                      const ExecuteOptions<T>& options, const DeviceOptions& device_options);
    ~DeviceInterpreter();
    DeviceExecuteCounts run();

  private:
    using Scratch = WorkerPool::Scratch;

    /// A ring in pinned memory.
    struct Staging {
        Device::Pinned memory;
        std::optional<StagingRing> ring;
        std::byte* at(std::int64_t offset) const { return memory.get() + offset; }
    };
    /// A device of the list, and what is kept for it.
    struct Entry {
        Device* device = nullptr;
        std::array<std::unique_ptr<StreamQueue>, kLaneCount> streams;
        std::array<std::vector<std::int64_t>, kLaneCount> waited;  // by stream: the latest ticket waited for
        Staging in, out, images;  // images lie at the same offsets in the device's reserve
        std::mutex packed_mutex;
        std::condition_variable packed;
        DeviceRun run;
        std::atomic<std::int64_t> descriptor_bytes{0}, launches{0};
    };

    // A load on its way: the rows of some tiles that lie one after another on the device.
    struct Fragment {
        std::int64_t arrival, begin, end;
    };
    struct Piece {
        std::vector<Fragment> fragments;
        std::int64_t to = 0, bytes = 0;
        std::int64_t staged = -1;  // in the ring
        bool packed = false;       // under the entry's mutex
    };
    /// What the load thread has begun and not yet issued: a step begins, a piece of it, the step ends.
    struct LoadItem {
        std::int32_t step;
        bool begins, ends;
        std::shared_ptr<Piece> piece;
    };
    /// A result tile that arrives in parts: how many are to come, and the sums of squares of the tile's chunks.
    struct Parts {
        std::atomic<std::int64_t> left{0};
        std::vector<double> squares = {};  // below 0: a chunk that no part holds whole
    };
    /// A store on its way: moves whose sums lie one after another on the device, or rows of one of them.
    struct Delivery {
        std::int64_t begin = 0, end = 0;  // moves
        std::int64_t from = 0, bytes = 0;
        std::int64_t row_begin = 0, row_end = -1;  // of a move that is cut
        std::shared_ptr<Parts> parts = {};
        std::int64_t staged = 0;
    };

    // Setting up and ending (interpreter.cpp).
    void find_fused_sums();
    int workers() const;
    void make_rings();
    void start_threads();
    void watch();
    void shut_down() noexcept;
    template <class Body>
    void guarded(Body&& body);

    // Lanes: each runs on its own thread.
    void load_lane(int d);
    void store_lane(int d);
    void copy_lane(int d);
    void compute_lane(int d);
    void finish_there(int d, const PlanStep& s);
    void merge_there(int d, const PlanStep& s);
    void make_lane(int d);

    // Tiles that devices store (interpreter_resident.cpp).
    std::int64_t offset_there(int d, Operand o, std::int32_t slot) const;
    void lay_anew(int d, const PlanStep& s);
    void lay_back(int d, const PlanStep& s);

    // Copies (interpreter_copies.cpp).
    std::vector<std::shared_ptr<Piece>> cut_load(const PlanStep& s) const;
    bool issue_front(int d, std::deque<LoadItem>& items, bool block);
    void pack(const Piece& piece, std::byte* to) const;
    std::vector<Delivery> cut_store(const PlanStep& s) const;
    bool cut_at_rows(const PlanMove& move) const;
    void deliver(const Delivery& piece, std::byte* at, Scratch& scratch);
    void deliver(const PlanMove& move, std::byte* from, Scratch& scratch);
    void finish_parts(const PlanMove& move, const Parts& parts);

    // Kernels (interpreter_kernels.cpp).
    struct Batch;
    /// Of a result tile: some rows and columns at one point of the batch.
    struct TilePart {
        std::int64_t batch, row, col, rows, cols;
    };
    void add_chain(Batch& batch, const PlanChain& chain);
    void add_part(Batch& batch, const PlanChain& chain, const TilePart& part);
    template <class List>
    void launch_list(int d, Lane lane, const List& list, std::int64_t bound);

    // Host steps (interpreter.cpp).
    void host_ready(std::int32_t step);
    void host_work(std::int32_t step, std::vector<WorkerPool::Task> tasks);
    void start_messages();
    bool poll_messages();

    void note_host(std::int32_t step, StepKind kind, int thread, double begin, double amount);
    Trace trace() const;

    // Marks of a step on its stream.
    void begin_step(int d, Lane lane, std::int32_t step);
    /// What was issued for the step has been; it is done when the device gets there, or `reached`, called then, says
    /// so.
    void end_step(int d, Lane lane, std::int32_t step, std::int64_t bytes, double flops = 0,
                  const std::function<void()>& reached = {});

    const DeviceTiles& tiles(Operand o) const { return o == Operand::a ? tiles_a_ : tiles_b_; }
    StreamQueue& stream(std::int32_t id) { return *entries_[id / kLaneCount]->streams[id % kLaneCount]; }
    std::function<bool()> stopped() const {
        return [this] { return scheduler_.failed(); };
    }

    const Plan& plan_;
    const int rank_;
    const TileSink<T>& c_;
    const ExecuteOptions<T>& options_;
    const DeviceOptions& device_options_;
    ContractionSpec spec_;
    MatrixView labels_;
    DeviceTiles tiles_a_, tiles_b_, tiles_c_;
    HostTiles<T> host_;
    std::vector<std::uint8_t> fused_;    // by sum: finished as soon as it arrives
    std::vector<std::uint8_t> written_;  // by sum: something arrives in it
    std::vector<std::unique_ptr<Entry>> entries_;
    double start_ = 0;
    std::vector<TraceSpan> device_spans_;  // by step
    std::mutex host_spans_mutex_;
    std::vector<TraceSpan> host_spans_;  // by worker thread instead of lane
    Progress progress_;
    std::atomic<std::int64_t> computes_{0};
    std::int64_t pinned_bytes_ = 0;

    StepScheduler scheduler_;
    StepBoard board_;  // of messages: what they wait for, and which are over
    std::optional<Messages> messages_;
    std::mutex messages_mutex_;
    std::vector<std::int32_t> open_messages_;  // whose turn has come
    std::vector<std::thread> lanes_;
    std::thread watcher_;
    std::atomic<bool> watching_{false};
    std::optional<WorkerPool> pool_;  // last: its threads use everything above
};

}  // namespace tessera
