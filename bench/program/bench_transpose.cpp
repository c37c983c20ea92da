#include "bench_transpose.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "check_failed.hpp"
#include "commit.hpp"
#include "device/cuda/transpose.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/kernels/transpose.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tessera::bench {

namespace {

using Extents = std::vector<std::int64_t>;
using Perm = std::vector<int>;

struct Shape {
    double volume = 0;  // as asked for
    int rank = 0, ratio = 0;
    Extents extents;
    std::int64_t elements() const {
        return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
    }
};

/// Extents in geometric progression with the given spread, rounded, their product as near the volume as rounding lets
/// it.
Extents spread_extents(double volume, int rank, int ratio) {
    const auto make = [&](double smallest) {
        Extents n(static_cast<std::size_t>(rank));
        for (int i = 0; i < rank; ++i)
            n[i] = std::max<std::int64_t>(
                2, std::llround(smallest * std::pow(ratio, static_cast<double>(i) / (rank - 1))));
        return n;
    };
    const auto product = [](const Extents& n) {
        return std::accumulate(n.begin(), n.end(), 1.0,
                               [](double a, std::int64_t b) { return a * static_cast<double>(b); });
    };
    Extents best = make(1);
    double low = 0.1, high = volume;
    for (int i = 0; i < 200; ++i) {
        const double middle = std::sqrt(low * high);
        const auto n = make(middle);
        if (std::abs(std::log(product(n) / volume)) < std::abs(std::log(product(best) / volume))) best = n;
        (product(n) < volume ? low : high) = middle;
    }
    // Equal extents jump by whole powers: lengthen or shorten single ones while that comes nearer.
    for (std::size_t i = 0; i < best.size(); ++i)
        for (const int step : {1, -1}) {
            auto other = best;
            other[i] = std::max<std::int64_t>(2, other[i] + step);
            if (std::abs(std::log(product(other) / volume)) < std::abs(std::log(product(best) / volume))) best = other;
        }
    return best;
}

/// Preallocated; huge pages where the system gives them, as tensors have, or none; for all contenders alike.
class HostBuffer {
  public:
    HostBuffer(std::size_t bytes, bool small_pages) : bytes_(bytes) {
        data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) throw MachineError(fmt::format("bench transpose: no {} bytes of memory", bytes_));
        madvise(data_, bytes_, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    }
    ~HostBuffer() { munmap(data_, bytes_); }
    HostBuffer(const HostBuffer&) = delete;
    HostBuffer& operator=(const HostBuffer&) = delete;
    double* data() { return static_cast<double*>(data_); }

  private:
    std::size_t bytes_;
    void* data_;
};

double seconds(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_of(int repeats, const std::function<void()>& work) {
    double best = 1e30;
    for (int i = 0; i < repeats; ++i) best = std::min(best, seconds(work));
    return best;
}

void split(std::int64_t n, int threads, const std::function<void(std::int64_t, std::int64_t)>& body) {
    parallel_region(threads, [&](int t, int team) {
        const std::int64_t lines = (n + 7) / 8;
        body(std::min(n, lines * t / team * 8), std::min(n, lines * (t + 1) / team * 8));
    });
}

void copy_memcpy(const double* in, double* out, std::int64_t n, int threads) {
    split(n, threads, [&](std::int64_t b, std::int64_t e) {
        std::memcpy(out + b, in + b, static_cast<std::size_t>(e - b) * sizeof(double));
    });
}

void copy_streaming(const double* in, double* out, std::int64_t n, int threads) {
#if defined(__SSE2__)
    split(n, threads, [&](std::int64_t b, std::int64_t e) {
        std::int64_t i = b;  // buffers are page-aligned and ranges whole lines, so are the stores
        for (; i + 8 <= e; i += 8)
            for (int k = 0; k < 8; k += 2) _mm_stream_pd(out + i + k, _mm_loadu_pd(in + i + k));
        for (; i < e; ++i) out[i] = in[i];
        _mm_sfence();
    });
#else
    copy_memcpy(in, out, n, threads);
#endif
}

/// Reads in order, writes where the element belongs.
void scatter(const Extents& extents, const Perm& permutation, const double* in, double* out, int threads) {
    const int rank = static_cast<int>(extents.size());
    Extents step(extents.size());  // output stride of each input axis
    std::int64_t stride = 1, volume = 1;
    for (int d = rank - 1; d >= 0; --d) {
        step[permutation[d]] = stride;
        stride *= extents[permutation[d]];
    }
    for (auto n : extents) volume *= n;
    const std::int64_t inner = extents[rank - 1], inner_step = step[rank - 1];
    split(volume / inner, threads, [&](std::int64_t begin, std::int64_t end) {
        if (begin >= end) return;
        Extents at(extents.size());
        std::int64_t to = 0, rest = begin;
        for (int d = rank - 2; d >= 0; --d) {
            at[d] = rest % extents[d];
            rest /= extents[d];
            to += at[d] * step[d];
        }
        for (std::int64_t row = begin; row < end; ++row) {
            const double* a = in + row * inner;
            for (std::int64_t i = 0; i < inner; ++i) out[to + i * inner_step] = a[i];
            for (int d = rank - 2; d >= 0; --d) {
                to += step[d];
                if (++at[d] < extents[d]) break;
                to -= step[d] * extents[d];
                at[d] = 0;
            }
        }
    });
}

double pattern(std::int64_t i) {
    return static_cast<double>((static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ull) >> 12);
}

/// Checks elements spread over the output, corners included.
void check_sample(const Extents& extents, const Perm& permutation, const std::function<double(std::int64_t)>& out,
                  const std::function<double(double)>& made_of, std::mt19937_64& rng, int count) {
    const int rank = static_cast<int>(extents.size());
    for (int k = 0; k < count; ++k) {
        std::int64_t from = 0, to = 0;
        Extents at(extents.size());
        for (int d = 0; d < rank; ++d) {
            at[d] = static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(extents[d]));
            if (k == 0) at[d] = 0;
            if (k == 1) at[d] = extents[d] - 1;
            from = from * extents[d] + at[d];
        }
        for (int d = 0; d < rank; ++d) to = to * extents[permutation[d]] + at[permutation[d]];
        if (const double wanted = made_of(pattern(from)); out(to) != wanted)
            throw CheckFailed(fmt::format("bench transpose: {} by {}: output element {} is {}, not {}", extents,
                                          permutation, to, out(to), wanted));
    }
}

/// Seconds to plan on the CPU, and to find the plan again in a cache that has some; medians, so that a thread put aside
/// does not count.
std::pair<double, double> planning_time(const Extents& extents, const Perm& permutation) {
    constexpr int kTimes = 15;
    std::array<double, kTimes> fresh{}, cached{};
    kernels::TransposePlanCache cache;
    std::int64_t used = 0;
    for (std::int64_t n = 2; n < 50; ++n) used += cache.get(Extents{n, 7}, Perm{1, 0}, sizeof(double))->blocks;
    used += cache.get(extents, permutation, sizeof(double))->blocks;
    for (int i = 0; i < kTimes; ++i) {
        fresh[i] = seconds([&] { used += kernels::plan_transpose(extents, permutation, sizeof(double)).blocks; });
        cached[i] = seconds([&] { used += cache.get(extents, permutation, sizeof(double))->blocks; });
    }
    ensure(used > 0, "bench transpose: plans without blocks");
    std::sort(fresh.begin(), fresh.end());
    std::sort(cached.begin(), cached.end());
    return {fresh[kTimes / 2], cached[kTimes / 2]};
}

/// The contenders on one machine; rates are in GB/s, bytes read plus bytes written.
struct Times {
    double copy = 0, scatter = 0, tessera = 0;
};
class Contenders {
  public:
    virtual ~Contenders() = default;
    virtual Times time(const Extents& extents, const Perm& permutation, std::mt19937_64& rng) = 0;
    virtual nlohmann::json machine() const = 0;
};

class CpuContenders final : public Contenders {
  public:
    CpuContenders(std::int64_t elements, const BenchTransposeOptions& options)
        : options_(options),
          threads_(resolve_threads(options.threads)),
          in_(static_cast<std::size_t>(elements) * sizeof(double), options.small_pages),
          out_(static_cast<std::size_t>(elements) * sizeof(double), options.small_pages) {
        split(elements, threads_, [&](std::int64_t b, std::int64_t e) {
            for (std::int64_t i = b; i < e; ++i) {
                in_.data()[i] = pattern(i);
                out_.data()[i] = -1;
            }
        });
    }

    Times time(const Extents& extents, const Perm& permutation, std::mt19937_64& rng) override {
        std::int64_t n = 1;
        for (auto e : extents) n *= e;
        const double* in = in_.data();
        double* out = out_.data();
        Times t;
        t.copy = std::min(best_of(options_.repeats, [&] { copy_memcpy(in, out, n, threads_); }),
                          best_of(options_.repeats, [&] { copy_streaming(in, out, n, threads_); }));
        if (options_.scatter)
            t.scatter = best_of(options_.repeats, [&] { scatter(extents, permutation, in, out, threads_); });
        std::fill(out, out + n, -1.0);
        const auto plan = kernels::plan_transpose(extents, permutation, sizeof(double));
        const auto run = [&] {
            kernels::transpose<double>(plan, in, out,
                                       {.alpha = options_.alpha, .beta = options_.beta, .threads = threads_});
        };
        t.tessera = best_of(options_.repeats, run);
        if (options_.beta != 0) {
            std::fill(out, out + n, -1.0);
            run();
        }
        check_sample(
            extents, permutation, [&](std::int64_t i) { return out[i]; },
            [&](double x) { return options_.alpha * x + (options_.beta != 0 ? options_.beta * -1.0 : 0.0); }, rng,
            1000);
        return t;
    }

    nlohmann::json machine() const override {
        return {{"machine", cpu_name()},
                {"driver", nullptr},
                {"threads", threads_},
                {"pages", options_.small_pages ? "small" : "huge"},
                {"isa", std::string(name(detected_isa()))}};
    }

  private:
    const BenchTransposeOptions& options_;
    int threads_;
    HostBuffer in_, out_;
};

/// "512x16x2" or "512x16x2:512:512": threads, elements, stages, bytes of runs, bytes of rows copied directly, waves,
/// and 0 for accesses of elements (1: of 16 bytes).
kernels::cuda::DeviceTransposeTuning tuning_of(const std::string& text) {
    kernels::cuda::DeviceTransposeTuning t;
    long long run = 0, row = 0;
    int words = 1;
    if (!text.empty())
        require(std::sscanf(text.c_str(), "%dx%dx%d:%lld:%lld:%d:%d", &t.threads, &t.elements, &t.stages, &run, &row,
                            &t.waves, &words) >= 3,
                "bench transpose: variant '{}' is not like 512x16x2:512:512", text);
    t.run_bytes = run;
    t.row_bytes = row;
    t.words = words != 0;
    return t;
}

class DeviceContenders final : public Contenders {
  public:
    DeviceContenders(std::int64_t elements, const BenchTransposeOptions& options)
        : options_(options), info_(device::info(options.device)), tuning_(tuning_of(options.variant)) {
        device::set_current(options.device);
        in_ = kernels::cuda::DeviceBuffer(static_cast<std::size_t>(elements) * sizeof(double));
        out_ = kernels::cuda::DeviceBuffer(static_cast<std::size_t>(elements) * sizeof(double));
        kernels::cuda::fill_pattern(static_cast<double*>(in_.data()), elements);
        kernels::cuda::synchronize();
    }

    Times time(const Extents& extents, const Perm& permutation, std::mt19937_64&) override {
        std::int64_t n = 1;
        for (auto e : extents) n *= e;
        const auto bytes = static_cast<std::size_t>(n) * sizeof(double);
        const auto* in = static_cast<const double*>(in_.data());
        auto* out = static_cast<double*>(out_.data());
        Times t;
        t.copy = best([&] { kernels::cuda::copy_on_device(out, in, bytes); });
        if (options_.scatter) t.scatter = best([&] { kernels::cuda::scatter(extents, permutation, in, out); });
        kernels::cuda::fill_bytes(out, 0xff, bytes);
        const kernels::cuda::DeviceTranspose transpose(extents, permutation, sizeof(double), {}, {}, tuning_);
        t.tessera = best([&] { transpose.run(in, out); });
        const auto wrong = kernels::cuda::count_mismatches(extents, permutation, in, out);
        if (wrong != 0)
            throw CheckFailed(
                fmt::format("bench transpose: {} by {}: {} of {} elements are wrong", extents, permutation, wrong, n));
        return t;
    }

    nlohmann::json machine() const override {
        return {{"machine", info_.name}, {"driver", info_.driver}, {"threads", nullptr}, {"variant", options_.variant}};
    }

  private:
    /// Best of the repeats after one to warm up, by device events.
    double best(const std::function<void()>& work) {
        double t = 1e30;
        for (int i = 0; i <= options_.repeats; ++i) {
            start_.record();
            work();
            stop_.record();
            const double s = stop_.seconds_since(start_);
            if (i > 0) t = std::min(t, s);
        }
        return t;
    }

    const BenchTransposeOptions& options_;
    device::Info info_;
    kernels::cuda::DeviceTransposeTuning tuning_;
    kernels::cuda::DeviceBuffer in_, out_;
    kernels::cuda::Event start_, stop_;
};

std::vector<Perm> permutations_for(int rank, const BenchTransposeOptions& options, std::mt19937_64& rng) {
    Perm p(static_cast<std::size_t>(rank));
    std::iota(p.begin(), p.end(), 0);
    if (options.reverse) {
        std::reverse(p.begin(), p.end());
        return {p};
    }
    const Perm trivial = p;
    std::vector<Perm> all;
    for (int i = 0; i < options.samples; ++i) {
        do std::shuffle(p.begin(), p.end(), rng);
        while (p == trivial);
        Perm inverse(p.size());
        for (int d = 0; d < rank; ++d) inverse[p[d]] = d;
        all.push_back(p);
        all.push_back(inverse);
    }
    return all;
}

std::string joined(const nlohmann::json& numbers) {
    std::string text;
    for (const auto& n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n.get<std::int64_t>());
    return text;
}

void add_numpy(const BenchTransposeOptions& options, nlohmann::json& out) {
    std::vector<std::string> arguments{"transpose"};
    for (const auto& c : out["cases"])
        arguments.insert(arguments.end(),
                         {joined(c["extents"]), joined(c["permutation"]), std::to_string(options.repeats)});
    const auto peer = run_peer("numpy_peer", arguments, 1, out);
    for (std::size_t i = 0; i < out["cases"].size() && !peer.is_null(); ++i) {
        auto& c = out["cases"][i];
        const double bytes = 2.0 * sizeof(double) * c["elements"].get<double>();
        c["numpy_gbps"] = bytes / peer["seconds"][i].get<double>() * 1e-9;
        c["over_numpy"] = c["gbps"].get<double>() / c["numpy_gbps"].get<double>();
    }
}

}  // namespace

int bench_transpose(const BenchTransposeOptions& options, nlohmann::json& out) {
    const std::vector<double> volumes =
        options.volumes.empty() ? std::vector<double>{37e6, 77e6, 141e6} : options.volumes;
    const std::vector<int> ranks = options.ranks.empty() ? std::vector<int>{2, 3, 4, 5, 6, 7, 8, 15} : options.ranks;
    const std::vector<int> ratios = options.ratios.empty() ? std::vector<int>{1, 5, 15} : options.ratios;
    require(options.samples > 0 && options.repeats > 0, "bench transpose: samples {} and repeats {} must be positive",
            options.samples, options.repeats);
    for (int r : ranks)
        require(r >= 2 && r <= kernels::kMaxTransposeRank, "bench transpose: rank {} is not in 2..16", r);
    for (double v : volumes)
        require(v >= kLeastVolume && v <= kMostVolume, "bench transpose: volume {} is not in {}..{}", v, kLeastVolume,
                kMostVolume);
    const auto distinct = [](auto list, const char* what) {
        std::sort(list.begin(), list.end());
        const auto twice = std::adjacent_find(list.begin(), list.end());
        if (twice != list.end()) user_error("bench transpose: {} {} is given twice", what, *twice);
    };
    require(options.device < 0 || (options.alpha == 1 && options.beta == 0),
            "bench transpose: alpha {} and beta {} are timed on the CPU only", options.alpha, options.beta);
    require(options.device >= 0 || options.variant.empty(), "bench transpose: variant '{}' is of devices",
            options.variant);
    for (int r : ratios) require(r >= 1, "bench transpose: a ratio of {} is less than 1", r);
    distinct(volumes, "volume");
    distinct(ranks, "rank");
    distinct(ratios, "ratio");

    std::vector<Shape> shapes;
    std::int64_t largest = 0;
    for (double v : volumes)
        for (int r : ranks)
            for (int s : ratios) {
                shapes.push_back({v, r, s, spread_extents(v, r, s)});
                largest = std::max(largest, shapes.back().elements());
            }
    std::unique_ptr<Contenders> contenders;
    if (options.device >= 0)
        contenders = std::make_unique<DeviceContenders>(largest, options);
    else
        contenders = std::make_unique<CpuContenders>(largest, options);

    out = contenders->machine();
    out["benchmark"] = options.reverse ? "transpose, reverse permutations" : "transpose, random permutations";
    out["element"] = "float64";
    out["commit"] = options.commit.empty() ? build_commit() : options.commit;
    out["repeats"] = options.repeats;
    if (!options.reverse) out["samples"] = options.samples;
    out["scatter"] = options.scatter;
    if (options.alpha != 1 || options.beta != 0) out["alpha"] = options.alpha, out["beta"] = options.beta;
    out["seed"] = options.seed;
    out["cases"] = nlohmann::json::array();
    for (auto& shape : shapes) {
        // A shape's cases do not depend on which other shapes are asked for.
        std::seed_seq seeds{options.seed, static_cast<std::uint64_t>(shape.volume),
                            static_cast<std::uint64_t>(shape.rank), static_cast<std::uint64_t>(shape.ratio)};
        std::mt19937_64 rng(seeds);
        std::shuffle(shape.extents.begin(), shape.extents.end(), rng);
        const double bytes = 2.0 * sizeof(double) * static_cast<double>(shape.elements());
        const auto first = out["cases"].size();
        for (const Perm& p : permutations_for(shape.rank, options, rng)) {
            const Times t = contenders->time(shape.extents, p, rng);
            nlohmann::json c = {{"volume", shape.volume},
                                {"elements", shape.elements()},
                                {"rank", shape.rank},
                                {"ratio", shape.ratio},
                                {"extents", shape.extents},
                                {"permutation", p},
                                {"gbps", bytes / t.tessera * 1e-9},
                                {"copy_gbps", bytes / t.copy * 1e-9},
                                {"of_copy", t.copy / t.tessera}};
            const auto [fresh, cached] = planning_time(shape.extents, p);
            c["plan_microseconds"] = fresh * 1e6;
            c["cached_plan_microseconds"] = cached * 1e6;
            if (t.scatter > 0) {
                c["scatter_gbps"] = bytes / t.scatter * 1e-9;
                c["over_scatter"] = t.scatter / t.tessera;
            }
            out["cases"].push_back(std::move(c));
        }
        if (options.progress) {
            double log_sum = 0, least = 1e30;
            for (auto i = first; i < out["cases"].size(); ++i) {
                const auto of_copy = out["cases"][i]["of_copy"].get<double>();
                log_sum += std::log(of_copy);
                least = std::min(least, of_copy);
            }
            fmt::print(stderr, "volume {:.0f}e6 rank {:2} ratio {:2}: of copy {:.3f}, worst {:.3f}\n",
                       shape.volume * 1e-6, shape.rank, shape.ratio,
                       std::exp(log_sum / static_cast<double>(out["cases"].size() - first)), least);
        }
    }
    if (options.peers && options.device < 0) add_numpy(options, out);
    summarise(out);
    return 0;
}

}  // namespace tessera::bench
