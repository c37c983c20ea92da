#pragma once
// How many tiles a thread takes at a time.

#include <algorithm>

#include "base/parallel.hpp"
#include "tensor/tensor_impl.hpp"

namespace tessera {

/// Small tiles by the dozen: taking turns, and writing beside each other, costs threads more than the work on one. But
/// each thread has many turns, since tiles may differ in work.
template <Scalar T>
std::int64_t tiles_of_a_turn(const typename Tensor<T>::Impl& x, int threads) {
    constexpr std::int64_t kTurnBytes = 64 << 10;
    const auto count = x.local_count();
    if (count == 0) return 1;
    const auto small = kTurnBytes / std::max<std::int64_t>(1, x.buffer.bytes() / count);
    return std::clamp<std::int64_t>(small, 1, std::max<std::int64_t>(1, count / (16 * resolve_threads(threads))));
}

}  // namespace tessera
