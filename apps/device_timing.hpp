#pragma once
// Timing of asynchronous work on the current CUDA device.

#include <algorithm>
#include <vector>

#include "kernels/cuda/device.hpp"

namespace tessera::bench {

/// Median of timed runs, after one that is not timed and more of those until so many seconds are over: the clock comes
/// up from idle.
template <class Work>
double median_seconds(int repeats, double warm_up, Work&& work) {
    const auto timed = [&] {
        kernels::cuda::Event start, stop;
        start.record();
        work();
        stop.record();
        return stop.seconds_since(start);
    };
    double warm = 0;
    do warm += timed() + 1e-4;
    while (warm < warm_up);
    std::vector<double> times;
    for (int r = 0; r < repeats; ++r) times.push_back(timed());
    std::ranges::sort(times);
    return times[times.size() / 2];
}

}  // namespace tessera::bench
