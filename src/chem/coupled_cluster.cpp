#include "tessera/chem/coupled_cluster.hpp"

#include <cmath>

#include "base/check.hpp"
#include "chem/ccsd.hpp"
#include "chem/given_source.hpp"
#include "chem/triples_energy.hpp"
#include "device/discovery.hpp"

namespace tessera::chem {

namespace {

void check(const char* name, const ArrayView<const double>& x, const IndexVector& extents) {
    require(x.data != nullptr && x.extents == extents, "{} has extents {}, {} are needed", name, to_string(x.extents),
            to_string(extents));
}

/// Orbitals [first, first + count) of a Fock matrix, in rows and columns.
ArrayView<const double> part(const ArrayView<const double>& fock, std::int64_t row, std::int64_t rows,
                             std::int64_t column, std::int64_t columns) {
    return {fock.data + row * fock.strides[0] + column * fock.strides[1], {rows, columns}, fock.strides};
}

}  // namespace

struct CoupledCluster::Impl {
    Impl(OrbitalIntegrals given, const ArrayView<const double>& fock_view, const Resources& here, std::int64_t tile)
        : integrals(std::move(given)), work({.here = here}) {
        require(integrals.ovov.extents.size() == 4, "ovov has {} indices, 4 are needed", integrals.ovov.extents.size());
        o = integrals.ovov.extents[0];
        v = integrals.ovov.extents[1];
        require(o >= 1 && v >= 1, "{} occupied and {} virtual orbitals: one of each is needed", o, v);
        check("oooo", integrals.oooo, {o, o, o, o});
        check("ooov", integrals.ooov, {o, o, o, v});
        check("oovv", integrals.oovv, {o, o, v, v});
        check("ovov", integrals.ovov, {o, v, o, v});
        check("fock", fock_view, {o + v, o + v});
        require(integrals.ovvv != nullptr, "there are no integrals over three virtual orbitals");
        if (integrals.functions.data)
            require(integrals.functions.extents.size() == 2 && integrals.functions.extents[1] == v,
                    "the coefficients of the virtual orbitals have extents {}: {} columns are needed",
                    to_string(integrals.functions.extents), v);
        const auto pairs = v * (v + 1) / 2;
        if (integrals.vvvv_pairs.data) {
            check("vvvv", integrals.vvvv_pairs, {pairs, pairs});
            require(integrals.vvvv_pairs.strides[1] == 1, "vvvv has elements {} apart in a row, 1 is needed",
                    integrals.vvvv_pairs.strides[1]);
        }
        require(tile >= 1, "tiles of {} orbitals: at least one is needed", tile);
        for (const int device : here.devices) device::info(device);  // throws where there is none
        occupied = even_tiling(o, tile);
        virtuals = even_tiling(v, tile);
        const int threads = work.threads();
        rest.oo = to_tensor(part(fock_view, 0, o, 0, o), TileGrid{occupied, occupied}, threads);
        rest.ov = to_tensor(part(fock_view, 0, o, o, v), TileGrid{occupied, virtuals}, threads);
        rest.vv = to_tensor(part(fock_view, o, v, o, v), TileGrid{virtuals, virtuals}, threads);
        for (std::int64_t p = 0; p < o + v; ++p)
            diagonal.push_back(fock_view.data[p * (fock_view.strides[0] + fock_view.strides[1])]);
        orbitals.occupied_energies.assign(static_cast<std::size_t>(o), 0.0);
        orbitals.virtual_energies.assign(static_cast<std::size_t>(v), 0.0);
        set_energies(diagonal);
        stored = read_integrals(integrals, occupied, virtuals, threads);
    }

    /// Moves them from the Fock matrix to the denominators.
    void set_energies(std::span<const double> energies) {
        require(static_cast<std::int64_t>(energies.size()) == o + v, "{} orbital energies for {} orbitals",
                energies.size(), o + v);
        for (const double e : energies) require(std::isfinite(e), "an orbital energy is {}", e);
        std::copy_n(energies.begin(), o, orbitals.occupied_energies.begin());
        std::copy_n(energies.begin() + o, v, orbitals.virtual_energies.begin());
        const auto take = [&](RealTensor& x, std::int64_t first) {
            x.update_tiles([&](const IndexVector& at, double value) {
                const auto p = first + at[0];
                return at[0] == at[1] ? diagonal[p] - energies[p] : value;
            });
        };
        take(rest.oo, 0);
        take(rest.vv, o);
    }

    Amplitudes read(const ArrayView<const double>& t1, const ArrayView<const double>& t2) const {
        check("t1", t1, {o, v});
        check("t2", t2, {o, o, v, v});
        const int threads = work.threads();
        return {to_tensor(t1, TileGrid{occupied, virtuals}, threads),
                to_tensor(t2, TileGrid{occupied, occupied, virtuals, virtuals}, threads)};
    }

    OrbitalIntegrals integrals;
    TensorWork work;
    std::int64_t o = 0, v = 0;
    Tiling occupied, virtuals;
    Orbitals orbitals;  // energies alone
    std::vector<double> diagonal;
    FockRest rest;
    MoIntegrals stored;
    std::unique_ptr<AbcdTerm> abcd;
};

CoupledCluster::CoupledCluster(OrbitalIntegrals integrals, const ArrayView<const double>& fock, const Resources& here,
                               std::int64_t tile)
    : impl_(std::make_unique<Impl>(std::move(integrals), fock, here, tile)) {}
CoupledCluster::~CoupledCluster() = default;
CoupledCluster::CoupledCluster(CoupledCluster&&) noexcept = default;

void CoupledCluster::set_energies(std::span<const double> energies) { impl_->set_energies(energies); }

void CoupledCluster::next(const ArrayView<const double>& t1, const ArrayView<const double>& t2,
                          const ArrayView<double>& next1, const ArrayView<double>& next2) {
    Impl& x = *impl_;
    check("the new t1", next1, {x.o, x.v});
    check("the new t2", next2, {x.o, x.o, x.v, x.v});
    if (!x.abcd) x.abcd = given_abcd(x.integrals, x.occupied, x.virtuals, x.work);
    GivenSource source(x.stored, x.abcd.get(), x.rest);
    const Amplitudes next = next_amplitudes(source, x.orbitals, x.read(t1, t2), x.work);
    to_view(next.t1, next1, x.work.threads());
    to_view(next.t2, next2, x.work.threads());
}

double CoupledCluster::energy(const ArrayView<const double>& t1, const ArrayView<const double>& t2) {
    Impl& x = *impl_;
    const Amplitudes t = x.read(t1, t2);
    const GivenSource source(x.stored, nullptr, x.rest);
    return 2 * dot(x.rest.ov, t.t1) + correlation_energy(source, make_tau(t, x.work), x.work);
}

double CoupledCluster::triples(const ArrayView<const double>& t1, const ArrayView<const double>& t2,
                               const std::function<void(double, double)>& progress) {
    Impl& x = *impl_;
    TriplesIntegrals integrals = stored_triples_integrals(x.stored);
    if (max_abs(x.rest.ov) > 0) integrals.fock = &x.rest.ov;
    return triples_energy(integrals, x.orbitals, x.read(t1, t2), x.work.workers(), progress).energy;
}

}  // namespace tessera::chem
