#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "device/discovery.hpp"
#include "gemm_rate.hpp"
#include "openblas_library.hpp"
#include "probe/rates.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::app {

Action add_info(Command app) {
    struct Options {
        CommonOptions common;
        bool measure = false;
    };
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("info", "version, build features, CPU, devices, rates");
    add_common(command, o->common);
    command.add_flag("--measure", o->measure, "measure the GEMM and copy rates");
    command.footer("Example: tessera info --measure");
    return [o] {
        const int threads = resolve_threads(o->common.threads);
        const bool has_devices = !device::back_end().empty();
        const auto& blas = bench::openblas();
        Communicator& ranks = mpi_world();
        const auto node_of = ranks.nodes();
        const int nodes = 1 + *std::max_element(node_of.begin(), node_of.end());
        nlohmann::json devices = nlohmann::json::array();
        for (int d = 0; d < device::count(); ++d) {
            const auto info = device::info(d);
            devices.push_back({{"name", info.name}, {"driver", info.driver}, {"memory_bytes", info.memory_bytes}});
        }
        nlohmann::json j = {
            {"version", TESSERA_VERSION},
            {"features", {{"cuda", device::back_end() == "CUDA"}, {"mpi", TESSERA_WITH_MPI == 1}, {"hdf5", true}}},
            {"cpu", cpu_name()},
            {"instruction_set", name(detected_isa())},
            {"threads", threads},
            {"memory_bytes", memory_bytes()},
            {"blas", blas.available() ? nlohmann::json(blas.version() + " core " + blas.core()) : nlohmann::json()},
            {"devices", devices},
            {"ranks", ranks.size()},
            {"nodes", nodes},
        };
        if (o->measure) {
            const double gemm = bench::openblas_dgemm_rate(threads).best_gflops;
            j["gemm_gflops"] = gemm > 0 ? nlohmann::json(gemm) : nlohmann::json();
            j["copy_gbs"] = measure_copy_gbs(threads);
        }
        if (o->common.json) return print_json(j);
        fmt::print("tessera     {}\n", TESSERA_VERSION);
        fmt::print("processor   {}, {} threads, {}\n", cpu_name(), threads, name(detected_isa()));
        fmt::print("memory      {}\n", format_bytes(memory_bytes()));
        if (ranks.size() > 1) fmt::print("ranks       {} on {} node{}\n", ranks.size(), nodes, nodes == 1 ? "" : "s");
        fmt::print("built with  HDF5{}{}{}{}\n", TESSERA_WITH_MPI ? ", MPI" : "",
                   has_devices ? fmt::format(", {}", device::back_end()) : "", TESSERA_WITH_MPI ? "" : "; without MPI",
                   has_devices ? "" : "; without CUDA");
        if (devices.empty()) fmt::print("devices     none\n");
        for (const auto& d : devices)
            fmt::print("device      {}, {}, driver {}\n", d["name"].get<std::string>(),
                       format_bytes(d["memory_bytes"].get<std::int64_t>()), d["driver"].get<std::string>());
        fmt::print("BLAS        {}\n",
                   blas.available() ? fmt::format("{} core {}", blas.version(), blas.core()) : blas.missing());
        if (o->measure) {
            if (j["gemm_gflops"].is_null())
                fmt::print("GEMM        rate unknown: {}\n", bench::why_no_openblas(threads));
            else
                fmt::print("GEMM        {:.1f} GFLOP/s (OpenBLAS, N = 2000)\n", j["gemm_gflops"].get<double>());
            fmt::print("copy        {:.1f} GB/s read plus written\n", j["copy_gbs"].get<double>());
        }
    };
}

}  // namespace tessera::app
