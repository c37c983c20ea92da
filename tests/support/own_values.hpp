#pragma once
// Tile values that host code and device code of a test compute alike: a source of the user's own. Seen by nvcc too.

#ifdef __CUDACC__
#define TESSERA_TEST_BOTH __host__ __device__
#else
#define TESSERA_TEST_BOTH
#endif

#include <cmath>

namespace tessera::testing {

/// Of the tile's element e: a division, so that both have to round it alike.
TESSERA_TEST_BOTH inline double own_value(long long tile, long long e) {
    return static_cast<double>((tile * 31 + e * 7) % 1009 - 504) / static_cast<double>(1 + (tile + e) % 13);
}

/// A function of elements with +, -, *, /, sqrt and fma, which hosts and devices round alike.
TESSERA_TEST_BOTH inline double changed_value(double x) {
    return sqrt(fma(x, x, 1.0 / 3.0)) * 0.7 - (x + 2.5) / (x * x + 1.1);
}

}  // namespace tessera::testing
