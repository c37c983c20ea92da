// The installed forms of the kernels: each on the device it was made for.

#include <vector>

#include "base/check.hpp"
#include "device/cuda/grouped_gemm.hpp"
#include "device/cuda/transpose.hpp"
#include "device/fused.hpp"
#include "device/memory.hpp"
#include "tessera/device/grouped.hpp"
#include "tessera/device/transpose.hpp"
#include "tessera/device/triples.hpp"

namespace tessera::device {

namespace cuda = kernels::cuda;

struct GroupedProducts::Impl {
    int device;
    cuda::GroupedList list;
    cuda::GroupedLaunch launch = {};
    DeviceBuffer image = {};
    bool changed = true, any = false;
    double flops = 0;
    std::int64_t m = 0, n = 0;  // of the tile at hand
};

GroupedProducts::GroupedProducts(ScalarKind kind, int device)
    : impl_(std::make_unique<Impl>(Impl{device, cuda::GroupedList(kind)})) {
    set_current(device);
}
GroupedProducts::~GroupedProducts() = default;
GroupedProducts::GroupedProducts(GroupedProducts&&) noexcept = default;
GroupedProducts& GroupedProducts::operator=(GroupedProducts&&) noexcept = default;

void GroupedProducts::add_tile(void* c, std::int64_t m, std::int64_t n, std::int64_t ldc, bool resume) {
    require(m >= 0 && n >= 0, "grouped products: a tile of {} x {}", m, n);
    impl_->list.add_tile(cuda::address_of(c), m, n, ldc, resume);
    impl_->m = m;
    impl_->n = n;
    impl_->changed = impl_->any = true;
}

void GroupedProducts::add_product(const Matrix& a, const Matrix& b, std::int64_t k) {
    require(impl_->any, "grouped products: a product before any tile");
    require(k >= 0, "grouped products: {} summed elements", k);
    impl_->list.add_product(cuda::address_of(a.data), a.ld, cuda::address_of(b.data), b.ld, k,
                            (a.transposed ? cuda::kTransposeA : 0u) | (a.conjugated ? cuda::kConjugateA : 0u) |
                                (b.transposed ? cuda::kTransposeB : 0u) | (b.conjugated ? cuda::kConjugateB : 0u));
    impl_->flops += 2.0 * static_cast<double>(impl_->m) * static_cast<double>(impl_->n) * static_cast<double>(k);
    impl_->changed = true;
}

double GroupedProducts::flops() const { return impl_->flops; }

void GroupedProducts::run(void* stream) {
    auto& x = *impl_;
    if (!x.any) return;
    set_current(x.device);
    if (x.changed) {
        x.launch = x.list.plan(info(x.device).multiprocessors);
        std::vector<std::byte> image(static_cast<std::size_t>(x.launch.bytes));
        x.list.write_image(image.data());
        synchronize();  // a run of the description that is replaced may be under way
        x.image = DeviceBuffer(image.size());
        copy_to_device(x.image.data(), image.data(), image.size(), stream);
        x.changed = false;
    }
    cuda::run_grouped(x.launch, x.image.data(), stream);
}

struct Transpose::Impl {
    int device;
    int element_bytes;
    cuda::DeviceTranspose plan;
};

Transpose::Transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, int element_bytes,
                     std::span<const std::int64_t> in_strides, std::span<const std::int64_t> out_strides, int device) {
    set_current(device);
    impl_ = std::make_unique<Impl>(Impl{
        device, element_bytes, cuda::DeviceTranspose(extents, permutation, element_bytes, in_strides, out_strides)});
}
Transpose::~Transpose() = default;
Transpose::Transpose(Transpose&&) noexcept = default;
Transpose& Transpose::operator=(Transpose&&) noexcept = default;
std::string Transpose::description() const { return impl_->plan.description(); }

template <Scalar T>
void Transpose::run(const T* in, T* out, T alpha, T beta, bool conjugate, void* stream) const {
    require(static_cast<int>(sizeof(T)) == impl_->element_bytes,
            "transpose: planned for elements of {} bytes, run with {}", impl_->element_bytes, sizeof(T));
    set_current(impl_->device);
    impl_->plan.run(in, out, alpha, beta, conjugate, stream);
}
template void Transpose::run(const float*, float*, float, float, bool, void*) const;
template void Transpose::run(const double*, double*, double, double, bool, void*) const;
template void Transpose::run(const std::complex<float>*, std::complex<float>*, std::complex<float>, std::complex<float>,
                             bool, void*) const;
template void Transpose::run(const std::complex<double>*, std::complex<double>*, std::complex<double>,
                             std::complex<double>, bool, void*) const;

struct Triples::Impl {
    int device;
    DeviceFused fused;
};

Triples::Triples(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
                 const kernels::FusedOutput& output, int device) {
    set_current(device);
    impl_ = std::make_unique<Impl>(Impl{device, DeviceFused(extents, terms, output)});
}
Triples::Triples(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
                 const kernels::EnergyEpilogue& epilogue, int device) {
    set_current(device);
    impl_ = std::make_unique<Impl>(Impl{device, DeviceFused(extents, terms, epilogue)});
}
Triples::~Triples() = default;
Triples::Triples(Triples&&) noexcept = default;
Triples& Triples::operator=(Triples&&) noexcept = default;
std::string Triples::description() const { return impl_->fused.description(); }
void Triples::run(void* stream) const {
    set_current(impl_->device);
    impl_->fused.run(stream);
}
double Triples::energy(void* stream) const {
    set_current(impl_->device);
    return impl_->fused.energy(stream);
}

}  // namespace tessera::device
