#pragma once
// What the host side of the fused contraction hands to its kernels. No CUDA types: triples.cpp plans, triples.cu
// launches.

#include "kernels/cuda/device.hpp"

namespace tessera::kernels::cuda {

/// A term in slot order: 0 = x0, 1 = S, 2 = loop 0, 3..5 = loops 1..3. Operand r carries x0, operand s carries S.
struct DeviceTerm {
    const double *r, *s;
    long long r_stride[6], s_stride[6];  // 0 where the operand does not carry the index
    long long r_sum, s_sum;
    double factor;
    int sum, chunk;  // summed extent; how much of it is loaded at a time (a multiple of 4, at most 16)
    int mask;        // bit n: loop n belongs to operand r
};

struct FusedParams {
    // By role: 0..2 the indices in tiles of 8, 3..5 the others.
    int extent[6];
    int tiles[6];
    long long out_stride[6];
    double* out;
    int accumulate;
    int swap_layout;  // some term needs layout 2: the tile ends in it
    const DeviceTerm* terms;
    int terms1, terms2;      // in layout 1, then in layout 2
    int singles1, singles2;  // behind them
    const double* energies[6];
    double sign[6];
    double* partial;  // one per tile, or per orbit
    double* scratch;  // orbit: six tiles per thread block
    int place[3];     // orbit: the letter (0 = a, 1 = b, 2 = c) of roles 0..2
    long long first_tile;
    long long orbits;
};

/// One instantiation of the kernel, in numbers.
struct FusedVariant {
    int tile[4];  // along the four loops
    int threads, blocks_per_sm, stages;
    int elements;       // of a tile
    int depth[16];      // summed elements a stage holds, by mask
    bool closed_shell;  // has the orbit kernel
};
int fused_variant_count();
const FusedVariant& fused_variant(int number);  // from 1

void launch_fused(int variant, const FusedParams& params, bool to_energy, int blocks, StreamHandle stream);
void launch_orbits(int variant, const FusedParams& params, int blocks, StreamHandle stream);
void launch_plain(const FusedParams& params, bool to_energy, long long elements, int blocks, StreamHandle stream);
inline constexpr int kPlainThreads = 128;
/// *result = scale * sum of partial[0 .. count), in a fixed order.
void launch_reduce(const double* partial, long long count, double scale, double* result, StreamHandle stream);
int multiprocessors();  // of the current device

}  // namespace tessera::kernels::cuda
