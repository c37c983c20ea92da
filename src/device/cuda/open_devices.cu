#include "device/open_devices.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/grouped_gemm.hpp"
#include "device/cuda/store.hpp"
#include "machine/device_layout.hpp"
#include "storage/buffer.hpp"
#include "storage/release.hpp"

namespace tessera {

namespace {

namespace cuda = kernels::cuda;
using cuda::check;

__global__ void failing_kernel() { __trap(); }

/// Descriptors, read from pinned host memory: a copy would wait behind the loads for the link's copy engine.
__global__ void fetch_kernel(uint4* to, const uint4* from, std::int64_t count) {
    for (std::int64_t i = blockIdx.x * std::int64_t{256} + threadIdx.x; i < count; i += gridDim.x * std::int64_t{256})
        to[i] = from[i];
}

struct GroupedImage : Device::Launch {
    cuda::GroupedLaunch launch;
};
struct HashImage : Device::Launch {
    cuda::HashLaunch launch;
};

/// Pinned host memory that is kept for the next contraction: huge pages, touched by all cores and then registered take
/// a tenth of the time of the driver's own allocation, but still more than a small contraction.
class PinnedPool {
  public:
    /// Never destroyed: the driver may be gone by then, and unregisters what is left by itself.
    static PinnedPool& instance() {
        static auto& pool = *[] {
            on_release_memory([]() noexcept { instance().release(); });
            return new PinnedPool;
        }();
        return pool;
    }

    Device::Pinned take(std::int64_t bytes) {
        bytes = rounded(bytes);
        auto block = take_kept(bytes);
        if (!block) block = std::make_unique<Block>(bytes);
        auto* data = block->memory.data();
        const std::shared_ptr<Block> owner(block.release(), [this](Block* b) { keep(std::unique_ptr<Block>(b)); });
        return {owner, data};
    }

  private:
    static constexpr std::int64_t kKept = std::int64_t{512} << 20, kLeast = std::int64_t{2} << 20;
    struct Block {
        explicit Block(std::int64_t bytes) : memory(bytes) {
            touch_pages({memory.data(), static_cast<std::size_t>(bytes)}, 0);
            pinned.emplace(memory.data(), bytes);
        }
        Buffer memory;
        std::optional<cuda::PinnedRange> pinned;
    };
    /// Few different sizes, so that blocks fit again.
    static std::int64_t rounded(std::int64_t bytes) {
        std::int64_t unit = kLeast;
        while (unit < bytes / 4) unit *= 2;
        return std::max((bytes + unit - 1) / unit * unit, kLeast);
    }
    std::unique_ptr<Block> take_kept(std::int64_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto at = kept_.lower_bound(bytes);
        if (at == kept_.end() || at->first > 4 * bytes) return nullptr;
        auto block = std::move(at->second);
        kept_bytes_ -= at->first;
        kept_.erase(at);
        return block;
    }
    void release() noexcept {
        const std::lock_guard lock(mutex_);
        kept_.clear();
        kept_bytes_ = 0;
    }
    void keep(std::unique_ptr<Block> block) {
        const std::lock_guard lock(mutex_);
        const auto bytes = block->memory.bytes();
        if (kept_bytes_ + bytes > kKept) return;
        kept_bytes_ += bytes;
        kept_.emplace(bytes, std::move(block));
    }
    std::mutex mutex_;
    std::multimap<std::int64_t, std::unique_ptr<Block>> kept_;
    std::int64_t kept_bytes_ = 0;
};

class CudaDevice final : public Device {
  public:
    CudaDevice(int id, std::int64_t arena_bytes, std::int64_t reserve_bytes, ScalarKind kind)
        : id_(id), arena_bytes_(arena_bytes), reserve_bytes_(reserve_bytes), kind_(kind) {
        use();
        int multiprocessors = 0;
        check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, id), "device attributes");
        multiprocessors_ = multiprocessors;
        const auto bytes = arena_bytes + reserve_bytes;
        void* memory = nullptr;
        auto status = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
        if (status == cudaErrorMemoryAllocation && cuda::kept_pool_bytes(id) > 0) {
            cudaGetLastError();
            cuda::trim_pool(id);
            status = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
        }
        if (status == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            std::size_t free = 0, total = 0;
            cudaMemGetInfo(&free, &total);
            throw MachineError(
                "CUDA device " + std::to_string(id) + ": no " + format_bytes(bytes) + " of memory; " +
                format_bytes(static_cast<std::int64_t>(free)) + " of " +
                format_bytes(static_cast<std::int64_t>(total)) +
                " are free, the rest is held by this or other programs: a smaller memory budget may fit");
        }
        check(status, "allocate");
        memory_ = static_cast<std::byte*>(memory);
        try {
            for (auto& s : streams_) check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
            start_ = new_event();
            check(cudaEventRecord(start_, streams_[0]), "record");
            check(cudaEventSynchronize(start_), "wait for event");
            start_seconds_ = now_seconds();
        } catch (...) {
            release();
            throw;
        }
    }
    ~CudaDevice() override {
        drain();
        release();
    }

    std::byte* arena() const override { return memory_; }
    std::byte* reserve() const override { return memory_ + arena_bytes_; }
    std::int64_t reserve_bytes() const override { return reserve_bytes_; }
    std::int64_t high_water() const override { return arena_bytes_ + reserve_bytes_; }
    Pinned pinned(std::int64_t bytes) override {
        use();
        return PinnedPool::instance().take(bytes);
    }

    Event record(Lane lane) override {
        use();
        cudaEvent_t event = nullptr;
        {
            const std::lock_guard lock(events_mutex_);
            if (!free_events_.empty()) {
                event = free_events_.back();
                free_events_.pop_back();
            }
        }
        if (event == nullptr) event = new_event();
        check(cudaEventRecord(event, stream(lane)), "record");
        return event;
    }
    void wait(Lane lane, Event event) override {
        use();
        check(cudaStreamWaitEvent(stream(lane), static_cast<cudaEvent_t>(event), 0), "wait for an event");
    }
    bool complete(Event event) override {
        use();
        const auto status = cudaEventQuery(static_cast<cudaEvent_t>(event));
        if (status == cudaErrorNotReady) {
            cudaGetLastError();
            return false;
        }
        check(status, "a kernel or copy of the contraction");
        return true;
    }
    double seconds(Event event) override {
        use();
        float ms = 0;
        check(cudaEventElapsedTime(&ms, start_, static_cast<cudaEvent_t>(event)), "elapsed");
        return start_seconds_ + 1e-3 * ms;
    }
    void recycle(Event event) noexcept override {
        const std::lock_guard lock(events_mutex_);
        free_events_.push_back(static_cast<cudaEvent_t>(event));
    }

    void copy_in(Lane lane, std::byte* to, const std::byte* host, std::int64_t bytes) override {
        use();
        check(cudaMemcpyAsync(to, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream(lane)),
              "copy to the device");
    }
    void copy_out(Lane lane, std::byte* host, const std::byte* from, std::int64_t bytes) override {
        use();
        check(cudaMemcpyAsync(host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream(lane)),
              "copy to the host");
    }
    void copy_from(Lane lane, std::byte* to, const Device& peer, const std::byte* from, std::int64_t bytes) override {
        use();
        const int there = static_cast<const CudaDevice&>(peer).id_;
        if (there == id_)
            check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream(lane)),
                  "copy on the device");
        else
            check(cudaMemcpyPeerAsync(to, id_, from, there, static_cast<std::size_t>(bytes), stream(lane)),
                  "copy between devices");
    }
    void zero(Lane lane, std::byte* to, std::int64_t bytes) override {
        use();
        check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream(lane)), "fill");
    }

    std::int64_t header_bytes() const override { return cuda::kImageSlack; }
    std::int64_t product_bytes(std::int64_t m, std::int64_t n, std::int64_t products) const override {
        return cuda::grouped_bytes_bound(m, n, products);
    }
    std::int64_t hash_bytes(std::int64_t rows, std::int64_t columns) const override {
        return cuda::hash_bytes_bound(rows, columns);
    }
    std::unique_ptr<Launch> prepare(const DeviceProducts& list, std::byte* image) override {
        cuda::GroupedList grouped(kind_);
        for (const auto& c : list.chains) {
            grouped.add_tile(cuda::address_of(memory_ + c.c), c.m, c.n, c.ldc, c.resume);
            for (auto i = c.first_product; i < c.first_product + c.products; ++i) {
                const auto& p = list.products[static_cast<std::size_t>(i)];
                grouped.add_product(
                    cuda::address_of(memory_ + p.a), p.lda, cuda::address_of(memory_ + p.b), p.ldb, p.k,
                    (p.conjugate_a ? cuda::kConjugateA : 0u) | (p.conjugate_b ? cuda::kConjugateB : 0u) |
                        (p.transpose_a ? cuda::kTransposeA : 0u) | (p.transpose_b ? cuda::kTransposeB : 0u));
            }
        }
        auto out = std::make_unique<GroupedImage>();
        out->launch = grouped.plan(multiprocessors_);
        out->bytes = out->launch.bytes;
        grouped.write_image(image);
        return out;
    }
    std::unique_ptr<Launch> prepare(const std::vector<DeviceHashTile>& list, std::byte* image) override {
        cuda::HashList hash(kind_);
        for (const auto& t : list)
            hash.add({cuda::address_of(memory_ + t.out), t.state, t.scale, t.rows, t.columns, t.ld, 0});
        auto out = std::make_unique<HashImage>();
        out->launch = hash.plan();
        out->bytes = out->launch.bytes;
        hash.write_image(image);
        return out;
    }
    void launch(Lane lane, const Launch& launch, const std::byte* from, std::byte* image) override {
        use();
        void* mapped = nullptr;
        check(cudaHostGetDevicePointer(&mapped, const_cast<std::byte*>(from), 0), "descriptors");
        const auto pieces = (launch.bytes + 15) / 16;
        fetch_kernel<<<static_cast<unsigned>(std::min<std::int64_t>((pieces + 255) / 256, 4 * multiprocessors_)), 256,
                       0, stream(lane)>>>(reinterpret_cast<uint4*>(image), static_cast<const uint4*>(mapped), pieces);
        check(cudaGetLastError(), "descriptors");
        if (const auto* grouped = dynamic_cast<const GroupedImage*>(&launch))
            cuda::run_grouped(grouped->launch, image, stream(lane));
        else
            cuda::run_hash(dynamic_cast<const HashImage&>(launch).launch, image, stream(lane));
    }
    void launch(Lane lane, const DeviceLaunch& make, std::span<const DeviceTile> tiles) override {
        use();
        check(cudaGetLastError(), "a kernel or copy of the contraction");  // not theirs
        make(tiles, stream(lane));
        const auto status = cudaGetLastError();
        if (status != cudaSuccess)
            throw UserError(std::string("the device code of a tile source: ") + cudaGetErrorString(status));
    }
    void launch(Lane lane, std::function<void(void* stream)> work) override {
        use();
        work(stream(lane));
    }
    void fault(Lane lane) override {
        use();
        failing_kernel<<<1, 1, 0, stream(lane)>>>();
        check(cudaGetLastError(), "failing kernel");
    }
    void drain() noexcept override {
        if (cudaSetDevice(id_) != cudaSuccess) return;
        for (auto s : streams_)
            if (s != nullptr) cudaStreamSynchronize(s);
    }

  private:
    void use() const { check(cudaSetDevice(id_), "set device"); }
    cudaStream_t stream(Lane lane) const { return streams_[static_cast<int>(lane)]; }
    cudaEvent_t new_event() {
        cudaEvent_t e = nullptr;
        check(cudaEventCreate(&e), "event");
        const std::lock_guard lock(events_mutex_);
        events_.push_back(e);
        return e;
    }
    void release() noexcept {
        cudaSetDevice(id_);
        for (auto e : events_) cudaEventDestroy(e);
        for (auto s : streams_)
            if (s != nullptr) cudaStreamDestroy(s);
        if (memory_ != nullptr) cudaFree(memory_);
        cudaGetLastError();
    }

    int id_;
    std::int64_t arena_bytes_, reserve_bytes_;
    ScalarKind kind_;
    int multiprocessors_ = 0;
    std::byte* memory_ = nullptr;
    cudaStream_t streams_[kLaneCount] = {};
    std::mutex events_mutex_;
    std::vector<cudaEvent_t> events_, free_events_;
    cudaEvent_t start_ = nullptr;
    double start_seconds_ = 0;
};

/// Copies between GPUs that can reach each other go straight instead of through the host. Beyond the pairs that a GPU
/// takes (eight without a switch) the driver passes the host by itself, as for those that cannot.
void enable_peers(std::span<const int> ids) {
    for (const int here : ids)
        for (const int there : ids) {
            int can = 0;
            if (here == there || cudaDeviceCanAccessPeer(&can, here, there) != cudaSuccess || can == 0) continue;
            check(cudaSetDevice(here), "set device");
            const auto status = cudaDeviceEnablePeerAccess(there, 0);
            if (status != cudaErrorPeerAccessAlreadyEnabled && status != cudaErrorTooManyPeers)
                check(status, "peer access");
            cudaGetLastError();
        }
}

}  // namespace

std::vector<std::unique_ptr<Device>> open_devices(std::span<const int> ids, std::span<const std::int64_t> arena_bytes,
                                                  std::int64_t budget, ScalarKind kind) {
    for (const int id : ids) device::set_current(id);  // throws where there is none
    std::map<int, std::int64_t> wanted;
    std::vector<std::int64_t> reserves;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto own = budget > 0 ? budget : device_budget_for(arena_bytes[i]);
        reserves.push_back(device_reserve_bytes(own));
        if (arena_bytes[i] + reserves.back() > own)
            throw InternalError("internal: a plan with " + std::to_string(arena_bytes[i]) +
                                " bytes of tiles in a device budget of " + std::to_string(own));
        wanted[ids[i]] += own;
    }
    for (const auto& [id, bytes] : wanted) {
        std::size_t free = 0, total = 0;
        check(cudaSetDevice(id), "set device");
        check(cudaMemGetInfo(&free, &total), "memory of the device");
        if (bytes > static_cast<std::int64_t>(total))
            throw MachineError("CUDA device " + std::to_string(id) + " has " +
                               format_bytes(static_cast<std::int64_t>(total)) + " of memory, but " +
                               format_bytes(bytes) + " are asked for");
    }
    enable_peers(ids);
    std::vector<std::unique_ptr<Device>> devices;
    for (std::size_t i = 0; i < ids.size(); ++i)
        devices.push_back(std::make_unique<CudaDevice>(ids[i], arena_bytes[i], reserves[i], kind));
    return devices;
}

}  // namespace tessera
