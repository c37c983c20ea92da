#pragma once
// Which vector instruction set the kernels may use here.

#include <string_view>

namespace tessera {

enum class Isa { scalar, avx2, avx512 };

/// The best one this processor and its operating system support, unless the environment variable
/// TESSERA_ISA (scalar, avx2, avx512) asks for less.
Isa detected_isa();
std::string_view name(Isa isa);

}  // namespace tessera
