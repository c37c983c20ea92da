// CCSD whose tensors live on a device: the bits that the same contractions give on the cores. On host memory that
// stands in for a device; compiled once more for GPU 0.
#include <gtest/gtest.h>

#include <optional>

#include "base/shared_data.hpp"
#include "chem/ccsd.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/molecule.hpp"
#include "device/host_store.hpp"
#include "support/back_end.hpp"
#include "tensor/resident.hpp"
#include "tessera/base/error.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {
namespace {

#define ON_A_DEVICE()                    \
    TESSERA_SKIP_WITHOUT_BACK_END();     \
    std::optional<StandInStores> played; \
    if (!testing::on_device) played.emplace(host_stores(1, std::int64_t{1} << 30))

CcsdResult iterate(IntegralSource& source, const Orbitals& orbitals, Amplitudes t, bool vectors_on_host,
                   TensorWork& w) {
    CcsdOptions how;
    how.vectors_on_host = vectors_on_host;
    return ccsd(source, orbitals, std::move(t), how, w);
}

TEST(ChemResident, CcsdHasTheBitsOfTheCores) {
    ON_A_DEVICE();
    const auto set = find_basis("def2-svp");
    for (const auto& [xyz, tile] : {std::pair{"2\n\nLi 0 0 0\nH 0 0.2 1.5\n", 5},
                                    {"2\n\nH 0 0 0\nH 0 0 0.7\n", 100},
                                    {"3\n\nO 0 0 0.1\nH 0 0.8 -0.4\nH 0.1 -0.7 -0.5\n", 32}}) {
        const auto m = parse_xyz(xyz, "m");
        const Integrals x(place(set, m));
        const auto tiling = tile_atoms(x.basis(), tile);
        TensorWork w({.here = {.threads = 2}});
        const Fitting fitting(x, tiling, place(find_basis("def2-svp-rifit"), m), 2);
        FittedField field(fitting, w), whole(fitting, w), on_device(fitting, w);
        whole.unpack({}, 2);
        on_device.unpack(0, 2);
        const auto scf = rhf(m, x, field, atomic_guess(m, set, x.basis(), w).density, {}, w);
        const auto orbitals = make_orbitals(scf, 0, 0, tiling.functions, tile);
        const auto b = transform(fitting, orbitals, Transform::ccsd, w);
        const TileGrid ov{orbitals.occupied.grid().tiling(1), orbitals.virtuals.grid().tiling(1)};
        EXPECT_TRUE(on_device.of_product(orbitals.occupied, orbitals.occupied, w) ==
                    whole.of_product(orbitals.occupied, orbitals.occupied, w));
        FittedSource by_tiles(b, orbitals, &whole, true), by_pairs(b, orbitals, &field);
        const auto start = [&](IntegralSource& source) {
            return Amplitudes{RealTensor(Shape::dense(ov, 0)), first_order_doubles(source, orbitals, w)};
        };
        const auto here = iterate(by_tiles, orbitals, start(by_tiles), false, w);
        const auto pairs = iterate(by_pairs, orbitals, start(by_pairs), false, w);
        EXPECT_NEAR(here.energy, pairs.energy, 1e-10) << xyz;

        const FittedOrbitals there = to_device(b, 0);
        FittedSource source(there, orbitals, &on_device);
        const auto before = w.on_devices();
        auto t = start(source);
        EXPECT_TRUE(t.t2.on_devices());
        t.t1 = to_devices(t.t1, {0});
        for (const bool vectors_on_host : {false, true}) {
            const auto found = iterate(source, orbitals, t, vectors_on_host, w);
            EXPECT_EQ(found.energy, here.energy) << xyz << tile << vectors_on_host;
            EXPECT_EQ(found.iterations, here.iterations);
            EXPECT_TRUE(found.amplitudes.t2.on_devices());
            EXPECT_TRUE(to_host(found.amplitudes.t1) == here.amplitudes.t1) << xyz << tile;
            EXPECT_TRUE(to_host(found.amplitudes.t2) == here.amplitudes.t2) << xyz << tile;
        }
        EXPECT_EQ(w.on_devices().loaded_bytes, before.loaded_bytes);  // nothing passes through staging
        EXPECT_EQ(w.on_devices().stored_bytes, before.stored_bytes);
        EXPECT_GT(w.on_devices().count, before.count);
        EXPECT_EQ(w.on_devices().refused, 0);
    }
}

TEST(ChemResident, QuotientsHaveTheBitsOfTheCores) {
    ON_A_DEVICE();
    const std::vector<double> p{1.5, -2, 0.1, 3, 7}, q{0.3, 0.7, -0.9};
    const TileGrid grid{Tiling{2, 3}, Tiling{1, 2}, Tiling{5}};
    const auto x = RealTensor::random(Shape::dense(grid), 5);
    auto here = x, there = to_devices(x, {0});
    divide_by_sums(here, std::vector{p, q, p});
    divide_by_sums(there, std::vector{p, q, p});
    EXPECT_TRUE(to_host(there) == here);
    EXPECT_EQ(there.shape(), here.shape());
    const auto before = x.to_dense(), after = here.to_dense();
    for (std::size_t e = 0; e < before.size(); ++e)
        EXPECT_EQ(after[e], before[e] / (p[e / 15] + q[e / 5 % 3] + p[e % 5]));
    EXPECT_THROW(divide_by_sums(here, std::vector{p, q}), UserError);
    EXPECT_THROW(divide_by_sums(here, std::vector{p, q, q}), UserError);
    EXPECT_THROW(divide_by_sums(here, std::vector{p, q, std::vector<double>{0, -1.8, 0, 0, 0}}), UserError);  // by zero
}

}  // namespace
}  // namespace tessera::chem
