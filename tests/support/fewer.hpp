#pragma once
// Random tests do fewer trials in instrumented builds, which are that much slower.

namespace tessera {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kFewer = 10;
#else
inline constexpr int kFewer = 1;
#endif

}  // namespace tessera
