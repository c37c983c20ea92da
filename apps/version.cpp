#include "version.hpp"

#include <fmt/format.h>

#include "commit.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::app {

std::string version_text() {
    const auto built = [](const char* what, const char* with) {
        return *with ? fmt::format("{} ({})", what, with) : fmt::format("no {}", what);
    };
    std::string sets;
    for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
        sets += fmt::format("{}{}", sets.empty() ? "" : ", ", name(isa));
    return fmt::format("tessera {}, commit {}\nbuilt with {}, {}; instruction sets {} (here: {})", TESSERA_VERSION,
                       bench::build_commit(), built("MPI", TESSERA_BUILT_MPI), built("CUDA", TESSERA_BUILT_CUDA), sets,
                       name(detected_isa()));
}

}  // namespace tessera::app
