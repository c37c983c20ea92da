// Stands in for device/cuda/ when CUDA was not there at build time.

#include "device/discovery.hpp"
#include "tessera/base/error.hpp"
#include "tessera/device/grouped.hpp"
#include "tessera/device/transpose.hpp"
#include "tessera/device/triples.hpp"

namespace tessera::device {

namespace {
[[noreturn]] void unavailable() { throw BackendUnavailable(why_none()); }
}  // namespace

struct GroupedProducts::Impl {};
GroupedProducts::GroupedProducts(ScalarKind, int) { unavailable(); }
GroupedProducts::~GroupedProducts() = default;
GroupedProducts::GroupedProducts(GroupedProducts&&) noexcept = default;
GroupedProducts& GroupedProducts::operator=(GroupedProducts&&) noexcept = default;
void GroupedProducts::add_tile(void*, std::int64_t, std::int64_t, std::int64_t, bool) { unavailable(); }
void GroupedProducts::add_product(const Matrix&, const Matrix&, std::int64_t) { unavailable(); }
double GroupedProducts::flops() const { unavailable(); }
void GroupedProducts::run(void*) { unavailable(); }

struct Transpose::Impl {};
Transpose::Transpose(std::span<const std::int64_t>, std::span<const int>, int, std::span<const std::int64_t>,
                     std::span<const std::int64_t>, int) {
    unavailable();
}
Transpose::~Transpose() = default;
Transpose::Transpose(Transpose&&) noexcept = default;
Transpose& Transpose::operator=(Transpose&&) noexcept = default;
std::string Transpose::description() const { unavailable(); }
template <Scalar T>
void Transpose::run(const T*, T*, T, T, bool, void*) const {
    unavailable();
}
template void Transpose::run(const float*, float*, float, float, bool, void*) const;
template void Transpose::run(const double*, double*, double, double, bool, void*) const;
template void Transpose::run(const std::complex<float>*, std::complex<float>*, std::complex<float>, std::complex<float>,
                             bool, void*) const;
template void Transpose::run(const std::complex<double>*, std::complex<double>*, std::complex<double>,
                             std::complex<double>, bool, void*) const;

struct Triples::Impl {};
Triples::Triples(const kernels::BlockExtents&, std::span<const kernels::FusedTerm>, const kernels::FusedOutput&, int) {
    unavailable();
}
Triples::Triples(const kernels::BlockExtents&, std::span<const kernels::FusedTerm>, const kernels::EnergyEpilogue&,
                 int) {
    unavailable();
}
Triples::~Triples() = default;
Triples::Triples(Triples&&) noexcept = default;
Triples& Triples::operator=(Triples&&) noexcept = default;
std::string Triples::description() const { unavailable(); }
void Triples::run(void*) const { unavailable(); }
double Triples::energy(void*) const { unavailable(); }

}  // namespace tessera::device
