#include <fmt/format.h>

#include "base/cpu.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "probe/rates.hpp"

namespace tessera::app {

Action add_info(CLI::App& app) {
    struct Options {
        CommonOptions common;
        bool measure = false;
    };
    auto o = std::make_shared<Options>();
    auto* command = app.add_subcommand("info", "version, build features, CPU, devices, rates");
    add_common(*command, o->common);
    command->add_flag("--measure", o->measure, "measure the GEMM and copy rates");
    command->footer("Example: tessera info --measure");
    return [o] {
        const int threads = resolve_threads(o->common.threads);
        nlohmann::json j = {
            {"version", TESSERA_VERSION},
            {"features", {{"cuda", false}, {"mpi", false}, {"hdf5", true}}},
            {"cpu", cpu_name()},
            {"instruction_set", name(detected_isa())},
            {"threads", threads},
            {"memory_bytes", memory_bytes()},
            {"blas", blas_name()},
            {"devices", nlohmann::json::array()},
            {"ranks", 1},
        };
        if (o->measure) {
            j["gemm_gflops"] = measure_gemm_gflops(threads);
            j["copy_gbs"] = measure_copy_gbs(threads);
        }
        if (o->common.json) return print_json(j);
        fmt::print("tessera     {}\n", TESSERA_VERSION);
        fmt::print("processor   {}, {} threads, {}\n", cpu_name(), threads, name(detected_isa()));
        fmt::print("memory      {}\n", format_bytes(memory_bytes()));
        fmt::print("built with  HDF5; without CUDA, without MPI\n");
        fmt::print("devices     none\n");
        fmt::print("BLAS        {}\n", blas_name());
        if (o->measure) {
            fmt::print("GEMM        {:.1f} GFLOP/s (OpenBLAS, N = 2000)\n", j["gemm_gflops"].get<double>());
            fmt::print("copy        {:.1f} GB/s read plus written\n", j["copy_gbs"].get<double>());
        }
    };
}

}  // namespace tessera::app
