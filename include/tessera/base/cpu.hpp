#pragma once
// What this machine is: the vector instruction set that kernels may use, its caches and its memory.

#include <cstdint>
#include <string_view>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

enum class Isa { scalar, avx2, avx512 };

/// The best one this processor and its operating system support, unless the environment variable
/// TESSERA_ISA (scalar, avx2, avx512) asks for less.
Isa detected_isa();
std::string_view name(Isa isa);

/// Of a core, in bytes; the last level is shared by some. What the system does not tell is a common size. They steer
/// how work is cut into blocks, which changes no bit of a result.
struct CacheSizes {
    std::int64_t l1 = 0, l2 = 0, l3 = 0;
};
const CacheSizes& cache_sizes();

/// All of it, used or not; what a container or a batch system allows (control groups) where that is less.
std::int64_t memory_bytes();

}  // namespace tessera
