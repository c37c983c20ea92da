#include "kernels/gemm.hpp"

#include <complex>

#include "base/check.hpp"
#include "kernels/cpu/gemm_driver.hpp"

namespace tessera::kernels {

struct GemmWorkspace::Impl : cpu::Scratch {};

GemmWorkspace::GemmWorkspace() : impl_(std::make_unique<Impl>()) {}
GemmWorkspace::~GemmWorkspace() = default;
GemmWorkspace::GemmWorkspace(GemmWorkspace&&) noexcept = default;
GemmWorkspace& GemmWorkspace::operator=(GemmWorkspace&&) noexcept = default;

namespace {

// Whole huge pages: the panels are swept all the time, and small pages would miss the translation cache.
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
constexpr std::int64_t kScratchBytes = (cpu::Scratch::kBytes + kHugePage - 1) / kHugePage * kHugePage;
constexpr std::int64_t kTableBytes = std::int64_t{1} << 20;  // lists of runs and segments, generously

}  // namespace

std::int64_t gemm_workspace_bytes() { return kScratchBytes + kTableBytes; }

namespace cpu {

// From the pool of pages: every contraction makes a workspace for each thread, and blocks of huge pages in the heap
// would leave it in pieces.
void Scratch::take() { memory = Buffer(kScratchBytes, nullptr, "tile product workspace"); }

namespace {

template <class R>
const KernelTable<R>& table_of(Isa isa) {
    switch (isa) {
        case Isa::avx512:
            return avx512_table(R(0));
        case Isa::avx2:
            return avx2_table(R(0));
        case Isa::scalar:
            break;
    }
    return scalar_table(R(0));
}

}  // namespace

template <Scalar T>
void multiply_chains(Isa isa, std::span<const Chain<T>> chains, GemmFlags flags, GemmWorkspace& workspace) {
    using R = RealOf<T>;
    if (chains.empty()) return;
    const KernelTable<R>& table = table_of<R>(isa);
    if constexpr (!is_complex<T>) {
        if (flags.in_cache) {
            SmallProduct<R> small(table);
            std::size_t done = 0;
            while (done < chains.size() && small.multiply(chains[done])) ++done;
            chains = chains.subspan(done);
            if (chains.empty()) return;
        }
    }
    PackedProduct<R> packed(table, workspace.impl(), is_complex<T>, flags);
    std::vector<Segment<R>> segments;
    RealView<T> view(table.lanes);
    RealChain<R> now, next;  // the next one is known while this one runs, to fetch its tiles
    view.assign(chains[0], now);
    for (std::size_t i = 0; i < chains.size(); ++i) {
        const bool more = i + 1 < chains.size();
        if (more) view.assign(chains[i + 1], next);
        if (now.m > 0 && now.n > 0 && (now.overwrite || !now.links.empty())) {
            const RealChain<R>* after = more ? &next : nullptr;
            if (is_complex<T> || !multiply_direct(table, now, after, segments)) packed.multiply(now, after);
        }
        std::swap(now, next);
    }
}

template <Scalar T>
void add_dots(Isa isa, const T* const (&a)[kDots], const T* const (&b)[kDots], std::int64_t k, std::int64_t step_a,
              std::int64_t step_b, GemmFlags flags, T (&sums)[kDots]) {
    using R = RealOf<T>;
    const auto& table = table_of<R>(isa);
    const R *x[kDots], *y[kDots];
    for (int c = 0; c < kDots; ++c) {
        x[c] = reinterpret_cast<const R*>(a[c]);
        y[c] = reinterpret_cast<const R*>(b[c]);
    }
    if constexpr (is_complex<T>)
        table.dots_complex(x, y, k, step_a, step_b, reinterpret_cast<R*>(sums), flags.conjugate_a, flags.conjugate_b);
    else
        table.dots(x, y, k, step_a, step_b, sums);
}

#define TESSERA_INSTANTIATE(T)                                                                                  \
    template void add_dots(Isa, const T* const(&)[kDots], const T* const(&)[kDots], std::int64_t, std::int64_t, \
                           std::int64_t, GemmFlags, T(&)[kDots]);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)
#undef TESSERA_INSTANTIATE

template void multiply_chains(Isa, std::span<const Chain<float>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(Isa, std::span<const Chain<double>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(Isa, std::span<const Chain<std::complex<float>>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(Isa, std::span<const Chain<std::complex<double>>>, GemmFlags, GemmWorkspace&);

}  // namespace cpu

template <Scalar T>
void add_dots(const T* const (&a)[kDots], const T* const (&b)[kDots], std::int64_t k, std::int64_t step_a,
              std::int64_t step_b, GemmFlags flags, T (&sums)[kDots]) {
    cpu::add_dots(detected_isa(), a, b, k, step_a, step_b, flags, sums);
}

template <Scalar T>
void multiply_chains(std::span<const Chain<T>> chains, GemmFlags flags, GemmWorkspace& workspace) {
    cpu::multiply_chains(detected_isa(), chains, flags, workspace);
}

template void multiply_chains(std::span<const Chain<float>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(std::span<const Chain<double>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(std::span<const Chain<std::complex<float>>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(std::span<const Chain<std::complex<double>>>, GemmFlags, GemmWorkspace&);

#define TESSERA_INSTANTIATE(T)                                                                             \
    template void add_dots(const T* const(&)[kDots], const T* const(&)[kDots], std::int64_t, std::int64_t, \
                           std::int64_t, GemmFlags, T(&)[kDots]);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera::kernels
