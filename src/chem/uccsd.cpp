#include "chem/uccsd.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.hpp"
#include "chem/tape.hpp"

namespace tessera::chem {

namespace {

constexpr const char* kDoubles = "ijab=-jiab,ijab=-ijba";

/// What the equations are functions of: amplitudes, and elements of the Fock matrix but its diagonal.
template <class Value>
struct Inputs {
    const Value &t1, &t2, &oo, &ov, &vv;
};

/// t2 + factor (t1(ia) t1(jb) - t1(ib) t1(ja))
template <class E>
typename E::Value tau(E& e, const typename E::Value& t1, const typename E::Value& t2, double factor) {
    auto x = e.copy(t2);
    e.add({"ia,jb", "ijab", factor, "ab"}, t1, t1, x);
    return x;
}

/// Stanton, Gauss, Watts and Bartlett, J. Chem. Phys. 94, 4334 (1991), without the intermediate over four virtual
/// orbitals: what amplitudes times differences of orbital energies become. m, n are occupied, e, f virtual orbitals
/// that are summed.
template <class E, class Value = typename E::Value>
std::pair<Value, Value> residual(E& e, const Inputs<Value>& x, const AntisymmetricIntegrals& v) {
    const Value &t1 = x.t1, &t2 = x.t2;
    const auto &oovv = e.constant(v.oovv), &oooo = e.constant(v.oooo), &ooov = e.constant(v.ooov),
               &ovov = e.constant(v.ovov), &ovvv = e.constant(v.ovvv), &vvvv = e.constant(v.vvvv);
    Value f_ae = e.copy(x.vv), f_mi = e.copy(x.oo), f_me = e.copy(x.ov);
    {
        const Value half = tau(e, t1, t2, 0.5);
        e.add({"nf,mnef", "me"}, t1, oovv, f_me);
        e.add({"mf,mafe", "ae"}, t1, ovvv, f_ae);
        e.add({"mnaf,mnef", "ae", -0.5}, half, oovv, f_ae);
        e.add({"me,ma", "ae", -0.5}, x.ov, t1, f_ae);
        e.add({"ne,mnie", "mi"}, t1, ooov, f_mi);
        e.add({"inef,mnef", "mi", 0.5}, half, oovv, f_mi);
        e.add({"ie,me", "mi", 0.5}, t1, x.ov, f_mi);
    }
    Value r1 = e.copy(x.ov), r2 = e.copy(oovv);
    e.add({"ie,ae", "ia"}, t1, f_ae, r1);
    e.add({"ma,mi", "ia", -1}, t1, f_mi, r1);
    e.add({"imae,me", "ia"}, t2, f_me, r1);
    e.add({"nf,naif", "ia", -1}, t1, ovov, r1);
    e.add({"imef,maef", "ia", -0.5}, t2, ovvv, r1);
    e.add({"mnae,mnie", "ia", -0.5}, t2, ooov, r1);
    {
        Value dressed = e.copy(f_ae);
        e.add({"mb,me", "be", -0.5}, t1, f_me, dressed);
        e.add({"ijae,be", "ijab", 1, "ab"}, t2, dressed, r2);
    }
    {
        Value dressed = e.copy(f_mi);
        e.add({"je,me", "mj", 0.5}, t1, f_me, dressed);
        e.add({"imab,mj", "ijab", -1, "ij"}, t2, dressed, r2);
    }
    const Value pairs = tau(e, t1, t2, 1);
    e.add({"ijef,abef", "ijab", 0.5}, pairs, vvvv, r2);
    {
        Value w = e.copy(oooo);
        e.add({"je,mnie", "mnij", 1, "ij"}, t1, ooov, w);
        e.add({"ijef,mnef", "mnij", 0.5}, pairs, oovv, w);
        e.add({"mnab,mnij", "ijab", 0.5}, pairs, w, r2);
    }
    // <mb||ij> and what t1(ma) takes with it.
    Value z = e.copy(ooov);
    e.add({"ijef,mbef", "ijmb", 0.5}, pairs, ovvv, z);
    e.add({"ie,mbje", "ijmb", -1, "ij"}, t1, ovov, z);
    e.add({"ma,ijmb", "ijab", -1, "ab"}, t1, z, r2);
    e.add({"ie,jeab", "ijab", -1, "ij"}, t1, ovvv, r2);
    // Rings.
    Value ring = e.copy(ovov);
    {
        Value w = e.copy(ooov);
        e.add({"jf,mnef", "mnje", -1}, t1, oovv, w);
        e.add({"nb,mnje", "mbje", -1}, t1, w, ring);
    }
    e.add({"jf,mbef", "mbje", -1}, t1, ovvv, ring);
    e.add({"jnfb,mnef", "mbje", 0.5}, t2, oovv, ring);
    e.add({"imae,mbje", "ijab", -1, "ij", "ab"}, t2, ring, r2);
    return {std::move(r1), std::move(r2)};
}

}  // namespace

AntisymmetricIntegrals antisymmetric_integrals(const SpinIntegrals& integrals, Method method, int threads) {
    AntisymmetricIntegrals v;
    v.oovv = integrals.antisymmetric("oovv", kDoubles, threads);
    if (method < Method::ccsd) return v;
    v.oooo = integrals.antisymmetric("oooo", "ijkl=-jikl,ijkl=-ijlk", threads);
    v.ooov = integrals.antisymmetric("ooov", "ijka=-jika", threads);
    v.ovov = integrals.antisymmetric("ovov", {}, threads);
    v.ovvv = integrals.antisymmetric("ovvv", "iabc=-iacb", threads);
    v.vvvv = integrals.antisymmetric("vvvv", "abcd=-bacd,abcd=-abdc,abcd=cdab", threads);
    return v;
}

Amplitudes SpinEquations::first_order() const {
    Amplitudes t{orbitals_.fock_ov, v_.oovv};
    divide_by_energies(t.t1, orbitals_.energies);
    divide_by_energies(t.t2, orbitals_.energies);
    return t;
}

OpenShell::Parts SpinEquations::energy(const Amplitudes& t, bool products) const {
    OpenShell::Parts out;
    out.singles = dot(orbitals_.fock_ov, t.t1);
    Direct direct(work_);
    const RealTensor x = products ? tau(direct, t.t1, t.t2, 1) : t.t2;
    const Shape& shape = x.shape();
    const TileGrid& grid = shape.grid();
    for (std::int64_t slot = 0; slot < shape.tile_count(); ++slot) {
        const auto at = grid.coordinates(shape.tile(slot));
        const auto v = v_.oovv.tile(at);
        if (v.empty()) continue;
        const auto tile = x.tile(slot);
        double sum = 0;
        for (std::size_t n = 0; n < tile.size(); ++n) sum += v[n] * tile[n];
        sum *= 0.25 * static_cast<double>(shape.symmetry().orbit(grid, shape.tile(slot)));
        (orbitals_.spin('o', at[0]) == orbitals_.spin('o', at[1]) ? out.same : out.opposite) += sum;
    }
    return out;
}

Amplitudes SpinEquations::next(const Amplitudes& t) const {
    Direct direct(work_);
    auto [r1, r2] = residual(direct, Inputs<RealTensor>{t.t1, t.t2, f_.oo, orbitals_.fock_ov, f_.vv}, v_);
    divide_by_energies(r1, orbitals_.energies);
    divide_by_energies(r2, orbitals_.energies);
    return {std::move(r1), std::move(r2)};
}

/// The adjoint equations: of the correlation energy plus each multiplier times what its amplitude's equation leaves,
/// the derivatives with respect to all amplitudes vanish. Written nowhere: they are the equations of the amplitudes,
/// taken backwards.
struct SpinMultipliers::Impl {
    Impl(const AntisymmetricIntegrals& integrals, const SpinOrbitals& orbitals, const Amplitudes& t, TensorWork& work)
        : orbitals_(orbitals), tape_(work), energy_(work) {
        const RealTensor zero_oo(spin_shape(orbitals, "oo")), zero_vv(spin_shape(orbitals, "vv"));
        const auto inputs = [&](Tape& tape, std::array<Tape::Value, 5>& x) {
            x = {tape.variable(t.t1), tape.variable(t.t2), tape.variable(zero_oo), tape.variable(orbitals.fock_ov),
                 tape.variable(zero_vv)};
        };
        inputs(tape_, x_);
        std::tie(r1_, r2_) = residual(tape_, Inputs<Tape::Value>{x_[0], x_[1], x_[2], x_[3], x_[4]}, integrals);
        // f(ia) t(ia) + 1/4 <ij||ab> tau(ij,ab)
        inputs(energy_, y_);
        const auto pairs = tau(energy_, y_[0], y_[1], 1.0);
        RealTensor quarter = integrals.oovv;
        scale(quarter, 0.25);
        energy_.backwards({{pairs, quarter}, {y_[0], orbitals.fock_ov}});
    }
    /// With respect to t1, t2 and the Fock matrix.
    void derive(const Amplitudes& lambda) {
        RealTensor quarter = lambda.t2;
        scale(quarter, 0.25);
        tape_.backwards({{r1_, lambda.t1}, {r2_, quarter}});
    }
    Amplitudes next(const Amplitudes& lambda) {
        derive(lambda);
        Amplitudes out{add(1.0, x_[0]->adjoint, 1.0, y_[0]->adjoint), add(4.0, x_[1]->adjoint, 4.0, y_[1]->adjoint)};
        divide_by_energies(out.t1, orbitals_.energies);
        divide_by_energies(out.t2, orbitals_.energies);
        return out;
    }
    const SpinOrbitals& orbitals_;
    Tape tape_, energy_;
    std::array<Tape::Value, 5> x_, y_;
    Tape::Value r1_, r2_;
};

SpinMultipliers::SpinMultipliers(const AntisymmetricIntegrals& integrals, const SpinOrbitals& orbitals,
                                 const Amplitudes& t, TensorWork& work)
    : impl_(std::make_unique<Impl>(integrals, orbitals, t, work)) {}
SpinMultipliers::~SpinMultipliers() = default;

Amplitudes SpinMultipliers::next(const Amplitudes& lambda) { return impl_->next(lambda); }

SpinDensity SpinMultipliers::density(const Amplitudes& lambda) {
    impl_->derive(lambda);
    const auto& x = impl_->x_;
    // The energy has f(ia) t(ia) itself.
    return {x[2]->adjoint, add(1.0, x[3]->adjoint, 1.0, x[0]->own), x[4]->adjoint};
}

std::vector<OpenShell::Amplitude> largest_amplitudes(const RealTensor& x, const SpinOrbitals& orbitals,
                                                     std::size_t most) {
    struct Found {
        double size, value;
        std::array<std::int64_t, 4> at;
    };
    std::vector<Found> found;
    const auto rank = static_cast<std::size_t>(x.rank());
    x.for_each_tile([&](const TileInfo& info, std::span<const double> tile) {
        for (std::size_t n = 0; n < tile.size(); ++n) {
            const double size = std::abs(tile[n]);
            if (!(size > 1e-6) || (found.size() == most && size <= found.back().size)) continue;
            Found here{size, tile[n], {}};
            auto rest = static_cast<std::int64_t>(n);
            for (std::size_t d = rank; d-- > 0;) {
                const auto extent = info.extents[static_cast<int>(d)];
                here.at[d] = info.begin[static_cast<int>(d)] + rest % extent;
                rest /= extent;
            }
            if (rank == 4 && (here.at[0] >= here.at[1] || here.at[2] >= here.at[3])) continue;
            const auto place = std::find_if(found.begin(), found.end(), [&](const Found& y) { return y.size < size; });
            found.insert(place, here);
            if (found.size() > most) found.pop_back();
        }
    });
    std::vector<OpenShell::Amplitude> out;
    for (const auto& f : found) {
        const auto label = [&](std::size_t d) {
            const bool occupied = d < rank / 2;
            const auto& counts = occupied ? orbitals.occupied : orbitals.virtuals;
            const std::size_t s = f.at[d] >= counts[0] ? 1 : 0;
            auto p = f.at[d] - (s == 1 ? counts[0] : 0) + orbitals.frozen[s] + 1;
            if (!occupied) p += orbitals.occupied[s];
            return fmt::format("{}{}", p, s == 0 ? 'a' : 'b');
        };
        std::string text;
        for (std::size_t d = 0; d < rank; ++d) text += (d == 0 ? "" : d == rank / 2 ? " -> " : " ") + label(d);
        out.push_back({std::move(text), f.value});
    }
    return out;
}

}  // namespace tessera::chem
