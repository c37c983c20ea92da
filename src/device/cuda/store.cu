#include "device/store.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <string>
#include <utility>

#include "base/hash.hpp"
#include "base/units.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/grouped_gemm.hpp"
#include "device/cuda/store.hpp"
#include "device/cuda/store_kernels.cuh"
#include "device/discovery.hpp"
#include "kernels/tile_math.hpp"
#include "storage/release.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

namespace cuda = kernels::cuda;
using cuda::check;

template <Scalar T>
struct OnDevice {
    using type = T;
};
template <class R>
struct OnDevice<std::complex<R>> {
    using type = cuda::device::Pair<R>;
};

template <class Body>
void with_scalar(ScalarKind kind, Body&& body) {
    switch (kind) {
        case ScalarKind::f32:
            return body(float{});
        case ScalarKind::f64:
            return body(double{});
        case ScalarKind::c64:
            return body(cuda::device::Pair<float>{});
        case ScalarKind::c128:
            return body(cuda::device::Pair<double>{});
    }
}

template <class T>
T factor(std::complex<double> value) {
    using R = typename cuda::device::Arithmetic<T>::Real;
    if constexpr (cuda::device::Arithmetic<T>::reals == 2)
        return {static_cast<R>(value.real()), static_cast<R>(value.imag())};
    else
        return static_cast<T>(value.real());
}

struct CudaProducts : DeviceStore::Products {
    cuda::GroupedLaunch launch;
    DeviceStore::Memory image;
};

/// Portions of a list that fit a kernel's arguments. Calls run(jobs, count, most elements of one).
template <class Jobs, class Job, class Elements, class Run>
void in_portions(std::span<const Job> jobs, const Elements& elements, const Run& run) {
    constexpr auto most = sizeof(Jobs::job) / sizeof(Job);
    for (std::size_t begin = 0; begin < jobs.size();) {
        Jobs portion;
        unsigned count = 0;
        std::int64_t largest = 0;
        for (; begin < jobs.size() && count < most; ++begin) {
            if (elements(jobs[begin]) == 0) continue;
            portion.job[count++] = jobs[begin];
            largest = std::max(largest, elements(jobs[begin]));
        }
        if (count > 0) run(portion, count, largest);
    }
}

class CudaStore final : public DeviceStore {
  public:
    explicit CudaStore(int id) : id_(id) {
        use();
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id = id;
        check(cudaMemPoolCreate(&pool_, &properties), "memory pool");
        std::uint64_t keep = UINT64_MAX;
        check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
        check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, id), "device attributes");
    }

    /// From the pool; else from the driver itself: after thousands of allocations of many sizes a pool has refused a
    /// large one while most of the memory was free, trimmed and with nothing under way.
    Memory allocate(std::int64_t bytes, const std::string& what) override {
        use();
        if (bytes == 0) return nullptr;
        void* memory = nullptr;
        const auto size = static_cast<std::size_t>(bytes);
        const auto refused = [](cudaError_t status) {
            if (status != cudaErrorMemoryAllocation) return false;
            cudaGetLastError();
            return true;
        };
        bool from_pool = true;
        auto status = cudaMallocFromPoolAsync(&memory, size, pool_, stream_);
        if (refused(status)) {
            from_pool = false;
            status = cudaMalloc(&memory, size);
        }
        if (refused(status)) {  // the pool keeps what others need
            check(cudaStreamSynchronize(stream_), "wait for the stream of tensors");
            cudaMemPoolTrimTo(pool_, 0);
            status = cudaMalloc(&memory, size);
        }
        if (refused(status)) {
            std::size_t free = 0, total = 0;
            cudaMemGetInfo(&free, &total);
            throw MachineError("CUDA device " + std::to_string(id_) + ": " + what + ": no " + format_bytes(bytes) +
                               " of memory; " + format_bytes(static_cast<std::int64_t>(free)) + " of " +
                               format_bytes(static_cast<std::int64_t>(total)) + " are free");
        }
        check(status, "allocate");
        used_ += bytes;
        return {static_cast<std::byte*>(memory), [this, bytes, from_pool](std::byte* p) {
                    used_ -= bytes;
                    // cudaFree waits for all work of the device, so for that of the stream.
                    if (cudaSetDevice(id_) == cudaSuccess) from_pool ? cudaFreeAsync(p, stream_) : cudaFree(p);
                    cudaGetLastError();
                }};
    }
    std::int64_t used_bytes() const override { return used_; }
    void* stream() const override { return stream_; }
    void synchronize() override {
        use();
        check(cudaStreamSynchronize(stream_), "work on tensors of a device");
    }

    void copy_in(void* to, const void* host, std::int64_t bytes) override {
        copy_on(to, host, bytes, cudaMemcpyHostToDevice);
        check(cudaStreamSynchronize(stream_), "copy to the device");
    }
    void copy_out(void* host, const void* from, std::int64_t bytes) override {
        copy_on(host, from, bytes, cudaMemcpyDeviceToHost);
        check(cudaStreamSynchronize(stream_), "copy to the host");
    }
    void copy(void* to, const void* from, std::int64_t bytes) override { copy_on(to, from, bytes, cudaMemcpyDefault); }
    void zero(void* to, std::int64_t bytes) override {
        use();
        if (bytes > 0) check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream_), "fill");
    }

    void elements(ScalarKind kind, ElementOperation operation, std::span<const ElementJob> jobs,
                  const ElementOptions& options, void* stream) override {
        use();
        with_scalar(kind, [&]<class T>(T) {
            const cuda::device::Factors<T> f{factor<T>(options.alpha), factor<T>(options.beta), options.conjugate_x,
                                             options.conjugate_y, options.overwrite};
            const auto kernel = [&] {
                switch (operation) {
                    case ElementOperation::combine:
                        return cuda::device::element_kernel<T, ElementOperation::combine>;
                    case ElementOperation::scale:
                        return cuda::device::element_kernel<T, ElementOperation::scale>;
                    case ElementOperation::add_to:
                        return cuda::device::element_kernel<T, ElementOperation::add_to>;
                    case ElementOperation::multiply:
                        break;
                }
                return cuda::device::element_kernel<T, ElementOperation::multiply>;
            }();
            in_portions<cuda::device::ElementJobs>(
                jobs, [](const ElementJob& j) { return j.n; },
                [&](const cuda::device::ElementJobs& portion, unsigned count, std::int64_t largest) {
                    kernel<<<grid(largest, count), 256, 0, on(stream)>>>(portion, f);
                    check(cudaGetLastError(), "elements of tensors");
                });
        });
    }

    void strided(ScalarKind kind, std::span<const StridedJob> jobs, void* stream) override {
        use();
        with_scalar(kind, [&]<class T>(T) {
            in_portions<cuda::device::StridedJobs>(
                jobs, [](const StridedJob& j) { return j.kept; },
                [&](const cuda::device::StridedJobs& portion, unsigned count, std::int64_t largest) {
                    cuda::device::strided_kernel<T><<<grid(largest, count), 256, 0, on(stream)>>>(portion);
                    check(cudaGetLastError(), "tiles in another order");
                });
        });
    }

    void fill(ScalarKind kind, std::span<const FillJob> jobs, void* stream) override {
        use();
        const bool complex = kind == ScalarKind::c64 || kind == ScalarKind::c128;
        const bool single = kind == ScalarKind::f32 || kind == ScalarKind::c64;
        in_portions<cuda::device::FillJobs>(
            jobs, [](const FillJob& j) { return j.n; },
            [&](cuda::device::FillJobs portion, unsigned count, std::int64_t largest) {
                if (complex)
                    for (unsigned i = 0; i < count; ++i) portion.job[i].n *= 2;
                const auto blocks = grid(complex ? 2 * largest : largest, count);
                if (single)
                    cuda::device::fill_kernel<float><<<blocks, 256, 0, on(stream)>>>(portion);
                else
                    cuda::device::fill_kernel<double><<<blocks, 256, 0, on(stream)>>>(portion);
                check(cudaGetLastError(), "random tiles");
            });
    }

    void divide(std::span<const DivideJob> jobs) override {
        use();
        in_portions<cuda::device::DivideJobs>(
            jobs, [](const DivideJob& j) { return j.n; },
            [&](const cuda::device::DivideJobs& portion, unsigned count, std::int64_t largest) {
                cuda::device::divide_kernel<<<grid(largest, count), 256, 0, stream_>>>(portion);
                check(cudaGetLastError(), "quotients of tensors");
            });
    }

    void squares(ScalarKind kind, std::span<const ElementJob> jobs, std::span<double> sums,
                 std::span<double> tops) override {
        use();
        const std::int64_t reals = kind == ScalarKind::c64 || kind == ScalarKind::c128 ? 2 : 1;
        std::vector<ElementJob> work;
        std::vector<std::int64_t> first{0};
        for (const auto& job : jobs) {
            work.push_back({job.x, nullptr, nullptr, job.n * reals});
            first.push_back(first.back() + (job.n * reals + kSquaresChunk - 1) / kSquaresChunk);
        }
        const auto room = allocate(std::max<std::int64_t>(1, first.back()) * 16, "norms");
        for (std::size_t i = 0; i < work.size(); ++i) work[i].out = room.get() + 16 * first[i];
        in_portions<cuda::device::ElementJobs>(
            std::span<const ElementJob>(work), [](const ElementJob& j) { return j.n; },
            [&](const cuda::device::ElementJobs& portion, unsigned count, std::int64_t largest) {
                const auto chunks = (largest + kSquaresChunk - 1) / kSquaresChunk;
                const dim3 blocks(static_cast<unsigned>(std::clamp<std::int64_t>((chunks + 15) / 16, 1, 1024)), count);
                if (kind == ScalarKind::f32 || kind == ScalarKind::c64)
                    cuda::device::squares_kernel<float><<<blocks, 256, 0, stream_>>>(portion, kSquaresChunk);
                else
                    cuda::device::squares_kernel<double><<<blocks, 256, 0, stream_>>>(portion, kSquaresChunk);
                check(cudaGetLastError(), "norms");
            });
        std::vector<double> parts(static_cast<std::size_t>(2 * first.back()));
        copy_out(parts.data(), room.get(), 16 * first.back());
        for (std::size_t i = 0; i < work.size(); ++i) {
            sums[i] = tops[i] = 0;
            for (auto c = first[i]; c < first[i + 1]; ++c) {
                sums[i] += parts[static_cast<std::size_t>(2 * c)];
                tops[i] = std::max(tops[i], parts[static_cast<std::size_t>(2 * c + 1)]);
            }
        }
    }

    void dots(ScalarKind kind, std::span<const ElementJob> jobs, std::span<std::complex<double>> sums) override {
        use();
        std::vector<ElementJob> work(jobs.begin(), jobs.end());
        std::vector<double> parts(2 * work.size());
        if (work.empty()) return;
        const auto room = allocate(static_cast<std::int64_t>(16 * work.size()), "sums of products");
        zero(room.get(), static_cast<std::int64_t>(16 * work.size()));
        for (std::size_t i = 0; i < work.size(); ++i) work[i].out = room.get() + 16 * i;
        with_scalar(kind, [&]<class T>(T) {
            in_portions<cuda::device::ElementJobs>(
                std::span<const ElementJob>(work), [](const ElementJob& j) { return j.n; },
                [&](const cuda::device::ElementJobs& portion, unsigned count, std::int64_t) {
                    cuda::device::dots_kernel<T>
                        <<<(count * 16 + 255) / 256, 256, 0, stream_>>>(portion, static_cast<int>(count));
                    check(cudaGetLastError(), "sums of products");
                });
        });
        copy_out(parts.data(), room.get(), static_cast<std::int64_t>(16 * work.size()));
        for (std::size_t i = 0; i < work.size(); ++i) sums[i] = {parts[2 * i], parts[2 * i + 1]};
    }

    void launch(const DeviceLaunch& make, std::span<const DeviceTile> tiles) override {
        use();
        check(cudaGetLastError(), "work on tensors of a device");  // not theirs
        make(tiles, stream_);
        const auto status = cudaGetLastError();
        if (status != cudaSuccess)
            throw UserError(std::string("the device code for a tensor: ") + cudaGetErrorString(status));
    }

    std::shared_ptr<Products> prepare(ScalarKind kind, const DeviceProducts& list) override {
        use();
        cuda::GroupedList grouped(kind);
        for (const auto& c : list.chains) {
            grouped.add_tile(static_cast<cuda::DeviceAddress>(c.c), c.m, c.n, c.ldc, c.resume);
            for (auto i = c.first_product; i < c.first_product + c.products; ++i) {
                const auto& p = list.products[static_cast<std::size_t>(i)];
                grouped.add_product(
                    static_cast<cuda::DeviceAddress>(p.a), p.lda, static_cast<cuda::DeviceAddress>(p.b), p.ldb, p.k,
                    (p.conjugate_a ? cuda::kConjugateA : 0u) | (p.conjugate_b ? cuda::kConjugateB : 0u) |
                        (p.transpose_a ? cuda::kTransposeA : 0u) | (p.transpose_b ? cuda::kTransposeB : 0u));
            }
        }
        auto out = std::make_shared<CudaProducts>();
        out->launch = grouped.plan(multiprocessors_);
        out->image = allocate(out->launch.bytes, "descriptions of products");
        send(out->image.get(), out->launch.bytes, [&](std::byte* image) { grouped.write_image(image); });
        return out;
    }
    void run(const std::shared_ptr<Products>& products) override {
        use();
        const auto& p = static_cast<const CudaProducts&>(*products);
        cuda::run_grouped(p.launch, p.image.get(), stream_);
    }

    std::int64_t kept() const {
        std::uint64_t reserved = 0, used = 0;
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved);
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used);
        return reserved > used ? static_cast<std::int64_t>(reserved - used) : 0;
    }
    void trim() noexcept {
        if (cudaSetDevice(id_) != cudaSuccess || cudaStreamSynchronize(stream_) != cudaSuccess) return;
        {
            const std::lock_guard lock(staging_mutex_);
            for (auto& s : staging_) {
                if (s.memory) cudaFreeHost(std::exchange(s.memory, nullptr));
                s.bytes = 0;
            }
        }
        cudaMemPoolTrimTo(pool_, 0);
    }

  private:
    /// Pinned memory that descriptions pass through: the host goes on while the device has work before them.
    struct Staging {
        void* memory = nullptr;
        std::size_t bytes = 0;
        cudaEvent_t sent = nullptr;
    };
    /// Calls write(memory) and sends what it wrote behind all that is under way.
    template <class Write>
    void send(void* to, std::int64_t bytes, const Write& write) {
        const auto n = static_cast<std::size_t>(bytes);
        const std::lock_guard lock(staging_mutex_);
        Staging& s = staging_[staging_turn_++ % kStagings];
        if (!s.sent) check(cudaEventCreateWithFlags(&s.sent, cudaEventDisableTiming), "event");
        check(cudaEventSynchronize(s.sent), "send descriptions to the device");
        if (s.bytes < n) {
            if (s.memory) cudaFreeHost(std::exchange(s.memory, nullptr));
            s.bytes = 0;
            const auto room = std::max<std::size_t>(std::size_t{1} << 20, std::bit_ceil(n));
            check(cudaHostAlloc(&s.memory, room, cudaHostAllocDefault), "pinned memory for descriptions");
            s.bytes = room;
        }
        write(static_cast<std::byte*>(s.memory));
        check(cudaMemcpyAsync(to, s.memory, n, cudaMemcpyHostToDevice, stream_), "send descriptions to the device");
        check(cudaEventRecord(s.sent, stream_), "event");
    }

    void use() const { check(cudaSetDevice(id_), "set device"); }
    static cudaStream_t on(void* stream) { return static_cast<cudaStream_t>(stream); }
    dim3 grid(std::int64_t elements, unsigned jobs) const {
        const auto most = std::max<std::int64_t>(1, 16 * multiprocessors_ / jobs);
        return {static_cast<unsigned>(std::clamp<std::int64_t>((elements + 255) / 256, 1, most)), jobs, 1};
    }
    void copy_on(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind) {
        use();
        if (bytes > 0)
            check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream_), "copy a tensor");
    }

    int id_, multiprocessors_ = 0;
    cudaStream_t stream_ = nullptr;
    cudaMemPool_t pool_ = nullptr;
    std::atomic<std::int64_t> used_{0};
    static constexpr std::size_t kStagings = 8;
    std::mutex staging_mutex_;
    Staging staging_[kStagings];
    std::size_t staging_turn_ = 0;
};

/// Those that were opened; they live as long as the process.
std::mutex opened_mutex;
std::vector<std::pair<int, CudaStore*>>& opened() {
    static auto& stores = *new std::vector<std::pair<int, CudaStore*>>;
    return stores;
}
CudaStore* find(int device) {
    const std::lock_guard lock(opened_mutex);
    for (const auto& [id, store] : opened())
        if (id == device) return store;
    return nullptr;
}

}  // namespace

std::unique_ptr<DeviceStore> open_store(int device) {
    auto store = std::make_unique<CudaStore>(device);
    const std::lock_guard lock(opened_mutex);
    if (opened().empty())
        on_release_memory([]() noexcept {
            const std::lock_guard locked(opened_mutex);
            for (const auto& [id, s] : opened()) s->trim();
        });
    opened().emplace_back(device, store.get());
    return store;
}

namespace kernels::cuda {

std::int64_t kept_pool_bytes(int device) {
    const auto* store = find(device);
    return store ? store->kept() : 0;
}
void trim_pool(int device) {
    if (auto* store = find(device)) store->trim();
}

}  // namespace kernels::cuda

}  // namespace tessera
