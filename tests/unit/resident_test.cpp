// Tensors that live on devices: they have the host's bits whatever is done to them, nothing of them is loaded or
// stored, and budgets hold for them and the work together. On host memory that stands in for devices; compiled once
// more for GPU 0.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "contract/planned_impl.hpp"
#include "device/host_store.hpp"
#include "support/back_end.hpp"
#include "support/random_einsum.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/contract/einsum.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/storage/memory.hpp"
#include "tessera/tensor/dlpack.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {
namespace {

using testing::pick;
using testing::Random;
using testing::random_einsum;
using testing::random_tiles;
using testing::random_tiling;

/// Devices 0, 1, 2 are host memory; on a GPU all of them are device 0.
class Stores {
  public:
    explicit Stores(std::int64_t limit = std::int64_t{1} << 30) {
        if (!testing::on_device) played_.emplace(host_stores(3, limit));
    }

  private:
    std::optional<StandInStores> played_;
};
std::vector<int> some_devices(int count) {
    if (testing::on_device) return std::vector<int>(static_cast<std::size_t>(count), 0);
    std::vector<int> out;
    for (int d = 0; d < count; ++d) out.push_back(d);
    return out;
}
#define ON_DEVICES()                 \
    TESSERA_SKIP_WITHOUT_BACK_END(); \
    const Stores stores

template <Scalar T>
Tensor<T> random_tensor(Random& r, const std::vector<Tiling>& tilings, std::uint64_t seed, double occupancy = 0.7) {
    return Tensor<T>::random(random_tiles(r, TileGrid(tilings), occupancy), seed);
}

template <Scalar T>
void expect_same(const Tensor<T>& there, const Tensor<T>& here, const std::string& what) {
    EXPECT_TRUE(there.on_devices()) << what;
    EXPECT_EQ(there.shape(), here.shape()) << what;  // norms too
    EXPECT_TRUE(to_host(there) == here) << what;
}

template <class T>
class Resident : public ::testing::Test {};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Resident, AllScalars);

TYPED_TEST(Resident, GoAndComeBack) {
    using T = TypeParam;
    ON_DEVICES();
    Random r(1);
    for (int trial = 0; trial < testing::trials(30); ++trial) {
        const std::vector<Tiling> tilings{random_tiling(r, 4, 5), random_tiling(r, 3, 6)};
        const auto shape = random_tiles(r, TileGrid(tilings), 0.7);
        const auto here = Tensor<T>::random(shape, 5);
        const auto devices = some_devices(1 + trial % 3);
        // Random numbers made there; brought there; all of it, or what some bytes have room for.
        expect_same(Tensor<T>::random(shape, 5, 0, Placement::on_devices(devices)), here, "random");
        const auto some = to_devices(here, devices, trial % 2 ? 256 : 0);
        expect_same(some, here, "moved");
        EXPECT_EQ(some.tile_bytes() + some.device_bytes(), here.tile_bytes());
        EXPECT_EQ(some.to_dense(), here.to_dense());
        EXPECT_EQ(checksum(some), checksum(here));
        const auto copy = some;
        expect_same(copy, here, "copied");
        for (std::int64_t s = 0; s < some.tile_count(); ++s) {
            if (some.device(s) < 0) {
                EXPECT_EQ(some.tile(s)[0], here.tile(s)[0]);
                EXPECT_EQ(some.device_tile(s), nullptr);
            } else {
                EXPECT_NE(some.device_tile(s), nullptr);
                EXPECT_THROW((void)some.tile(s), UserError);
            }
        }
    }
    EXPECT_THROW(to_devices(Tensor<T>(), {17}), BackendUnavailable);
}

TYPED_TEST(Resident, AlgebraHasTheHostsBits) {
    using T = TypeParam;
    ON_DEVICES();
    Random r(2);
    const T alpha = T(RealOf<T>(0.7)), beta = T(RealOf<T>(-1.3));
    for (int trial = 0; trial < testing::trials(30); ++trial) {
        const std::vector<Tiling> tilings{random_tiling(r, 4, 5), random_tiling(r, 3, 40)};
        const auto x = random_tensor<T>(r, tilings, 1), y = random_tensor<T>(r, tilings, 2);
        const auto devices = some_devices(1 + trial % 3);
        const auto on = [&](const Tensor<T>& t) { return to_devices(t, devices, trial % 4 == 3 ? 512 : 0); };
        const auto a = on(x), b = trial % 5 == 4 ? y : on(y);  // one of them may be on the host
        expect_same(add(alpha, a, beta, b), add(alpha, x, beta, y), "add");
        expect_same(hadamard(a, b), hadamard(x, y), "hadamard");
        expect_same(filter(a, 0.9), filter(x, 0.9), "filter");
        auto scaled = a, sum = on(y);
        auto host_scaled = x, host_sum = y;
        scale(scaled, beta);
        scale(host_scaled, beta);
        expect_same(scaled, host_scaled, "scale");
        axpy(alpha, a, sum);
        axpy(alpha, x, host_sum);
        expect_same(sum, host_sum, "axpy");
        EXPECT_EQ(dot(a, b), dot(x, y));
        EXPECT_EQ(norm(a), norm(x));
        EXPECT_EQ(max_abs(a), max_abs(x));
        EXPECT_TRUE(a == x);
        scaled.update_tiles([](const TileInfo&, std::span<T> tile) { tile[0] = T(3); });
        host_scaled.update_tiles([](const TileInfo&, std::span<T> tile) { tile[0] = T(3); });
        expect_same(scaled, host_scaled, "update_tiles");
        expect_same(convert<std::complex<double>>(a), convert<std::complex<double>>(x), "convert");
    }
}

TYPED_TEST(Resident, OneOperandContractions) {
    using T = TypeParam;
    ON_DEVICES();
    Random r(3);
    for (int trial = 0; trial < testing::trials(75); ++trial) {
        const auto e = random_einsum(r, 1, 4, 3, 4, 0.7);
        const auto x = Tensor<T>::random(e.shapes[0], 1);
        const auto there = to_devices(x, some_devices(1 + trial % 3), trial % 4 == 3 ? 300 : 0);
        ContractOptions options{.alpha = trial % 2 ? 1.0 : -0.5};
        options.conjugate_a = trial % 3 == 0;
        const auto here = contract(e.text(), x, {}, options).tensor;
        expect_same(contract(e.text(), there, {}, options).tensor, here, e.text());
        auto c = Tensor<T>::random(here.shape(), 9), d = to_devices(c, some_devices(1));
        options.beta = 0.25;
        contract_into(e.text(), x, c, {}, options);
        contract_into(e.text(), there, d, {}, options);
        expect_same(d, c, e.text() + " into");
    }
    const std::vector<Tiling> square{Tiling{2, 3, 4}, Tiling{2, 3, 4}};
    const auto x = random_tensor<T>(r, square, 4);
    const auto there = to_devices(x, some_devices(2));
    expect_same(permute(there, {1, 0}), permute(x, {1, 0}), "permute");
    EXPECT_EQ(trace(there), trace(x));
    EXPECT_EQ(trace(there, there), trace(x, x));
    EXPECT_EQ(diagonal(there), diagonal(x));
}

/// What a contraction moved, and whether a plan of tiles that are all there moves nothing.
void expect_moves_what_is_planned(const PlannedContraction& planned, const ContractReport& report) {
    const auto& n = planned.counts();
    EXPECT_EQ(report.loaded_bytes, n.loaded_bytes);
    EXPECT_EQ(report.stored_bytes, n.stored_bytes);
    validate(planned.plan());
    validate(planned.plan(), {planned.plan().budget.host_bytes, planned.plan().budget.device_bytes});
}

TYPED_TEST(Resident, EinsumsOfManyHaveTheHostsBits) {
    using T = TypeParam;
    ON_DEVICES();
    Random r(14);
    int stays = 0;
    for (int trial = 0; trial < testing::trials(40); ++trial) {
        const auto e = random_einsum(r, 3 + trial % 2, 6, 3, 4, 0.8);
        Resources here{.devices = some_devices(1 + trial % 3)};
        here.device_memory = std::int64_t{4} << 20;
        std::vector<Tensor<T>> on_host, there;
        for (const auto& s : e.shapes) {
            on_host.push_back(Tensor<T>::random(s, 1 + on_host.size()));
            const bool moves = trial % 4 != 3 || there.size() != 1;  // else one of them is on the host
            there.push_back(moves ? to_devices(on_host.back(), here.devices) : on_host.back());
        }
        const std::vector<ContractOperand<T>> x(on_host.begin(), on_host.end()), y(there.begin(), there.end());
        ContractOptions options;
        if (trial % 5 == 4) options.filter = 0.1;
        const auto wanted = contract(e.text(), x, Resources{}, options);
        const auto planned = plan(e.text(), y, here, options);
        for (int time = 0; time < 2; ++time) {
            const auto got = time ? execute(planned, y) : contract(e.text(), y, here, options);
            EXPECT_TRUE(got.tensor == wanted.tensor) << e.text();
            EXPECT_EQ(got.report.left_out, wanted.report.left_out) << e.text();
            stays += got.tensor.on_devices();
        }
    }
    EXPECT_GT(stays, 0);
}

TYPED_TEST(Resident, ContractionsMoveNothingAndHaveTheHostsBits) {
    using T = TypeParam;
    ON_DEVICES();
    Random r(4);
    int direct = 0, kept = 0, joined = 0;
    for (int trial = 0; trial < testing::trials(100); ++trial) {
        const auto e = random_einsum(r, 2, 6, 3, 4, 0.7);
        const auto x = Tensor<T>::random(e.shapes[0], 1), y = Tensor<T>::random(e.shapes[1], 2);
        const int devices = 1 + trial % 3;
        Resources here{.devices = some_devices(devices)};
        here.device_memory = std::int64_t{4} << 20;
        const auto a = to_devices(x, here.devices), b = to_devices(y, here.devices);
        ContractOptions options;
        options.alpha = trial % 2 ? 1.0 : 0.75;
        options.conjugate_b = trial % 5 == 0;
        const auto wanted = contract(e.text(), x, y, {}, options).tensor;
        const auto planned = plan(e.text(), a, b, here, options);
        const auto [c, report] = execute(planned, a, b);
        ASSERT_NO_FATAL_FAILURE(expect_moves_what_is_planned(planned, report)) << e.text();
        EXPECT_TRUE(c.tiles().same_tiles(wanted.tiles())) << e.text();
        EXPECT_TRUE(c == wanted) << e.text();
        EXPECT_EQ(c.shape(), wanted.shape()) << e.text();
        EXPECT_EQ(report.loaded_bytes, 0) << e.text();
        EXPECT_TRUE(report.stored_bytes == 0 || (planned.plan().segments > 1 && devices > 1)) << e.text();
        direct += planned.impl().direct != nullptr;
        joined += planned.plan().segments > 1 && devices == 1 && !planned.plan().homes_c.empty();
        // Handed over tile by tile, by contract() with the plan that it keeps, and into a C that is there.
        std::mutex mutex;
        std::int64_t handed = 0;
        const TileConsumer<T> take = [&](std::int64_t slot, std::span<const T> tile, double norm) {
            const std::lock_guard lock(mutex);
            handed += std::ranges::equal(tile, wanted.tile(slot)) && norm == wanted.shape().norm_of(slot);
        };
        execute_each<T>(planned, a, b, take);
        EXPECT_EQ(handed, wanted.tile_count()) << e.text();
        for (int again = 0; again < 2; ++again)
            EXPECT_TRUE(contract(e.text(), a, b, {}, options).tensor == wanted) << e.text();
        EXPECT_TRUE(execute(planned, a, b).tensor == wanted) << e.text();
        auto old = Tensor<T>::random(wanted.shape(), 3);
        auto there = to_devices(old, here.devices);
        options.beta = -0.5;
        contract_into(e.text(), x, y, old, {}, options);
        const auto into = contract_into(e.text(), a, b, there, here, options);
        EXPECT_TRUE(there == old) << e.text();
        EXPECT_EQ(into.loaded_bytes, 0) << e.text();
        kept += there.on_devices();
    }
    EXPECT_GT(direct, testing::trials(100) / 5);
    EXPECT_GT(joined, 0);
    EXPECT_EQ(kept, testing::trials(100));
}

/// Some tiles there, some here, some made; the result here or there: right, and what moves is what is not there.
TYPED_TEST(Resident, MixedResidency) {
    using T = TypeParam;
    ON_DEVICES();
    Random r(5);
    for (int trial = 0; trial < testing::trials(75); ++trial) {
        const auto e = random_einsum(r, 2, 6, 3, 4, 0.7);
        const auto x = Tensor<T>::random(e.shapes[0], 1), y = Tensor<T>::random(e.shapes[1], 2);
        Resources here{.devices = some_devices(1 + trial % 2)};
        here.device_memory = std::int64_t{4} << 20;
        const auto a = to_devices(x, here.devices, pick(r, 0, 1) ? 200 : 0);
        const auto b = pick(r, 0, 1) ? y : to_devices(y, here.devices, 500);
        ContractOptions options;
        options.result_on_devices = pick(r, 0, 1) == 1;
        const auto planned = plan(e.text(), a, b, here, options);
        const auto [c, report] = execute(planned, a, b);
        ASSERT_NO_FATAL_FAILURE(expect_moves_what_is_planned(planned, report)) << e.text();
        EXPECT_TRUE(c == contract(e.text(), x, y).tensor) << e.text() << " trial " << trial;
        EXPECT_TRUE(*options.result_on_devices || !c.on_devices()) << e.text();
    }
}

/// Arrays go out and come in where they are, with strides too; elements of another type are refused and stay theirs.
TYPED_TEST(Resident, Dlpack) {
    using T = TypeParam;
    ON_DEVICES();
    const TileGrid grid{Tiling{5}, Tiling{3}, Tiling{4}};
    const auto here = Tensor<T>::random(Shape::dense(grid), 1);
    for (const bool there : {false, true}) {
        auto x = there ? to_devices(here, {0}) : here;
        const void* at = there ? x.device_tile(0) : static_cast<const void*>(x.tile(0).data());
        auto* array = to_dlpack(std::move(x));
        EXPECT_EQ(array->array.data, at);
        EXPECT_EQ(array->array.device.type, there ? dlpack::gpu : dlpack::cpu);
        EXPECT_EQ(array->array.rank, 3);
        EXPECT_EQ(array->array.extents[0], 5);
        using Other = std::conditional_t<std::is_same_v<T, double>, float, double>;
        EXPECT_THROW(from_dlpack<Other>(array), UserError);
        const auto back = from_dlpack<T>(array);
        EXPECT_TRUE(back == here);
        EXPECT_EQ(back.shape(), here.shape());
        if (there) {
            EXPECT_EQ(back.device_tile(0), at);  // no copy
        }
        EXPECT_TRUE(einsum("ijk,ljk->il", back, back) == einsum("ijk,ljk->il", here, here));
        // A transposed view, cut into tiles.
        auto copy = back;
        auto* view = to_dlpack(std::move(copy));
        std::int64_t extents[] = {4, 5, 3}, strides[] = {1, 12, 4};
        view->array.extents = extents;
        view->array.strides = strides;
        const TileGrid tiles{Tiling{1, 3}, Tiling{2, 3}, Tiling{3}};
        const auto cut = from_dlpack<T>(view, tiles);
        EXPECT_EQ(cut.to_dense(), permute(here, {2, 0, 1}).to_dense());
        EXPECT_EQ(cut.on_devices(), there);
    }
    EXPECT_THROW(from_dlpack<T>(nullptr), UserError);
}

TEST(ResidentBudget, HoldsForTensorsAndWorkTogether) {
    ON_DEVICES();
    const Tiling k = Tiling::uniform(64, 32), m = Tiling::uniform(384, 32);
    const auto x = Tensor<double>::random(Shape::dense(TileGrid{m, k}), 1),
               y = Tensor<double>::random(Shape::dense(TileGrid{k, m}), 2);
    const auto wanted = einsum("mk,kn->mn", x, y);
    const auto a = to_devices(x, {0}), b = to_devices(y, {0});
    const auto before = device_memory_in_use(0);
    EXPECT_GE(before, a.device_bytes() + b.device_bytes());
    // Room for everything; for a part of the result, whose other tiles go to the host; for too little.
    const std::int64_t all = before + wanted.tile_bytes() + (std::int64_t{1} << 20);
    for (const auto& [memory, whole] :
         {std::pair{all, true}, {before + wanted.tile_bytes() / 2 + (140 << 10), false}}) {
        const Resources here{.devices = {0}, .device_memory = memory};
        const auto planned = plan("mk,kn->mn", a, b, here);
        EXPECT_LE(planned.counts().peak_device_bytes, memory);
        const auto [c, report] = execute(planned, a, b);
        EXPECT_TRUE(c == wanted);
        EXPECT_EQ(report.loaded_bytes, 0);
        EXPECT_EQ(report.stored_bytes == 0, whole);
        EXPECT_EQ(c.tile_bytes() == 0, whole);
        validate(planned.plan(), {0, memory});
        EXPECT_NE(explain(planned).find("live on devices"), std::string::npos) << explain(planned);
    }
    EXPECT_THROW(plan("mk,kn->mn", a, b, {.devices = {0}, .device_memory = before / 2}), BudgetError);
}

TEST(ResidentBudget, PlansKeepTheirPromiseWhenOthersCameMeanwhile) {
    ON_DEVICES();
    const Tiling k = Tiling::uniform(64, 8);
    const auto shape = Shape::dense(TileGrid{k, k});
    const auto a = Tensor<double>::random(shape, 1, 0, Placement::on_devices({0}));
    const auto memory = device_memory_in_use(0) + 3 * a.device_bytes() + (std::int64_t{1} << 18);
    const auto planned = plan("mk,kn->mn", a, a, {.devices = {0}, .device_memory = memory});
    (void)execute(planned, a, a);
    std::vector<Tensor<double>> more;
    for (int i = 0; i < 20; ++i) more.push_back(a);
    EXPECT_THROW(execute(planned, a, a), BudgetError);
}

TEST(ResidentBudget, GapsTooShortForATensorRefuseNothing) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 30, kPieces = 64;
    if (testing::back_end_is_missing()) GTEST_SKIP() << "no CUDA device";
    const Stores stores(kLimit);
    release_memory();
    DeviceStore& store = device_store(0);
    const auto before = store.used_bytes();
    const auto room = testing::on_device ? device::free_bytes(0) - (std::int64_t{1} << 30) : kLimit;
    const auto piece = room / kPieces / 512 * 512;
    std::vector<DeviceStore::Memory> pieces;
    for (int i = 0; i < kPieces; ++i) pieces.push_back(store.allocate(piece, "a piece"));
    for (std::size_t i = 0; i < pieces.size(); i += 2) pieces[i] = nullptr;
    // Half of the memory is free, a piece at a time. What is given lies nowhere else.
    std::vector<DeviceStore::Memory> large;
    for (int i = 0; i < 3; ++i) large.push_back(store.allocate(9 * piece, "a large tensor"));
    const auto disjoint = [&](const DeviceStore::Memory& x, std::int64_t n, const DeviceStore::Memory& y) {
        return !y || x == y || y.get() >= x.get() + n || x.get() >= y.get() + piece;
    };
    for (const auto& x : large) {
        store.zero(x.get(), 9 * piece);
        for (const auto& y : pieces) EXPECT_TRUE(disjoint(x, 9 * piece, y));
        for (const auto& y : large) EXPECT_TRUE(disjoint(x, 9 * piece, y));
    }
    EXPECT_EQ(store.used_bytes() - before, (kPieces / 2 + 27) * piece);
    EXPECT_THROW(store.allocate(9 * piece, "more than there is"), MachineError);
    store.synchronize();
    large.clear();
    pieces.clear();
    EXPECT_EQ(store.used_bytes(), before);
    const auto all = store.allocate(kPieces * piece, "all of it");
    store.synchronize();
}

TEST(ResidentFailures, SayWhatIsWrong) {
    ON_DEVICES();
    const auto shape = Shape::dense(TileGrid{Tiling{2, 3}, Tiling{3, 2}});
    const auto host = Tensor<double>::random(shape, 1);
    auto a = to_devices(host, {0});
    const auto planned = plan("ij,ij->i", host, host);
    EXPECT_THROW(execute(planned, a, host), UserError);  // the plan is for tiles on the host
    if (!testing::on_device) {
        EXPECT_THROW(plan("ij,ij->i", a, a, {.devices = {1}}), UserError);  // lives on another device
    }
    EXPECT_THROW(to_devices(host, {}), UserError);
    a.update_tiles([](const TileInfo&, std::span<double> t) { t[0] = 1e200; });
    const auto c = einsum("ij,kj->ik", a, a);
    EXPECT_THROW((void)c.shape(), UserError);  // infinity
    EXPECT_THROW(a.update_tiles([](const TileInfo&, std::span<double> t) { t[0] = NAN; }), UserError);
}

TEST(ResidentFilter, ReportsTheSameAsTheHost) {
    ON_DEVICES();
    Random r(6);
    for (int trial = 0; trial < testing::trials(20); ++trial) {
        const std::vector<Tiling> t{random_tiling(r, 5, 4), random_tiling(r, 5, 4)};
        const auto x = random_tensor<double>(r, t, 1), y = random_tensor<double>(r, t, 2);
        const ContractOptions options{.filter = 0.5};
        const auto here = contract("ij,kj->ik", x, y, {}, options);
        const auto there = contract("ij,kj->ik", to_devices(x, {0}), to_devices(y, {0}), {}, options);
        expect_same(there.tensor, here.tensor, "filter");
        EXPECT_EQ(there.report.left_out, here.report.left_out);
        EXPECT_EQ(there.report.dropped_tiles, here.report.dropped_tiles);
    }
}

}  // namespace
}  // namespace tessera
