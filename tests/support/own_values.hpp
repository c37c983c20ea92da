#pragma once
// Tile values that host code and device code of a test compute alike: a source of the user's own. Seen by nvcc too.

#ifdef __CUDACC__
#define TESSERA_TEST_BOTH __host__ __device__
#else
#define TESSERA_TEST_BOTH
#endif

namespace tessera::testing {

/// Of the tile's element e: a division, so that both have to round it alike.
TESSERA_TEST_BOTH inline double own_value(long long tile, long long e) {
    return static_cast<double>((tile * 31 + e * 7) % 1009 - 504) / static_cast<double>(1 + (tile + e) % 13);
}

}  // namespace tessera::testing
