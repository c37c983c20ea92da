#pragma once
// What the kernels of the grouped products in double are made of: their block shapes, asynchronous copies and matrix
// instructions.

namespace tessera::kernels::cuda::device {

/// Fragments FragmentsM x FragmentsN per warp, WarpsM x WarpsN warps.
template <int WarpsM, int WarpsN, int FragmentsM, int FragmentsN, int Depth, int Stages, int BlocksPerSm>
struct GroupedShape {
    static constexpr int warps_m = WarpsM, warps_n = WarpsN, fragments_m = FragmentsM, fragments_n = FragmentsN;
    static constexpr int depth = Depth, stages = Stages, blocks_per_sm = BlocksPerSm;
    static constexpr int multipliers = 32 * WarpsM * WarpsN;
    static constexpr bool large = multipliers > 128;  // one block per multiprocessor, with threads that only copy
    static constexpr int copiers = large ? 128 : multipliers;  // a warp group: registers are shared out by those
    static constexpr int first_multiplier = large ? copiers : 0, threads = first_multiplier + multipliers;
    static constexpr bool fetch_ahead = !large;  // of products; long ones do without
    static constexpr int side = 16 * WarpsM * FragmentsM;
    static_assert(side == 8 * WarpsN * FragmentsN, "square blocks: both panels are copied alike");
    // Rows of a panel run along the tile or along the sum; either way they fall into different banks.
    static constexpr int wide_pitch = side + 4, deep_pitch = Depth + 4;
    static_assert(wide_pitch % 8 == 4 && deep_pitch % 8 == 4);
    static constexpr int panel = side * deep_pitch > Depth* wide_pitch ? side* deep_pitch : Depth* wide_pitch;
    static constexpr int barrier_bytes = large ? 16 : 0;  // per stage
    static constexpr int shared_bytes = 8 * 2 * panel * Stages + (32 + barrier_bytes) * Stages + 16;
};

/// threadIdx.x, read anew: what hangs on it is cheaper to compute again than to hold in registers.
__device__ __forceinline__ int thread_index() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

template <int Bytes>
__device__ __forceinline__ void copy_async(double* to, const double* from, int bytes) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
/// Sixteen bytes, or nothing: much shorter code than a run-time number of bytes.
__device__ __forceinline__ void copy_async_if(double* to, const double* from, bool wanted) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %2, 0;\n"
        "@p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(address),
        "l"(from), "r"(static_cast<int>(wanted))
        : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Groups>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}

/// c += a b over 16 x 8 x 4: one chain of fused multiply-adds per element, as on the host (tests hold this).
__device__ __forceinline__ void multiply(double (&c)[4], double a, double a8, double b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a), "d"(a8), "d"(b));
#else
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%4},{%6},{%0,%1};\n"
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%2,%3},{%5},{%6},{%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a), "d"(a8), "d"(b));
#endif
}

/// The same over 16 x 8 x 16: a[2 q] and b[q] belong to the q-th four. One warp alone keeps the matrix unit busy with
/// it.
__device__ __forceinline__ void multiply(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7,%8,%9,%10,%11},"
        "{%12,%13,%14,%15},{%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
          "d"(b[2]), "d"(b[3]));
#else
    for (int q = 0; q < 4; ++q) multiply(c, a[2 * q], a[2 * q + 1], b[q]);
#endif
}

}  // namespace tessera::kernels::cuda::device
