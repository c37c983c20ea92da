// (T) of an open shell of any size, with amplitudes and integrals that are made up: on the cores or on devices, through
// what `tessera energy --reference uhf` calls.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "chem/uccsd.hpp"

namespace {

using namespace tessera;
using namespace tessera::chem;

constexpr const char* kUsage =
    "usage: spin_triples_bench OCCUPIED-ALPHA OCCUPIED-BETA VIRTUAL-ALPHA VIRTUAL-BETA [cores|DEVICE,...] [REPEATS]\n"
    "Example: spin_triples_bench 25 24 200 201 0 2\n";

Tiling tiles_of(std::array<std::int64_t, 2> counts, std::int64_t& alpha_tiles) {
    std::vector<std::int64_t> sizes;
    for (std::size_t s = 0; s < 2; ++s) {
        for (auto left = counts[s]; left > 0; left -= 20) sizes.push_back(std::min<std::int64_t>(left, 20));
        if (s == 0) alpha_tiles = static_cast<std::int64_t>(sizes.size());
    }
    return Tiling::from_sizes(sizes);
}

/// From -0.01 to 0.01, of four numbers.
double number(std::uint64_t p, std::uint64_t q, std::uint64_t r, std::uint64_t s) {
    std::uint64_t x = ((p * 4099 + q) * 4099 + r) * 4099 + s;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15U;
    x ^= x >> 29;
    return 0.02 * (static_cast<double>(x >> 11) / 9007199254740992.0 - 0.5);
}

/// Antisymmetric in the first two and in the last two indices, where so asked.
RealTensor some(const SpinOrbitals& orbitals, const std::string& spaces, bool first, bool last) {
    const std::string symmetry =
        std::string(first ? "pqrs=-qprs" : "") + (first && last ? "," : "") + (last ? "pqrs=-pqsr" : "");
    return RealTensor::generate(
        spin_shape(orbitals, spaces, Symmetry(symmetry)), [&](const TileInfo& info, std::span<double> out) {
            const bool four = spaces.size() == 4;
            double* to = out.data();
            for (std::int64_t p = 0; p < info.extents[0]; ++p)
                for (std::int64_t q = 0; q < info.extents[1]; ++q)
                    for (std::int64_t r = 0; r < (four ? info.extents[2] : 1); ++r)
                        for (std::int64_t s = 0; s < (four ? info.extents[3] : 1); ++s) {
                            const auto a = static_cast<std::uint64_t>(info.begin[0] + p),
                                       b = static_cast<std::uint64_t>(info.begin[1] + q),
                                       c = static_cast<std::uint64_t>(four ? info.begin[2] + r : 0),
                                       d = static_cast<std::uint64_t>(four ? info.begin[3] + s : 0);
                            double value = number(a, b, c, d);
                            if (first) value -= number(b, a, c, d);
                            if (last) value -= number(a, b, d, c);
                            if (first && last) value += number(b, a, d, c);
                            *to++ = value;
                        }
        });
}

int run(int argc, char** argv) {
    std::array<std::int64_t, 4> n{};
    for (int x = 0; x < 4; ++x) n[static_cast<std::size_t>(x)] = std::atoll(argv[1 + x]);
    TensorWorkers workers;
    const std::string where = argc > 5 ? argv[5] : "cores";
    for (std::size_t at = 0; where != "cores" && at < where.size();
         at = where.find(',', at) == std::string::npos ? where.size() : where.find(',', at) + 1)
        workers.here.devices.push_back(std::atoi(where.c_str() + at));
    SpinOrbitals orbitals;
    orbitals.occupied = {n[0], n[1]};
    orbitals.virtuals = {n[2], n[3]};
    orbitals.occupied_tiles = tiles_of(orbitals.occupied, orbitals.alpha_tiles[0]);
    orbitals.virtual_tiles = tiles_of(orbitals.virtuals, orbitals.alpha_tiles[1]);
    for (std::int64_t i = 0; i < n[0] + n[1]; ++i)
        orbitals.energies.occupied_energies.push_back(-1 - 0.01 * static_cast<double>(i));
    for (std::int64_t a = 0; a < n[2] + n[3]; ++a)
        orbitals.energies.virtual_energies.push_back(0.2 + 0.01 * static_cast<double>(a));
    orbitals.fock_ov = RealTensor(spin_shape(orbitals, "ov"));
    AntisymmetricIntegrals v;
    v.oovv = some(orbitals, "oovv", true, true);
    v.ooov = some(orbitals, "ooov", true, false);
    v.ovvv = some(orbitals, "ovvv", false, true);
    const Amplitudes t{some(orbitals, "ov", false, false), some(orbitals, "oovv", true, true)};
    const int repeats = argc > 6 ? std::max(1, std::atoi(argv[6])) : 1;
    for (int turn = 0; turn < repeats; ++turn) {
        const double start = now_seconds();
        const auto r = spin_triples(v, orbitals, t, workers, {});
        const double seconds = now_seconds() - start;
        if (!r.why_not.empty()) fmt::print("{}\n", r.why_not);
        fmt::print(
            "occupied {}+{}, virtual {}+{}, {}: {:.3f} s ({:.3f} s until the operands are there), {:.4g} Tflop counted "
            "once, "
            "{:.4g} TFLOP/s, energy {:.15e}\n",
            n[0], n[1], n[2], n[3], r.device_flops > 0 ? "devices " + where : "cores", seconds, r.operands_seconds,
            r.flops / 1e12, r.flops / seconds / 1e12, r.energy);
        std::fflush(stdout);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 5) {
        fmt::print(stderr, "{}", kUsage);
        return 2;
    }
    return run(argc, argv);
} catch (const tessera::Error& e) {
    fmt::print(stderr, "spin_triples_bench: {}\n", e.what());
    return e.exit_code();
}
