#include "device/products.hpp"

#include <vector>

#include "device/cuda/grouped_gemm.hpp"
#include "device/cuda/triples_device.hpp"

namespace tessera::device {

using namespace kernels::cuda;

void MatrixProducts::run(std::span<const MatrixProduct> list, StreamHandle stream) {
    GroupedList products(ScalarKind::f64);
    for (const MatrixProduct& p : list) {
        products.add_tile(address_of(p.c), p.m, p.n, p.ldc, false);
        products.add_product(address_of(p.a), p.lda, address_of(p.b), p.ldb, p.k,
                             p.a_transposed ? std::uint32_t{kTransposeA} : 0U);
    }
    const GroupedLaunch launch = products.plan(multiprocessors());
    std::vector<std::byte> image(static_cast<std::size_t>(launch.bytes));
    products.write_image(image.data());
    if (image_.bytes() < image.size()) {
        synchronize();  // what runs may read the old one
        image_ = DeviceBuffer(image.size());
    }
    copy_to_device(image_.data(), image.data(), image.size(), stream);
    run_grouped(launch, image_.data(), stream);
}

}  // namespace tessera::device
