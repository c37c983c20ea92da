#include "kernels/gemm.hpp"

#include <complex>

namespace tessera::kernels {

struct GemmWorkspace::Impl {};

GemmWorkspace::GemmWorkspace() : impl_(std::make_unique<Impl>()) {}
GemmWorkspace::~GemmWorkspace() = default;
GemmWorkspace::GemmWorkspace(GemmWorkspace&&) noexcept = default;
GemmWorkspace& GemmWorkspace::operator=(GemmWorkspace&&) noexcept = default;

std::int64_t gemm_workspace_bytes() { return std::int64_t{16} << 20; }

template <Scalar T>
void multiply_chains(std::span<const Chain<T>> chains, GemmFlags flags, GemmWorkspace&) {
    ref::multiply_chains(chains, flags);
}

template void multiply_chains(std::span<const Chain<float>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(std::span<const Chain<double>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(std::span<const Chain<std::complex<float>>>, GemmFlags, GemmWorkspace&);
template void multiply_chains(std::span<const Chain<std::complex<double>>>, GemmFlags, GemmWorkspace&);

}  // namespace tessera::kernels
