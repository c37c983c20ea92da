#pragma once
// Wall-clock seconds for reports and benchmarks.

#include <chrono>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

inline double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
