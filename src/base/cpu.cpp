#include "tessera/base/cpu.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/check.hpp"
#include "base/memory_limit.hpp"

namespace tessera {

namespace {

Isa detect() {
    Isa best = Isa::scalar;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::avx2;
    if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        best = Isa::avx512;
#endif
    if (const char* wish = std::getenv("TESSERA_ISA")) {
        const std::string_view w = wish;
        if (w == "scalar") return Isa::scalar;
        if (w == "avx2") return std::min(best, Isa::avx2);
        require(w == "avx512", "TESSERA_ISA: '{}' is none of scalar, avx2, avx512", w);
    }
    return best;
}

}  // namespace

Isa detected_isa() {
    static const Isa isa = detect();
    return isa;
}

std::string_view name(Isa isa) {
    switch (isa) {
        case Isa::scalar:
            return "scalar";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
    }
    return "unknown";
}

const CacheSizes& cache_sizes() {
    static const CacheSizes sizes = [] {
        const auto told = [](int name, std::int64_t common) {
            const long bytes = ::sysconf(name);
            return bytes > 0 ? static_cast<std::int64_t>(bytes) : common;
        };
        return CacheSizes{told(_SC_LEVEL1_DCACHE_SIZE, 32 << 10), told(_SC_LEVEL2_CACHE_SIZE, 512 << 10),
                          told(_SC_LEVEL3_CACHE_SIZE, 16 << 20)};
    }();
    return sizes;
}

std::int64_t memory_bytes() {
    static const std::int64_t bytes = [] {
        struct sysinfo info {};
        sysinfo(&info);
        std::ifstream groups("/proc/self/cgroup");
        const std::string membership(std::istreambuf_iterator<char>(groups), {});
        return std::min(static_cast<std::int64_t>(info.totalram) * info.mem_unit, control_group_memory(membership));
    }();
    return bytes;
}

}  // namespace tessera
