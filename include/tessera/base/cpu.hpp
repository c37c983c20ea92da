#pragma once
// What this machine is: the vector instruction set that kernels may use, and its memory.

#include <cstdint>
#include <string_view>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

enum class Isa { scalar, avx2, avx512 };

/// The best one this processor and its operating system support, unless the environment variable
/// TESSERA_ISA (scalar, avx2, avx512) asks for less.
Isa detected_isa();
std::string_view name(Isa isa);

/// All of it, used or not.
std::int64_t memory_bytes();

}  // namespace tessera
