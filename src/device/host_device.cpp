#include "device/host_device.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "kernels/tile_math.hpp"
#include "storage/buffer.hpp"

namespace tessera {

namespace {

struct HostEvent {
    std::atomic<bool> reached{false};
    double at = 0;
};

/// Operations one after another on a thread of their own.
class HostStream {
  public:
    HostStream(int jitter, std::uint64_t seed) : jitter_(jitter), state_(seed), thread_([this] { work(); }) {}
    ~HostStream() {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        thread_.join();
    }
    void add(std::function<void()> operation) {
        {
            const std::lock_guard lock(mutex_);
            operations_.push_back(std::move(operation));
        }
        wake_.notify_all();
    }
    void drain() {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return operations_.empty() && !busy_; });
    }

  private:
    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return stop_ || !operations_.empty(); });
            if (operations_.empty()) return;
            auto operation = std::move(operations_.front());
            operations_.pop_front();
            busy_ = true;
            lock.unlock();
            if (jitter_ > 0) {
                state_ = mix64(state_);
                std::this_thread::sleep_for(
                    std::chrono::microseconds(state_ % static_cast<std::uint64_t>(jitter_ + 1)));
            }
            operation();
            lock.lock();
            busy_ = false;
            wake_.notify_all();
        }
    }
    int jitter_;
    std::uint64_t state_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> operations_;
    bool stop_ = false, busy_ = false;
    std::thread thread_;
};

struct ListHeader {
    std::int64_t chains = 0, products = 0, hashes = 0;
};
struct HostLaunch : Device::Launch {};

template <Scalar T>
void multiply(std::byte* arena, const DeviceChain& chain, const DeviceProduct* products) {
    T* c = reinterpret_cast<T*>(arena + chain.c);
    for (std::int32_t i = 0; i < chain.m; ++i)
        for (std::int32_t j = 0; j < chain.n; ++j) {
            T sum = chain.resume ? c[static_cast<std::int64_t>(i) * chain.ldc + j] : T(0);
            for (std::int32_t p = 0; p < chain.products; ++p) {
                const auto& q = products[chain.first_product + p];
                const std::int64_t row_a = q.transpose_a ? 1 : q.lda, next_a = q.transpose_a ? q.lda : 1;
                const std::int64_t column_b = q.transpose_b ? q.ldb : 1, next_b = q.transpose_b ? 1 : q.ldb;
                const T* a = reinterpret_cast<const T*>(arena + q.a) + i * row_a;
                const T* b = reinterpret_cast<const T*>(arena + q.b) + j * column_b;
                for (std::int32_t k = 0; k < q.k; ++k)
                    multiply_elements(a + k * next_a, b + k * next_b, &sum, 1, {false, q.conjugate_a, q.conjugate_b});
            }
            c[static_cast<std::int64_t>(i) * chain.ldc + j] = sum;
        }
}

template <Scalar T>
void make_tile(std::byte* arena, const DeviceHashTile& t) {
    std::vector<T> tile(static_cast<std::size_t>(t.rows) * static_cast<std::size_t>(t.columns));
    hash_fill<T>(t.state, t.scale, tile);
    for (std::int32_t r = 0; r < t.rows; ++r)
        std::memcpy(arena + t.out + static_cast<std::int64_t>(r) * t.ld * static_cast<std::int64_t>(sizeof(T)),
                    tile.data() + static_cast<std::int64_t>(r) * t.columns,
                    static_cast<std::size_t>(t.columns) * sizeof(T));
}

template <Scalar T>
void run_image(std::byte* arena, const std::byte* image) {
    ListHeader h;
    std::memcpy(&h, image, sizeof h);
    const auto* chains = reinterpret_cast<const DeviceChain*>(image + sizeof h);
    const auto* products = reinterpret_cast<const DeviceProduct*>(chains + h.chains);
    for (std::int64_t i = 0; i < h.chains; ++i) multiply<T>(arena, chains[i], products);
    const auto* hashes = reinterpret_cast<const DeviceHashTile*>(products + h.products);
    for (std::int64_t i = 0; i < h.hashes; ++i) make_tile<T>(arena, hashes[i]);
}

class HostDevice final : public Device {
  public:
    explicit HostDevice(const HostDeviceOptions& options)
        : options_(options), memory_(options.arena_bytes + options.reserve_bytes) {
        std::memset(memory_.data(), 0xff, static_cast<std::size_t>(memory_.bytes()));  // NaN in every element type
        for (int l = 0; l < kLaneCount; ++l)
            streams_[l] =
                std::make_unique<HostStream>(options.jitter, combine(options.seed, static_cast<std::uint64_t>(l)));
    }

    std::byte* arena() const override { return const_cast<std::byte*>(memory_.data()); }
    std::byte* reserve() const override { return arena() + options_.arena_bytes; }
    std::int64_t reserve_bytes() const override { return options_.reserve_bytes; }
    std::int64_t high_water() const override { return memory_.bytes(); }
    Pinned pinned(std::int64_t bytes) override {
        return {new std::byte[static_cast<std::size_t>(bytes)], [](std::byte* p) { delete[] p; }};
    }

    // Events are never freed before the device: waiting lanes hold bare pointers.
    Event record(Lane lane) override {
        HostEvent* e = nullptr;
        {
            const std::lock_guard lock(events_mutex_);
            e = events_.emplace_back(std::make_unique<HostEvent>()).get();
        }
        on(lane, [e] {
            e->at = now_seconds();
            e->reached = true;
        });
        return e;
    }
    void wait(Lane lane, Event event) override {
        on(lane, [e = static_cast<HostEvent*>(event)] {
            while (!e->reached) std::this_thread::sleep_for(std::chrono::microseconds(20));
        });
    }
    bool complete(Event event) override {
        if (fault_) throw MachineError("host device: a kernel failed");
        return static_cast<HostEvent*>(event)->reached;
    }
    double seconds(Event event) override { return static_cast<HostEvent*>(event)->at; }
    void recycle(Event) noexcept override {}

    void copy_in(Lane lane, std::byte* to, const std::byte* host, std::int64_t bytes) override {
        on(lane, [=] { std::memcpy(to, host, static_cast<std::size_t>(bytes)); });
    }
    void copy_out(Lane lane, std::byte* host, const std::byte* from, std::int64_t bytes) override {
        on(lane, [=] { std::memcpy(host, from, static_cast<std::size_t>(bytes)); });
    }
    void copy_from(Lane lane, std::byte* to, const Device&, const std::byte* from, std::int64_t bytes) override {
        on(lane, [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
    }
    void zero(Lane lane, std::byte* to, std::int64_t bytes) override {
        on(lane, [=] { std::memset(to, 0, static_cast<std::size_t>(bytes)); });
    }

    std::int64_t header_bytes() const override { return sizeof(ListHeader); }
    /// More for larger tiles, as on a GPU.
    std::int64_t product_bytes(std::int64_t m, std::int64_t n, std::int64_t products) const override {
        return (m + 63) / 64 * ((n + 63) / 64) * 16 + static_cast<std::int64_t>(sizeof(DeviceChain)) +
               products * static_cast<std::int64_t>(sizeof(DeviceProduct));
    }
    std::int64_t hash_bytes(std::int64_t, std::int64_t) const override { return sizeof(DeviceHashTile); }
    std::unique_ptr<Launch> prepare(const DeviceProducts& list, std::byte* image) override {
        return write(image, list.chains, list.products, {});
    }
    std::unique_ptr<Launch> prepare(const std::vector<DeviceHashTile>& list, std::byte* image) override {
        return write(image, {}, {}, list);
    }
    void launch(Lane lane, const Launch& launch, const std::byte* from, std::byte* image) override {
        on(lane, [this, from, image, bytes = launch.bytes] {
            std::memcpy(image, from, static_cast<std::size_t>(bytes));
            switch (options_.kind) {
                case ScalarKind::f32:
                    return run_image<float>(arena(), image);
                case ScalarKind::f64:
                    return run_image<double>(arena(), image);
                case ScalarKind::c64:
                    return run_image<std::complex<float>>(arena(), image);
                case ScalarKind::c128:
                    return run_image<std::complex<double>>(arena(), image);
            }
        });
    }
    /// In the calling thread, behind what is on the lane.
    void launch(Lane lane, const DeviceLaunch& make, std::span<const DeviceTile> tiles) override {
        streams_[static_cast<int>(lane)]->drain();
        make(tiles, nullptr);
    }
    void launch(Lane lane, std::function<void(void* stream)> work) override {
        on(lane, [work = std::move(work)] { work(nullptr); });
    }
    void fault(Lane lane) override {
        on(lane, [this] { fault_ = true; });
    }
    void drain() noexcept override {
        for (auto& s : streams_) s->drain();
    }

  private:
    void on(Lane lane, std::function<void()> operation) { streams_[static_cast<int>(lane)]->add(std::move(operation)); }

    std::unique_ptr<Launch> write(std::byte* image, const std::vector<DeviceChain>& chains,
                                  const std::vector<DeviceProduct>& products,
                                  const std::vector<DeviceHashTile>& hashes) {
        const ListHeader h{static_cast<std::int64_t>(chains.size()), static_cast<std::int64_t>(products.size()),
                           static_cast<std::int64_t>(hashes.size())};
        auto* at = image;
        const auto put = [&](const void* from, std::size_t bytes) {
            if (bytes > 0) std::memcpy(at, from, bytes);
            at += bytes;
        };
        put(&h, sizeof h);
        put(chains.data(), chains.size() * sizeof(DeviceChain));
        put(products.data(), products.size() * sizeof(DeviceProduct));
        put(hashes.data(), hashes.size() * sizeof(DeviceHashTile));
        auto launch = std::make_unique<HostLaunch>();
        launch->bytes = at - image;
        return launch;
    }

    HostDeviceOptions options_;
    Buffer memory_;
    std::mutex events_mutex_;
    std::deque<std::unique_ptr<HostEvent>> events_;
    std::atomic<bool> fault_{false};
    std::array<std::unique_ptr<HostStream>, kLaneCount> streams_;  // last: their threads use everything above
};

}  // namespace

void multiply_on_host(ScalarKind kind, const DeviceProducts& list) {
    const auto run = [&]<Scalar T>(T) {
        for (const auto& chain : list.chains) multiply<T>(nullptr, chain, list.products.data());
    };
    switch (kind) {
        case ScalarKind::f32:
            return run(float{});
        case ScalarKind::f64:
            return run(double{});
        case ScalarKind::c64:
            return run(std::complex<float>{});
        case ScalarKind::c128:
            return run(std::complex<double>{});
    }
}

std::unique_ptr<Device> make_host_device(const HostDeviceOptions& options) {
    return std::make_unique<HostDevice>(options);
}

}  // namespace tessera
