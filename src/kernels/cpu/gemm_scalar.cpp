// The register kernels of the tile product for any processor: vectors of one element.

#include <cmath>

#include "kernels/cpu/gemm_micro.hpp"

namespace tessera::kernels::cpu {
namespace {

template <class R>
struct One {
    using Real = R;
    using Reg = R;
    using Mask = int;
    static constexpr int lanes = 1, across = 1, rows1 = 4, rows2 = 4, rows3 = 4;
    static Mask mask(int) { return 1; }
    static Reg zero() { return R(0); }
    static Reg load(const R* p) { return *p; }
    static Reg load_mask(const R* p, Mask) { return *p; }
    static void store(R* p, Reg x) { *p = x; }
    static void store_mask(R* p, Mask, Reg x) { *p = x; }
    static Reg spread(const R* p) { return *p; }
    static Reg fma(Reg a, Reg b, Reg c) { return std::fma(a, b, c); }
    static bool any_nan(Reg x) { return x != x; }
    static void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }
    static void prefetch_near(const void* p) { __builtin_prefetch(p, 0, 3); }
    static void prefetch_write(const void* p) { __builtin_prefetch(p, 1, 3); }
    static void pack_across(const R* src, std::int64_t, R* dst, std::int64_t) { *dst = *src; }
    static void pack_corner(const R*, std::int64_t, R*, std::int64_t, int, int) {}  // one element is never cut
};

}  // namespace

const KernelTable<float>& scalar_table(float) {
    static const KernelTable<float> table = make_table<One<float>>();
    return table;
}

const KernelTable<double>& scalar_table(double) {
    static const KernelTable<double> table = make_table<One<double>>();
    return table;
}

}  // namespace tessera::kernels::cpu
