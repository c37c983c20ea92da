#include "device/host_store.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/hash_fill.hpp"
#include "base/units.hpp"
#include "device/host_device.hpp"
#include "kernels/tile_math.hpp"
#include "storage/buffer.hpp"

namespace tessera {

namespace {

template <class Body>
void with_scalar(ScalarKind kind, Body&& body) {
    switch (kind) {
        case ScalarKind::f32:
            return body(float{});
        case ScalarKind::f64:
            return body(double{});
        case ScalarKind::c64:
            return body(std::complex<float>{});
        case ScalarKind::c128:
            return body(std::complex<double>{});
    }
}

template <Scalar T>
T factor(std::complex<double> value) {
    if constexpr (is_complex<T>)
        return T(static_cast<RealOf<T>>(value.real()), static_cast<RealOf<T>>(value.imag()));
    else
        return static_cast<T>(value.real());
}

template <Scalar T>
void element_job(ElementOperation operation, const ElementJob& job, const ElementOptions& options) {
    const T *x = static_cast<const T*>(job.x), *y = static_cast<const T*>(job.y);
    T* out = static_cast<T*>(job.out);
    const T alpha = factor<T>(options.alpha), beta = factor<T>(options.beta);
    if (operation == ElementOperation::multiply)
        return multiply_elements<T>(x, y, out, job.n, {options.overwrite, options.conjugate_x, options.conjugate_y});
    for (std::int64_t i = 0; i < job.n; ++i) switch (operation) {
            case ElementOperation::combine:
                out[i] = x && y ? alpha * x[i] + beta * y[i] : x ? alpha * x[i] : beta * y[i];
                break;
            case ElementOperation::scale:
                out[i] = alpha * conjugate_if(out[i], options.conjugate_x);
                break;
            case ElementOperation::add_to:
                out[i] += alpha * x[i];
                break;
            case ElementOperation::multiply:
                break;
        }
}

template <Scalar T>
void strided_job(const StridedJob& job) {
    for (std::int64_t point = 0; point < job.kept; ++point) {
        std::int64_t in = 0, out = 0, rest = point;
        for (int l = job.kept_loops - 1; l >= 0; --l) {
            const auto at = rest % job.loop[l].extent;
            rest /= job.loop[l].extent;
            in += at * job.loop[l].in;
            out += at * job.loop[l].out;
        }
        T& to = static_cast<T*>(job.out)[out];
        if (job.copies) {
            to = static_cast<const T*>(job.x)[in];
            continue;
        }
        T sum = job.adds ? to : T(0);
        for (std::int64_t s = 0; s < job.summed; ++s) {
            std::int64_t along = in;
            rest = s;
            for (int l = job.kept_loops + job.summed_loops - 1; l >= job.kept_loops; --l) {
                along += rest % job.loop[l].extent * job.loop[l].in;
                rest /= job.loop[l].extent;
            }
            sum += static_cast<const T*>(job.x)[along];
        }
        to = sum;
    }
}

struct HostProducts : DeviceStore::Products {
    ScalarKind kind = ScalarKind::f64;
    DeviceProducts list;
};

class HostStore final : public DeviceStore {
  public:
    explicit HostStore(std::int64_t limit) : limit_(limit), used_(std::make_shared<std::atomic<std::int64_t>>(0)) {}

    Memory allocate(std::int64_t bytes, const std::string& what) override {
        if (bytes > limit_ - *used_)
            throw MachineError(fmt::format("{}: the device has {} left, {} are needed", what,
                                           format_bytes(limit_ - *used_), format_bytes(bytes)));
        const auto buffer = std::make_shared<Buffer>(bytes);
        if (bytes > 0) std::memset(static_cast<void*>(buffer->data()), 0xff, static_cast<std::size_t>(bytes));  // NaN
        *used_ += bytes;
        return {buffer->data(), [buffer, bytes, used = used_](std::byte*) { *used -= bytes; }};
    }
    std::int64_t used_bytes() const override { return *used_; }
    void* stream() const override { return nullptr; }
    void synchronize() override {}

    void copy_in(void* to, const void* host, std::int64_t bytes) override { copy(to, host, bytes); }
    void copy_out(void* host, const void* from, std::int64_t bytes) override { copy(host, from, bytes); }
    void copy(void* to, const void* from, std::int64_t bytes) override {
        if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
    void zero(void* to, std::int64_t bytes) override {
        if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
    }

    void elements(ScalarKind kind, ElementOperation operation, std::span<const ElementJob> jobs,
                  const ElementOptions& options, void*) override {
        with_scalar(kind, [&]<class T>(T) {
            for (const auto& job : jobs) element_job<T>(operation, job, options);
        });
    }
    void strided(ScalarKind kind, std::span<const StridedJob> jobs, void*) override {
        with_scalar(kind, [&]<class T>(T) {
            for (const auto& job : jobs) strided_job<T>(job);
        });
    }
    void fill(ScalarKind kind, std::span<const FillJob> jobs, void*) override {
        with_scalar(kind, [&]<class T>(T) {
            for (const auto& job : jobs)
                hash_fill<T>(job.state, job.scale, {static_cast<T*>(job.out), static_cast<std::size_t>(job.n)});
        });
    }
    void divide(std::span<const DivideJob> jobs) override {
        for (const auto& job : jobs) divide_on_host(job);
    }
    void squares(ScalarKind kind, std::span<const ElementJob> jobs, std::span<double> sums,
                 std::span<double> tops) override {
        with_scalar(kind, [&]<class T>(T) {
            for (std::size_t i = 0; i < jobs.size(); ++i) {
                const auto* x = static_cast<const T*>(jobs[i].x);
                sums[i] = sum_of_squares(x, jobs[i].n);
                tops[i] = 0;
                const auto* reals = reinterpret_cast<const RealOf<T>*>(x);
                for (std::int64_t e = 0; e < jobs[i].n * (is_complex<T> ? 2 : 1); ++e) {
                    const double v = std::abs(static_cast<double>(reals[e]));
                    tops[i] = v <= tops[i] ? tops[i] : std::isnan(v) ? std::numeric_limits<double>::infinity() : v;
                }
            }
        });
    }
    void dots(ScalarKind kind, std::span<const ElementJob> jobs, std::span<std::complex<double>> sums) override {
        with_scalar(kind, [&]<class T>(T) {
            for (std::size_t i = 0; i < jobs.size(); ++i)
                sums[i] = tile_dot(static_cast<const T*>(jobs[i].x), static_cast<const T*>(jobs[i].y), jobs[i].n);
        });
    }
    void launch(const DeviceLaunch& make, std::span<const DeviceTile> tiles) override { make(tiles, nullptr); }

    std::shared_ptr<Products> prepare(ScalarKind kind, const DeviceProducts& list) override {
        auto out = std::make_shared<HostProducts>();
        out->kind = kind;
        out->list = list;
        return out;
    }
    void run(const std::shared_ptr<Products>& products) override {
        const auto& p = dynamic_cast<const HostProducts&>(*products);
        multiply_on_host(p.kind, p.list);
    }

  private:
    std::int64_t limit_;
    std::shared_ptr<std::atomic<std::int64_t>> used_;
};

}  // namespace

void strided_on_host(ScalarKind kind, const StridedJob& job) {
    with_scalar(kind, [&]<class T>(T) { strided_job<T>(job); });
}

void elements_on_host(ScalarKind kind, ElementOperation operation, const ElementJob& job,
                      const ElementOptions& options) {
    with_scalar(kind, [&]<class T>(T) { element_job<T>(operation, job, options); });
}

void divide_on_host(const DivideJob& job) {
    // Rows: what is summed before the last index is the same along one.
    const int last = job.indices - 1;
    const std::int64_t row = job.extent[last];
    for (std::int64_t begin = 0; begin < job.n; begin += row) {
        std::int64_t at[DivideJob::kMostIndices] = {}, rest = begin / row;
        for (int d = last - 1; d >= 0; --d) {
            at[d] = rest % job.extent[d];
            rest /= job.extent[d];
        }
        double sum = last > 0 ? job.term[0][at[0]] : 0;
        for (int d = 1; d < last; ++d) sum += job.term[d][at[d]];
        for (std::int64_t i = 0; i < row; ++i)
            job.out[begin + i] /= last > 0 ? sum + job.term[last][i] : job.term[last][i];
    }
}

std::unique_ptr<DeviceStore> make_host_store(std::int64_t limit) { return std::make_unique<HostStore>(limit); }

std::vector<std::unique_ptr<DeviceStore>> host_stores(int count, std::int64_t limit) {
    std::vector<std::unique_ptr<DeviceStore>> out;
    for (int i = 0; i < count; ++i) out.push_back(make_host_store(limit));
    return out;
}

}  // namespace tessera
