#pragma once
// Timing of asynchronous work on the current CUDA device.

#include <algorithm>
#include <vector>

#include "device/cuda/names.hpp"

namespace tessera::bench {

/// Times of runs, shortest first, after one that is not counted and more of those until so many seconds are over: the
/// clock comes up from idle.
template <class Work>
std::vector<double> launch_seconds(int repeats, double warm_up, Work&& work) {
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
    return times;
}

template <class Work>
double median_seconds(int repeats, double warm_up, Work&& work) {
    const auto times = launch_seconds(repeats, warm_up, work);
    return times[times.size() / 2];
}

/// Mean of runs back to back for at least so many seconds, a few of them queued at a time: what the device keeps up.
template <class Work>
double sustained_seconds(double seconds, Work&& work) {
    double total = 0;
    int runs = 0;
    while (total < seconds) {
        constexpr int kQueued = 8;
        kernels::cuda::Event start, stop;
        start.record();
        for (int i = 0; i < kQueued; ++i) work();
        stop.record();
        total += stop.seconds_since(start);
        runs += kQueued;
    }
    return total / runs;
}

}  // namespace tessera::bench
