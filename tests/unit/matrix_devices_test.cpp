// Functions of matrices whose products run on devices have the bits of the cores, and so have their bounds. On host
// memory that stands in for devices; compiled once more for GPU 0.

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "device/host_store.hpp"
#include "support/back_end.hpp"
#include "support/insulator.hpp"
#include "tessera/matrix/functions.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {
namespace {

using testing::insulator;

/// Devices 0 and 1 are host memory; on a GPU both are device 0.
class Stores {
  public:
    Stores() {
        if (!testing::on_device) played_.emplace(host_stores(2));
    }

  private:
    std::optional<StandInStores> played_;
};

template <class T>
class MatrixDevices : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(MatrixDevices, Scalars);

TYPED_TEST(MatrixDevices, HaveTheBitsOfTheCores) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Stores stores;
    using T = TypeParam;
    const std::int64_t n = 48;
    const auto t = Tiling{5, 7, 1, 9, 4, 8, 6, 3, 5};
    const auto f = insulator<T>(n, t, {}, 0), s = insulator<T>(n, t, {}, 1.5);
    using Function = std::function<MatrixResult<T>(const Tensor<T>&, const MatrixOptions&, const Resources&)>;
    const std::pair<const char*, Function> functions[] = {
        {"sign", [](auto& x, auto& o, auto& here) { return sign(x, o, here); }},
        {"inverse", [](auto& x, auto& o, auto& here) { return inverse(x, o, here); }},
        {"sqrt_inverse",
         [&](auto& x, auto& o, auto& here) {
             return sqrt_inverse(x.on_devices() ? to_devices(s, x.placement().devices) : s, o, here);
         }},
        {"exponential", [](auto& x, auto& o, auto& here) { return exponential(x, o, here); }},
        {"purify", [&](auto& x, auto& o, auto& here) { return purify(x, n / 2, o, here); }},
        {"purify with an overlap", [&](auto& x, auto& o, auto& here) { return purify(x, s, n / 2, o, here); }},
    };
    const std::vector<int> one{0}, two{0, testing::on_device ? 0 : 1};
    for (const double filter : {0.0, 1e-3})
        for (const auto& [name, function] : functions) {
            SCOPED_TRACE(name);
            MatrixOptions options;
            options.filter = filter;
            const auto cores = function(f, options, {});
            EXPECT_EQ(cores.report.device_products, 0);
            for (const auto& devices : {one, two}) {
                const auto there = function(f, options, {.devices = devices});
                EXPECT_EQ(checksum(there.matrix), checksum(cores.matrix));
                EXPECT_TRUE(there.matrix.shape() == cores.matrix.shape());  // norms too
                EXPECT_EQ(there.report.error, cores.report.error);
                EXPECT_EQ(there.report.plans, cores.report.plans);
                EXPECT_EQ(there.report.device_products, there.report.products);
                EXPECT_GT(there.report.products, 0);
                EXPECT_FALSE(there.matrix.on_devices());
                // What lives there goes there.
                const auto resident = function(to_devices(f, devices), options, {});
                EXPECT_TRUE(resident.matrix.on_devices());
                EXPECT_EQ(checksum(to_host(resident.matrix)), checksum(cores.matrix));
                EXPECT_EQ(resident.report.device_products, resident.report.products);
            }
        }
}

TYPED_TEST(MatrixDevices, SpectraOfWhatLivesThere) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Stores stores;
    const auto f = insulator<TypeParam>(40, Tiling::uniform(40, 7), {}, 0), there = to_devices(f, {0});
    EXPECT_EQ(extremal_eigenvalues(there).lowest, extremal_eigenvalues(f).lowest);
    EXPECT_EQ(gershgorin_interval(there).highest, gershgorin_interval(f).highest);
}

TEST(MatrixDevicesErrors, AreThoseOfTheCores) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Stores stores;
    const auto f = insulator<double>(40, Tiling::uniform(40, 8), {}, 0);
    EXPECT_THROW(purify(to_devices(f, {0}), 41), UserError);
    EXPECT_THROW(sqrt_inverse(f, {}, {.devices = {0}}), UserError);
    // A device without room for a tile.
    EXPECT_THROW(sign(f, {}, {.devices = {0}, .device_memory = 100}), Error);
    MatrixOptions few;
    few.max_iterations = 2;
    EXPECT_THROW(purify(f, 20, few, {.devices = {0}}), MatrixNotConverged);
}

}  // namespace
}  // namespace tessera
