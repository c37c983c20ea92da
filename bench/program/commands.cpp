#include <fmt/format.h>

#include <fstream>

#include "base/check.hpp"
#include "bench_contractions.hpp"
#include "bench_dense.hpp"
#include "bench_grouped.hpp"
#include "bench_latency.hpp"
#include "bench_rectangular.hpp"
#include "bench_run.hpp"
#include "bench_sign.hpp"
#include "bench_sparse.hpp"
#include "bench_threads.hpp"
#include "bench_transpose.hpp"
#include "bench_triples.hpp"
#include "commands.hpp"

namespace tessera::app {

namespace {

/// none is no device, as a negative number is to the benchmarks.
std::string read_device(std::string& text) {
    if (text == "none")
        text = "-1";
    else if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos)
        return fmt::format("'{}' is no device: one number from 0 on, or none", text);
    return {};
}

void add_repeats(Command command, int& repeats, const std::string& help) {
    auto option = command.add_option("--repeats", repeats, help).show_default().check(between(1, 1000));
    command.add_old_name("--repetitions", option);
}

}  // namespace

void add_device(Command command, int& device, const std::string& help) {
    auto option = command.add_option("--devices", device, help).transform({read_device});
    command.add_old_name("--device", option);
}

Action add_sparse(Command app) {
    struct Options {
        CommonOptions common;
        SparseBenchOptions bench;
        std::string part = "all";
    };
    auto o = std::make_shared<Options>();
    auto command =
        app.add_subcommand("sparse", "small tiles at 10 to 0.01 % occupancy, and what permuted layouts cost");
    command.add_flag("--peers", o->bench.peers,
                     "time DBCSR too, on 1 and 2 ranks, where it is installed (make bench-packages)");
    command.add_option("--part", o->part, "all, blocks (the small tiles) or permuted (the layouts)")
        .show_default()
        .check(one_of({"all", "blocks", "permuted"}));
    add_repeats(command, o->bench.repeats, "best of so many");
    add_common(command, o->common);
    command.footer("Example: tessera bench sparse --peers");
    return [o] {
        o->bench.threads = o->common.threads;
        o->bench.quiet = o->common.quiet;
        o->bench.blocks = o->part != "permuted";
        o->bench.permuted = o->part != "blocks";
        const auto result = bench_sparse(o->bench);
        if (o->common.json)
            print_json(result);
        else
            print_bench_sparse(result);
    };
}

Action add_contractions(Command app) {
    struct Options {
        CommonOptions common;
        bench::ContractionsOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("contractions", "ordinary dense contractions, of arrays where they lie");
    command.add_flag("--peers", o->bench.peers, "time TBLIS (pytblis), NumPy and PyTorch too, where Python has them");
    command.add_flag("--tiles", o->bench.tiles, "time tensors too: in automatic tiles, and each in one tile");
    command.add_option("--python", o->bench.python, "the Python that has the peers").show_default();
    command.add_option("--type", o->bench.type, "float32 float64 complex64 complex128")
        .show_default()
        .check(one_of({"float32", "float64", "complex64", "complex128"}));
    command
        .add_option("--family", o->bench.families,
                    "matrix ttm transform ccsd triples small fitting outer batch (default: all)")
        .check(one_of({"matrix", "ttm", "transform", "ccsd", "triples", "small", "fitting", "outer", "batch"}));
    command.add_option("--spec", o->bench.specs, "rows with these specs alone (default: all)");
    add_repeats(command, o->bench.rounds, "median of so many rounds, in which all take turns");
    add_common(command, o->common);
    command.footer("Example: tessera bench contractions --peers --family ttm");
    return [o] {
        o->bench.threads = o->common.threads;
        o->bench.quiet = o->common.quiet;
        const auto result = bench::bench_contractions(o->bench);
        if (o->common.json) return print_json(result);
        bench::print_bench_contractions(result);
    };
}

Action add_latency(Command app) {
    struct Options {
        CommonOptions common;
        bench::LatencyOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("latency", "small block-sparse contractions, in microseconds a call");
    command.add_option("--repeats", o->bench.repeats, "median of so many calls")
        .show_default()
        .check(between(1, 1000000));
    add_device(command, o->bench.device, "a device on which the tensors live, or none");
    add_common(command, o->common);
    command.footer("Example: tessera bench latency --threads 2");
    return [o] {
        o->bench.threads = o->common.threads;
        const auto result = bench::bench_latency(o->bench);
        if (o->common.json) return print_json(result);
        bench::print_bench_latency(result);
    };
}

Action add_sign(Command app) {
    struct Options {
        CommonOptions common;
        SignBenchOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("sign", "the sign of a block-sparse matrix, by an iteration of products");
    command.add_flag("--peers", o->bench.peers, "time DBCSR too, where it is installed (make bench-packages)");
    command.add_option("--states", o->bench.states, "rows of the matrix")
        .show_default()
        .check(between(std::int64_t{100}, std::int64_t{1'000'000}));
    command.add_option("--filter", o->bench.filter, "tiles below this are dropped in each product")
        .show_default()
        .check(above_zero());
    add_common(command, o->common);
    command.footer("Example: tessera bench sign --peers");
    return [o] {
        o->bench.threads = o->common.threads;
        o->bench.quiet = o->common.quiet;
        const auto result = bench_sign(o->bench);
        if (o->common.json) return print_json(result);
        print_bench_sign(result);
    };
}

Action add_run(Command app) {
    struct Options {
        CommonOptions common;
        bench::RunOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("run", "problems of `tessera run` and OpenBLAS's DGEMM in turns");
    command.add_option("problem", o->bench.problems, "any of them").show_default();
    add_repeats(command, o->bench.repeats, "median of so many rounds");
    add_common(command, o->common);
    command.footer("Example: tessera bench run alkane:40:v3:min --repeats 1");
    return [o] {
        o->bench.threads = o->common.threads;
        o->bench.quiet = o->common.quiet;
        const auto result = bench::bench_run(o->bench);
        if (o->common.json) return print_json(result);
        bench::print_bench_run(result);
    };
}

Action add_threads(Command app) {
    struct Options {
        bool json = false;
        bench::ThreadsOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("threads", "what more cores give where arithmetic takes the time");
    command
        .add_option("--counts", o->bench.counts, "numbers of threads, from 1 on; those beyond the cores are left out")
        .delimiter(',')
        .show_default()
        .check(between(1, 4096));
    command.add_option("--problem", o->bench.problems, "problems of `tessera run`").show_default();
    command.add_option("--repeats", o->bench.repeats, "median of so many rounds, in which all take turns")
        .show_default()
        .check(between(1, 1000));
    command.add_flag("--quiet", o->bench.quiet, "no progress, no messages but warnings");
    command.add_flag("--json", o->json, "one JSON object on stdout, nothing else there");
    command.footer("Example: tessera bench threads --counts 1,2,8,16");
    return [o] {
        const auto result = bench::bench_threads(o->bench);
        if (o->json) return print_json(result);
        bench::print_bench_threads(result);
    };
}

Action add_dense(Command app) {
    struct Options {
        CommonOptions common;
        DenseBenchOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("dense", "a dense product on several ranks");
    command.add_flag("--peers", o->bench.peers, "time ScaLAPACK's pdgemm too, where it is installed");
    command.add_option("--ranks", o->bench.ranks, "MPI ranks").show_default().check(between(1, 1024));
    command.add_option("--size", o->bench.size, "rows and columns of the matrices")
        .show_default()
        .check(between(std::int64_t{1}, std::int64_t{1} << 20));
    command.add_option("--tile", o->bench.tile, "rows and columns of a tile")
        .show_default()
        .check(between(std::int64_t{1}, std::int64_t{1} << 20));
    add_repeats(command, o->bench.repeats, "best of so many");
    add_common(command, o->common);
    command.footer("--threads is per rank (default 1).\nExample: tessera bench dense --peers");
    return [o] {
        o->bench.threads = std::max(1, o->common.threads);
        o->bench.quiet = o->common.quiet || !o->common.json;
        const auto result = bench_dense(o->bench);
        if (o->common.json) return print_json(result);
        fmt::print("{} x {} x {} in tiles of {}, {} ranks of {} thread(s): {:.1f} GFLOP/s\n", o->bench.size,
                   o->bench.size, o->bench.size, o->bench.tile, o->bench.ranks, o->bench.threads,
                   result["gflops"].get<double>());
        if (!result["ratio"].is_null())
            fmt::print("pdgemm {:.1f} GFLOP/s, ratio {:.2f}\n", result["peer_gflops"].get<double>(),
                       result["ratio"].get<double>());
        if (result.contains("peer_missing")) fmt::print("{}\n", result["peer_missing"].get<std::string>());
    };
}

Action add_rectangular(Command app) {
    struct Options {
        CommonOptions common;
        RectangularOptions bench;
        bool real_alone = false;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("rectangular", "products with one small matrix, on linear and square grids");
    command.add_option("--ranks", o->bench.ranks, "MPI ranks, a square number").show_default().check(between(4, 1024));
    command.add_option("--size", o->bench.size, "n: of n x n x n^2 and n^2 x n x n")
        .show_default()
        .check(between(std::int64_t{60}, std::int64_t{20'000}));
    command.add_flag("--real-alone", o->real_alone, "leave out what is simulated beyond these ranks");
    add_repeats(command, o->bench.repeats, "median of so many");
    add_common(command, o->common);
    command.footer(
        "After Fig. 3 of Sivkov et al. 2019 (DBCSR). Ranks here find A and B where each grid wants them.\n"
        "--threads is per rank (default 1).\nExample: tessera bench rectangular --ranks 4");
    return [o] {
        o->bench.threads = std::max(1, o->common.threads);
        o->bench.quiet = o->common.quiet;
        o->bench.simulate = !o->real_alone;
        const auto result = bench_rectangular(o->bench);
        if (o->common.json) return print_json(result);
        print_bench_rectangular(result);
    };
}

Action add_transpose(Command app) {
    struct Options {
        CommonOptions common;
        bench::BenchTransposeOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("transpose", "tensor transposes against a copy and the scatter loop");
    add_device(command, o->bench.device, "number of one CUDA device, or none (default: none, the CPU)");
    command.add_option("--volume", o->bench.volumes, "elements (default: 37e6 77e6 141e6)")
        .check(between(bench::kLeastVolume, bench::kMostVolume));
    command.add_option("--rank", o->bench.ranks, "ranks (default: 2 to 8 and 15)").check(between(2, 16));
    command.add_option("--samples", o->bench.samples, "random permutations per shape, with their inverses")
        .show_default()
        .check(between(1, 1000));
    command.add_flag("--reverse", o->bench.reverse, "the reverse permutations instead");
    command.add_flag("--peers", o->bench.peers, "CPU: time NumPy (one thread) too, where it is installed");
    command.add_flag("--small-pages", o->bench.small_pages,
                     "CPU: buffers in ordinary pages, as malloc gives them, instead of huge ones");
    add_common(command, o->common);
    command.footer("Example: tessera bench transpose --volume 37e6 --samples 2");
    return [o] {
        o->bench.threads = o->common.threads;
        o->bench.progress = !o->common.quiet;
        nlohmann::json result;
        bench::bench_transpose(o->bench, result);
        if (o->common.json) return print_json(result);
        fmt::print("{:<6} {:>7} {:>9} {:>9} {:>13} {:>11}\n", "rank", "cases", "of copy", "worst", "over scatter",
                   "copy GB/s");
        const auto line = [](const std::string& name, const nlohmann::json& j, const char* count) {
            fmt::print("{:<6} {:>7} {:>9.2f} {:>9.2f} {:>13.1f} {:>11.1f}\n", name, j[count].get<int>(),
                       j["geomean_of_copy"].get<double>(), j["worst_of_copy"].get<double>(),
                       j["geomean_over_scatter"].get<double>(), j["geomean_copy_gbps"].get<double>());
        };
        const auto& all = result["summary"];
        for (const auto& rank : all["by_rank"]) line(std::to_string(rank["rank"].get<int>()), rank, "cases");
        line("all", all, "total");
        fmt::print("planning {:.1f} microseconds, at worst {:.1f}; from the cache {:.1f}\n",
                   all["median_plan_microseconds"].get<double>(), all["worst_plan_microseconds"].get<double>(),
                   all["median_cached_plan_microseconds"].get<double>());
        if (all.contains("geomean_over_numpy"))
            fmt::print("over NumPy {:.1f}\n", all["geomean_over_numpy"].get<double>());
        if (result.contains("peer_missing")) fmt::print("{}\n", result["peer_missing"].get<std::string>());
    };
}

Action add_triples(Command app) {
    struct Options {
        CommonOptions common;
        bench::TriplesOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("triples", "the eighteen CCSD(T) contractions, fused and not");
    add_device(command, o->bench.device, "number of one CUDA device, or none (default: none, the CPU)");
    command.add_option("--size", o->bench.sizes, "A B C D E long (default: all)")
        .check(one_of({"A", "B", "C", "D", "E", "long"}));
    command
        .add_option(
            "--variant", o->bench.variants,
            "fused, nine_nine, partially_fused (6 + 3 twice), no_register_transpose (device), no_register_tiling "
            "(CPU), unfused, ttgt, energy, energy_closed_shell (default: all)")
        .check(
            one_of(std::vector<std::string>(std::begin(bench::kTriplesVariants), std::end(bench::kTriplesVariants))));
    command.add_option("--terms", o->bench.terms, "all sd1 sd2: of which terms (default: all, together)")
        .check(one_of({"all", "sd1", "sd2"}));
    command.add_flag("--peers", o->bench.peers,
                     "CPU: time NumPy's einsum too, where it is installed (a device: cuBLAS is always timed)");
    add_common(command, o->common);
    command.footer("Example: tessera bench triples --size C --variant fused");
    return [o] {
        o->bench.threads = o->common.threads;
        o->bench.quiet = o->common.quiet;
        nlohmann::json result;
        bench::bench_triples(o->bench, result);
        if (o->common.json) return print_json(result);
        fmt::print("{:<6} {:<22} {:<6} {:>10} {:>10}\n", "size", "variant", "terms", "GFLOP/s", "of GEMM");
        for (const auto& c : result["cases"])
            fmt::print("{:<6} {:<22} {:<6} {:>10.1f} {:>10.2f}\n", c["size"].get<std::string>(),
                       c["variant"].get<std::string>(), c["terms"].get<std::string>(), c["gflops"].get<double>(),
                       c.value("fraction_of_gemm", 0.0));
    };
}

Action add_grouped(Command app) {
    struct Options {
        CommonOptions common;
        bench::GroupedOptions bench;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("grouped", "lists of tile products on a CUDA device, against its DGEMM rate");
    add_device(command, o->bench.device, "number of one CUDA device (this table has no CPU part)");
    command.add_flag("--peers", o->bench.peers,
                     "time cuBLAS's DGEMM on the irregular row too, one call a product (of equal tiles its batched one "
                     "is always timed)");
    command.add_option("--row", o->bench.rows, "irregular 64 32 23 13 (default: all)")
        .check(one_of({"irregular", "64", "32", "23", "13"}));
    add_repeats(command, o->bench.repeats, "tflops: median of so many launches");
    command.add_option("--shape", o->bench.shape, "one block shape for all tiles, 0 to 3 (default: by size)")
        .check(between(0, 3));
    add_common(command, o->common);
    command.footer("Example: tessera bench grouped --devices 0 --row irregular --row 13");
    return [o] {
        o->bench.quiet = o->common.quiet;
        nlohmann::json result;
        bench::bench_grouped(o->bench, result);
        if (o->common.json) return print_json(result);
        fmt::print("{:<10} {:>8} {:>8} {:>10} {:>8} {:>8} {:>8}\n", "row", "TFLOP/s", "best", "sustained", "wanted",
                   "of GEMM", "cuBLAS");
        for (const auto& r : result["rows"])
            fmt::print("{:<10} {:>8.2f} {:>8.2f} {:>10.2f} {:>8} {:>8.2f} {:>8.2f}\n", r["row"].get<std::string>(),
                       r["tflops"].get<double>(), r["best_tflops"].get<double>(), r["sustained_tflops"].get<double>(),
                       r["wanted_tflops"].get<double>(), r.value("fraction_of_gemm", 0.0),
                       r.value("cublas_batched_tflops", r.value("cublas_looped_tflops", 0.0)));
    };
}

}  // namespace tessera::app
