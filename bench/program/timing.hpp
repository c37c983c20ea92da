#pragma once
// How the tables time calls.

#include <algorithm>
#include <vector>

#include "base/clock.hpp"

namespace tessera::bench {

/// Seconds of one call: first calls for about so long that do not count, while threads find their cores and memory its
/// pages, then as many that do.
template <class Work>
double timed(double wanted, Work&& work) {
    int calls = 0;
    const double warm = now_seconds();
    do {
        work();
        ++calls;
    } while (now_seconds() < warm + wanted);
    const double start = now_seconds();
    for (int i = 0; i < calls; ++i) work();
    return (now_seconds() - start) / calls;
}

inline double median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return x.size() % 2 ? x[x.size() / 2] : (x[x.size() / 2 - 1] + x[x.size() / 2]) / 2;
}

}  // namespace tessera::bench
