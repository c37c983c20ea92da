#include "peers.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tessera/base/cpu.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

std::string shell_quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

/// Threads are the program's own, BLAS below it must not start more. An OpenBLAS older than the processor takes its
/// oldest kernels; the peer gets those of the instruction set that is there. Root and more ranks than cores are fine in
/// a benchmark; Open MPI asks. What an MPI starter told us is not for our children.
std::string environment(int threads) {
    std::string text = "env";
    for (const char* told : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_SIZE", "PMI_RANK", "PMI_FD",
                             "PMIX_RANK", "PMIX_NAMESPACE"})
        text += fmt::format(" -u {}", told);
    text += fmt::format(" OMP_NUM_THREADS={} OPENBLAS_NUM_THREADS=1", threads);
    if (std::getenv("OPENBLAS_CORETYPE") == nullptr && detected_isa() != Isa::scalar)
        text += detected_isa() == Isa::avx512 ? " OPENBLAS_CORETYPE=SkylakeX" : " OPENBLAS_CORETYPE=Haswell";
    if (::geteuid() == 0) text += " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    return text + " OMPI_MCA_rmaps_base_oversubscribe=1";
}

std::filesystem::path own_folder() {
    std::error_code none;
    return std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
}

}  // namespace

std::filesystem::path tessera_program() {
    const auto beside = own_folder() / "tessera";
    std::error_code none;
    // Installed, it is in bin/ and this program in libexec/tessera/.
    return std::filesystem::exists(beside, none) ? beside : own_folder().parent_path().parent_path() / "bin/tessera";
}

std::filesystem::path peer_program(const std::filesystem::path& folder, const std::string& name) {
    return (folder.empty() ? own_folder() / "bench" : folder) / name;
}

std::string no_ranks_reason() {
    const std::string start = TESSERA_MPIRUN;
    if (start.empty()) return "built without MPI: no ranks";
    if (::access(start.c_str(), X_OK) != 0) return fmt::format("no {}: ranks cannot be started", start);
    return "";
}

nlohmann::json run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments, int ranks,
                           int threads) {
    std::string command = environment(threads);
    if (ranks > 0) command += fmt::format(" {} -n {}", shell_quoted(TESSERA_MPIRUN), ranks);
    command += " " + shell_quoted(program.string());
    for (const auto& argument : arguments) command += " " + shell_quoted(argument);
    const auto close = [](FILE* f) { pclose(f); };
    std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
    if (!pipe) throw MachineError(fmt::format("cannot start {}", program.string()));
    std::string text;
    std::array<char, 4096> buffer{};
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) text.append(buffer.data(), n);
    const int status = pclose(pipe.release());
    if (status != 0)
        throw MachineError(WIFEXITED(status)
                               ? fmt::format("{} ended with exit code {}", program.string(), WEXITSTATUS(status))
                               : fmt::format("{} was stopped by signal {}", program.string(), WTERMSIG(status)));
    nlohmann::json result = nlohmann::json::parse(text, nullptr, false);
    if (result.is_discarded() || !result.contains("seconds"))
        throw MachineError(fmt::format("{} did not print a result", program.string()));
    return result;
}

nlohmann::json run_peer(const std::string& name, const std::vector<std::string>& arguments, int threads,
                        nlohmann::json& report) {
    try {
        return run_program(peer_program({}, name), arguments, 0, threads);
    } catch (const MachineError& e) {
        report["peer_missing"] = e.what();
        return nullptr;
    }
}

}  // namespace tessera
