#include "bench_grouped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "check_failed.hpp"
#include "commit.hpp"
#include "cublas_library.hpp"
#include "device/cuda/grouped_gemm.hpp"
#include "device_timing.hpp"
#include "gemm_rate.hpp"
#include "kernels/gemm.hpp"

namespace tessera::bench {

namespace {

namespace cuda = kernels::cuda;
using cuda::DeviceBuffer;

/// A matrix of the arena, made by the hash generator.
struct Operand {
    std::int64_t rows, columns, ld, at;  // at: bytes into the arena
    std::uint64_t state;
};

struct Link {
    std::int32_t a, b;  // operands
};

struct Target {
    std::int64_t m, n, ld, at;
    std::int64_t first = 0;  // link
    std::int64_t count = 0;
};

/// Operands and result tiles of one row of the table, and the chains between them.
struct Workload {
    std::string name;
    double wanted_tflops = 0;
    std::vector<Operand> operands;
    std::vector<Target> targets;
    std::vector<Link> links;
    std::int64_t bytes = 0, operand_bytes = 0;
    std::int64_t square = 0;  // > 0: all tiles are of this extent

    std::int64_t place(std::int64_t rows, std::int64_t ld) {
        const std::int64_t at = bytes;
        bytes += (rows * ld * 8 + 15) / 16 * 16;
        return at;
    }
    std::int32_t operand(std::int64_t rows, std::int64_t columns) {
        const std::int64_t ld = cuda::padded_ld(columns, ScalarKind::f64);
        const auto number = static_cast<std::int32_t>(operands.size());
        operands.push_back({rows, columns, ld, place(rows, ld), tile_state(1, 2, static_cast<std::uint64_t>(number))});
        operand_bytes = bytes;
        return number;
    }
    double flops() const {
        double sum = 0;
        for (const Target& t : targets)
            for (std::int64_t l = t.first; l < t.first + t.count; ++l)
                sum += 2.0 * static_cast<double>(t.m * t.n * operands[links[l].a].columns);
        return sum;
    }
};

/// 400 products, each extent uniform in 400..1000, chains of 4, in the order in which they are drawn.
Workload irregular() {
    Workload w;
    w.name = "irregular";
    w.wanted_tflops = 45;
    std::mt19937_64 random(5);
    const auto extent = [&] { return static_cast<std::int64_t>(400 + random() % 601); };
    for (int tile = 0; tile < 100; ++tile) {
        const std::int64_t m = extent(), n = extent();
        w.targets.push_back(
            {m, n, cuda::padded_ld(n, ScalarKind::f64), 0, static_cast<std::int64_t>(w.links.size()), 4});
        for (int link = 0; link < 4; ++link) {
            const std::int64_t k = extent();
            const std::int32_t a = w.operand(m, k);
            w.links.push_back({a, w.operand(k, n)});
        }
    }
    for (Target& t : w.targets) t.at = w.place(t.m, t.ld);
    return w;
}

/// `count` x 2000 tiles times 2000 x `count` tiles, one in ten there: chains of about 20, as in blocks:2000,size,0.1.
Workload blocks(std::int64_t size, std::int64_t count, double wanted) {
    constexpr std::int64_t kInner = 2000;
    Workload w;
    w.name = fmt::format("{}", size);
    w.wanted_tflops = wanted;
    w.square = size;
    const auto choose = [&](std::uint64_t stream) {
        std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> lists(
            static_cast<std::size_t>(count));  // k, tile
        for (std::int64_t i = 0; i < count; ++i)
            for (std::int64_t k = 0; k < kInner; ++k)
                if (to_unit(combine(combine(1, stream), static_cast<std::uint64_t>(i * kInner + k))) < 0.1)
                    lists[i].push_back({static_cast<std::int32_t>(k), w.operand(size, size)});
        return lists;
    };
    const auto a = choose(1), b = choose(2);
    const std::int64_t ld = cuda::padded_ld(size, ScalarKind::f64);
    for (const auto& row : a)
        for (const auto& column : b) {
            Target t{size, size, ld, 0, static_cast<std::int64_t>(w.links.size()), 0};
            for (std::size_t x = 0, y = 0; x < row.size() && y < column.size();) {
                if (row[x].first == column[y].first) w.links.push_back({row[x].second, column[y].second});
                const bool next_x = row[x].first <= column[y].first, next_y = column[y].first <= row[x].first;
                x += next_x;
                y += next_y;
            }
            t.count = static_cast<std::int64_t>(w.links.size()) - t.first;
            w.targets.push_back(t);
        }
    for (Target& t : w.targets) t.at = w.place(t.m, t.ld);
    return w;
}

template <class List>
DeviceBuffer upload(const List& list, std::int64_t bytes, std::int64_t written) {
    std::vector<char> host(static_cast<std::size_t>(written));
    list.write_image(host.data());
    DeviceBuffer image(static_cast<std::size_t>(bytes));
    cuda::copy_to_device(image.data(), host.data(), host.size());
    return image;
}

constexpr double kWarmUp = 0.2, kSustained = 1;  // seconds

/// Sampled result tiles against the host's chains: largest difference over the largest value, and whether all bits
/// agree.
struct Check {
    double error = 0;
    bool same_bits = true;
};
Check check(const Workload& w, const DeviceBuffer& arena, int samples) {
    Check result;
    kernels::GemmWorkspace workspace;
    std::mt19937_64 random(3);
    for (int s = 0; s < samples; ++s) {
        const Target& t = w.targets[random() % w.targets.size()];
        std::vector<double> want(static_cast<std::size_t>(t.m * t.n)), got(static_cast<std::size_t>(t.m * t.ld));
        kernels::MatrixLayout c;
        c.rows.push_back({t.m, t.n});
        c.cols.push_back({t.n, 1});
        for (std::int64_t l = t.first; l < t.first + t.count; ++l) {
            const Operand &a = w.operands[w.links[l].a], &b = w.operands[w.links[l].b];
            std::vector<double> x(static_cast<std::size_t>(a.rows * a.columns)),
                y(static_cast<std::size_t>(b.rows * b.columns));
            hash_fill<double>(a.state, 1.0, x);
            hash_fill<double>(b.state, 1.0, y);
            kernels::MatrixLayout la, lb;
            la.rows.push_back({a.rows, a.columns});
            la.cols.push_back({a.columns, 1});
            lb.rows.push_back({b.rows, b.columns});
            lb.cols.push_back({b.columns, 1});
            const kernels::ChainLink<double> link{x.data(), y.data(), &la, &lb};
            const kernels::Chain<double> chain{want.data(), &c, {&link, 1}, l == t.first};
            kernels::multiply_chains<double>({&chain, 1}, {}, workspace);
        }
        cuda::copy_to_host(got.data(), static_cast<const char*>(arena.data()) + t.at, got.size() * 8);
        double scale = 0, worst = 0;
        for (std::int64_t i = 0; i < t.m; ++i)
            for (std::int64_t j = 0; j < t.n; ++j) {
                const double x = got[i * t.ld + j], y = want[i * t.n + j];
                scale = std::max(scale, std::abs(y));
                worst = std::max(worst, std::isfinite(x) ? std::abs(x - y) : INFINITY);
                result.same_bits = result.same_bits && std::memcmp(&x, &y, sizeof x) == 0;
            }
        if (scale > 0) result.error = std::max(result.error, worst / scale);
    }
    return result;
}

/// cublasDgemmBatched: round r multiplies product r of every chain that has one, on all tiles at once.
double batched_seconds(const CublasLibrary& cublas, const Workload& w, const DeviceBuffer& arena, double& flops) {
    constexpr std::int64_t kRounds = 4;
    const auto n = static_cast<int>(w.square), ld = static_cast<int>(w.targets[0].ld);
    std::vector<DeviceBuffer> lists;
    std::vector<int> counts;
    flops = 0;
    for (std::int64_t r = 0; r < kRounds; ++r) {
        std::vector<const void*> a, b, c;
        const auto* base = static_cast<const char*>(arena.data());
        for (const Target& t : w.targets)
            if (t.count > r) {
                a.push_back(base + w.operands[w.links[t.first + r].a].at);
                b.push_back(base + w.operands[w.links[t.first + r].b].at);
                c.push_back(base + t.at);
            }
        counts.push_back(static_cast<int>(a.size()));
        flops += 2.0 * static_cast<double>(w.square * w.square * w.square) * static_cast<double>(a.size());
        for (const auto* list : {&a, &b, &c}) {
            lists.emplace_back(list->size() * sizeof(void*));
            cuda::copy_to_device(lists.back().data(), list->data(), list->size() * sizeof(void*));
        }
    }
    return median_seconds(3, kWarmUp, [&] {
        for (std::size_t r = 0; r < counts.size(); ++r)  // row-major C = A B is column-major C' = B' A'
            cublas.dgemm_batched(n, n, n, 1.0, lists[3 * r + 1].data(), ld, lists[3 * r].data(), ld, r == 0 ? 0.0 : 1.0,
                                 lists[3 * r + 2].data(), ld, counts[r]);
    });
}

/// cublasDgemm, one call a product.
double looped_seconds(const CublasLibrary& cublas, const Workload& w, const DeviceBuffer& arena) {
    const auto at = [&](std::int64_t bytes) {
        return reinterpret_cast<double*>(static_cast<char*>(arena.data()) + bytes);
    };
    return median_seconds(3, kWarmUp, [&] {
        for (const Target& t : w.targets)
            for (std::int64_t l = t.first; l < t.first + t.count; ++l) {
                const Operand &a = w.operands[w.links[l].a], &b = w.operands[w.links[l].b];
                cublas.dgemm(false, false, t.n, t.m, a.columns, 1.0, at(b.at), b.ld, at(a.at), a.ld,
                             l == t.first ? 0.0 : 1.0, at(t.at), t.ld);  // C' = B' A', as above
            }
    });
}

nlohmann::json run_row(const Workload& w, const GroupedOptions& options, const CublasLibrary& cublas,
                       int multiprocessors, std::string& failures) {
    const DeviceBuffer arena(static_cast<std::size_t>(w.bytes));
    const cuda::DeviceAddress base = cuda::address_of(arena.data());
    cuda::fill_bytes(arena.data(), 0xff, arena.bytes());  // NaN: whatever is not written shows
    cuda::HashList makers(ScalarKind::f64);
    for (const Operand& x : w.operands)
        makers.add({base + static_cast<cuda::DeviceAddress>(x.at), x.state, 1.0, static_cast<std::int32_t>(x.rows),
                    static_cast<std::int32_t>(x.columns), static_cast<std::int32_t>(x.ld), 0});
    const cuda::HashLaunch make = makers.plan();
    double make_seconds = 0;
    {
        const DeviceBuffer image = upload(makers, make.bytes, make.bytes);
        make_seconds = median_seconds(3, kWarmUp, [&] { cuda::run_hash(make, image.data()); });
    }

    cuda::GroupedList list(ScalarKind::f64);
    for (const Target& t : w.targets) {
        list.add_tile(base + static_cast<cuda::DeviceAddress>(t.at), t.m, t.n, t.ld, false);
        for (std::int64_t l = t.first; l < t.first + t.count; ++l) {
            const Operand &a = w.operands[w.links[l].a], &b = w.operands[w.links[l].b];
            list.add_product(base + static_cast<cuda::DeviceAddress>(a.at), a.ld,
                             base + static_cast<cuda::DeviceAddress>(b.at), b.ld, a.columns);
        }
    }
    const cuda::GroupedTuning tuning{options.shape, 0};
    const cuda::GroupedLaunch launch = list.plan(multiprocessors, tuning);
    const DeviceBuffer image = upload(list, launch.bytes, launch.bytes);
    const auto once = [&] { cuda::run_grouped(launch, image.data(), nullptr, tuning); };
    const auto times = launch_seconds(options.repeats, kWarmUp, once);
    const double seconds = times[times.size() / 2];
    const double sustained = sustained_seconds(kSustained, once);
    const Check checked = check(w, arena, w.square > 0 ? 64 : 4);

    const double flops = w.flops();
    nlohmann::json row = {{"row", w.name},
                          {"seconds", seconds},
                          {"tflops", flops / seconds * 1e-12},
                          {"best_tflops", flops / times.front() * 1e-12},
                          {"sustained_tflops", flops / sustained * 1e-12},
                          {"wanted_tflops", w.wanted_tflops},
                          {"flops", flops},
                          {"result_tiles", w.targets.size()},
                          {"products", w.links.size()},
                          {"operand_bytes", w.operand_bytes},
                          {"result_bytes", w.bytes - w.operand_bytes},
                          {"descriptor_bytes", launch.bytes},
                          {"generator_gbps", static_cast<double>(w.operand_bytes) / make_seconds * 1e-9},
                          {"max_relative_error", std::isfinite(checked.error) ? checked.error : 1e300},
                          {"same_bits_as_cpu", checked.same_bits}};
    if (w.square == 0 && options.peers && cublas.available())
        row["cublas_looped_tflops"] = flops / looped_seconds(cublas, w, arena) * 1e-12;
    if (w.square > 0 && cublas.has_batched()) {
        double work = 0;
        const double t = batched_seconds(cublas, w, arena, work);
        row["cublas_batched_tflops"] = work / t * 1e-12;
    }
    if (!options.quiet)
        fmt::print(stderr,
                   "{:10} {:9.3f} ms {:6.2f} TF/s (best {:.2f}, sustained {:.2f}, wanted {}){}, error {:.1e}{}\n",
                   w.name, 1e3 * seconds, flops / seconds * 1e-12, flops / times.front() * 1e-12,
                   flops / sustained * 1e-12, w.wanted_tflops,
                   row.contains("cublas_batched_tflops")
                       ? fmt::format(", cuBLAS batched {:.2f}", row["cublas_batched_tflops"].get<double>())
                   : row.contains("cublas_looped_tflops")
                       ? fmt::format(", cuBLAS one by one {:.2f}", row["cublas_looped_tflops"].get<double>())
                       : "",
                   checked.error, checked.same_bits ? ", the CPU's bits" : "");
    if (!(checked.error < 1e-12)) failures += fmt::format(" {} {:.1e};", w.name, checked.error);
    return row;
}

}  // namespace

void bench_grouped(const GroupedOptions& options, nlohmann::json& report) {
    require(options.device >= 0, "bench grouped: runs on a CUDA device only; say which with --devices");
    const device::Info info = device::info(options.device);
    device::set_current(options.device);
    const CublasLibrary cublas;
    double gemm = cublas_dgemm_gflops(cublas);
    std::string failures;
    auto rows = nlohmann::json::array();
    const auto wanted = [&](const char* name) {
        return options.rows.empty() || std::ranges::find(options.rows, name) != options.rows.end();
    };
    const auto add = [&](const Workload& w) {
        rows.push_back(run_row(w, options, cublas, info.multiprocessors, failures));
    };
    if (wanted("irregular")) add(irregular());
    if (wanted("64")) add(blocks(64, 300, 25));
    if (wanted("32")) add(blocks(32, 600, 13));
    if (wanted("23")) add(blocks(23, 700, 9));
    if (wanted("13")) add(blocks(13, 1000, 4));
    gemm = std::max(gemm, cublas_dgemm_gflops(cublas));
    if (gemm > 0)
        for (auto& r : rows) r["fraction_of_gemm"] = r["tflops"].get<double>() * 1e3 / gemm;
    report["benchmark"] = "grouped tile products";
    report["element"] = "float64";
    report["measure"] = fmt::format(
        "tflops: median of {} launches behind {} s of warm-up; best_tflops: the fastest of them; "
        "sustained_tflops: mean of launches back to back for {} s, when the card keeps to its power limit",
        options.repeats, kWarmUp, kSustained);
    report["machine"] = report["device"] = info.name;
    report["driver"] = info.driver;
    report["multiprocessors"] = info.multiprocessors;
    report["cublas"] = cublas.version();
    report["commit"] = build_commit();
    report["gemm_gflops"] = gemm;
    report["rows"] = std::move(rows);
    if (!options.quiet) fmt::print(stderr, "cuBLAS DGEMM {:.1f} GF/s\n", gemm);
    if (!failures.empty()) throw CheckFailed("bench grouped: results differ from the host's:" + failures);
}

}  // namespace tessera::bench
