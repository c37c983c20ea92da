#pragma once
// Wall-clock seconds for reports and benchmarks.

#include <chrono>

namespace tessera {

inline double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
