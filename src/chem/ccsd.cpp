#include "chem/ccsd.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "chem/diis.hpp"
#include "chem/text.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

namespace {

// Residuals of amplitudes that are beyond saving, and of those that are better than none to begin with.
constexpr double kHopeless = 1e6, kWorthKeeping = 10;

/// 2 x[i][j][a][b] - x[i][j][b][a]
RealTensor spin_summed(const RealTensor& x, TensorWork& work) {
    return add(2.0, x, -1.0, work.permuted("ijba->ijab", x));
}

/// x[i][j][a][b] + x[j][i][b][a]
RealTensor symmetric(const RealTensor& x, TensorWork& work) { return add(1.0, x, 1.0, work.permuted("jiba->ijab", x)); }

/// The T1-dressed Fock matrix without orbital energies, and the singles' residual.
struct Dressed {
    RealTensor kc, kj, bc, ia;
};

Dressed dressed_fock(const MoIntegrals& v, const RealTensor& exchange, const RealTensor& ooov_summed,
                     const RealTensor& t1, TensorWork& w) {
    Dressed f;
    f.kc = w.product("klcd,ld->kc", exchange, t1);
    f.kj = w.product("kjlc,lc->kj", ooov_summed, t1);
    RealTensor bc = w.product("ldbc,ld->bc", v.ovvv, t1, 2);
    w.add_product("lcbd,ld->bc", v.ovvv, t1, bc, -1);
    f.ia = w.product("ilac,lc->ia", v.oovv, t1, 2);
    w.add_product("liac,lc->ia", v.o_o_vv, t1, f.ia, -1);
    w.add_product("jc,kc->kj", t1, f.kc, f.kj);
    w.add_product("ic,ac->ia", t1, bc, f.ia);
    w.add_product("ka,ki->ia", t1, f.kj, f.ia, -1);
    w.add_product("kb,kc->bc", t1, f.kc, bc, -1);
    f.bc = std::move(bc);
    return f;
}

}  // namespace

void scale(Amplitudes& x, double factor) {
    scale(x.t1, factor);
    scale(x.t2, factor);
}

void axpy(double factor, const Amplitudes& x, Amplitudes& y) {
    axpy(factor, x.t1, y.t1);
    axpy(factor, x.t2, y.t2);
}

void divide_by_energies(RealTensor& x, const Orbitals& orbitals) {
    const auto &eo = orbitals.occupied_energies, &ev = orbitals.virtual_energies;
    x.update_tiles([&](const TileInfo& info, std::span<double> tile) {
        std::size_t n = 0;
        if (info.extents.size() == 2) {
            for (std::int64_t i = 0; i < info.extents[0]; ++i)
                for (std::int64_t a = 0; a < info.extents[1]; ++a)
                    tile[n++] /= eo[info.begin[0] + i] - ev[info.begin[1] + a];
            return;
        }
        for (std::int64_t i = 0; i < info.extents[0]; ++i)
            for (std::int64_t j = 0; j < info.extents[1]; ++j)
                for (std::int64_t a = 0; a < info.extents[2]; ++a) {
                    const double e = eo[info.begin[0] + i] + eo[info.begin[1] + j] - ev[info.begin[2] + a];
                    for (std::int64_t b = 0; b < info.extents[3]; ++b) tile[n++] /= e - ev[info.begin[3] + b];
                }
    });
}

RealTensor make_tau(const Amplitudes& t, TensorWork& work) {
    RealTensor tau = t.t2;
    work.add_product("ia,jb->ijab", t.t1, t.t1, tau);
    return tau;
}

RealTensor first_order_doubles(const MoIntegrals& integrals, const Orbitals& orbitals) {
    RealTensor t = integrals.oovv;
    divide_by_energies(t, orbitals);
    return t;
}

double correlation_energy(const MoIntegrals& integrals, const RealTensor& tau, TensorWork& work) {
    return dot(spin_summed(integrals.oovv, work), tau);
}

Amplitudes next_amplitudes(const MoIntegrals& v, const Orbitals& orbitals, AbcdTerm& abcd, const Amplitudes& t,
                           TensorWork& w) {
    const RealTensor &t1 = t.t1, &t2 = t.t2;
    const RealTensor tau = make_tau(t, w);
    const RealTensor u = spin_summed(t2, w), exchange = spin_summed(v.oovv, w);
    // 2 (kj|lc) - (lj|kc)
    const RealTensor ooov_summed = add(2.0, v.ooov, -1.0, w.permuted("ljkc->kjlc", v.ooov));
    const Dressed f = dressed_fock(v, exchange, ooov_summed, t1, w);
    const RealTensor u_oo = w.product("ljcd,lkcd->kj", u, v.oovv), u_vv = w.product("klbd,klcd->bc", u, v.oovv);

    Amplitudes next;
    next.t1 = f.ia;
    w.add_product("ikac,kc->ia", u, f.kc, next.t1);
    w.add_product("kicd,kcad->ia", u, v.ovvv, next.t1);
    w.add_product("klac,kilc->ia", u, v.ooov, next.t1, -1);
    w.add_product("la,li->ia", t1, u_oo, next.t1, -1);
    w.add_product("id,ad->ia", t1, u_vv, next.t1, -1);

    // Ladders. pairs(k,l,i,j) is the dressed (ki|lj) with its product of doubles, tau_kl(k,l,i,j) that product alone.
    const RealTensor tau_kl = w.product("klcd,ijcd->klij", v.oovv, tau);
    RealTensor pairs = w.permuted("kilj->klij", v.oooo);
    w.add_product("ljkc,ic->klij", v.ooov, t1, pairs);
    w.add_product("kild,jd->klij", v.ooov, t1, pairs);
    axpy(1.0, tau_kl, pairs);
    next.t2 = v.oovv;
    axpy(1.0, abcd.apply(tau, t1, w), next.t2);
    if (abcd.dressed()) {
        // That term has t1 t1 tau_kl already.
        w.add_product("klij,klab->ijab", pairs, t2, next.t2);
        RealTensor half = w.product("klij,ka->alij", add(1.0, pairs, -1.0, tau_kl), t1);
        w.add_product("alij,lb->ijab", half, t1, next.t2);
    } else {
        w.add_product("klij,klab->ijab", pairs, tau, next.t2);
    }

    // What is symmetrised, (ia) with (jb).
    const RealTensor with_c = w.product("kcad,id->ikac", v.ovvv, t1), with_d = w.product("kdac,id->ikac", v.ovvv, t1);
    RealTensor sum = with_c;
    RealTensor hole = w.permuted("kijb->kbij", v.ooov);
    w.add_product("kjcb,ic->kbij", v.oovv, t1, hole);
    w.add_product("kibd,jd->kbij", v.o_o_vv, t1, hole);
    if (!abcd.dressed()) w.add_product("kcbd,ijcd->kbij", v.ovvv, tau, hole);
    w.add_product("ka,kbij->ijab", t1, hole, sum, -1);

    // Rings.
    RealTensor c = w.permuted("kiac->ikac", v.o_o_vv);
    RealTensor d = add(2.0, v.oovv, -1.0, c);
    axpy(1.0, with_d, c);
    axpy(2.0, with_c, d);
    axpy(-1.0, with_d, d);
    w.add_product("kilc,la->ikac", v.ooov, t1, c, -1);
    w.add_product("likc,la->ikac", ooov_summed, t1, d, -1);
    const RealTensor singles = w.product("la,id->ilad", t1, t1);
    // t2[l][i][a][d] = t2[i][l][d][a]
    const RealTensor crossed = add(0.5, w.permuted("ilda->ilad", t2), 1.0, singles);
    w.add_product("ilad,kldc->ikac", crossed, v.oovv, c, -1);
    w.add_product("ilad,lkdc->ikac", add(0.5, u, -1.0, singles), exchange, d);
    w.add_product("jkbc,ikac->ijab", u, d, sum, 0.5);
    const RealTensor x = w.product("kjbc,ikac->ijab", t2, c);
    axpy(-0.5, x, sum);
    axpy(-1.0, w.permuted("jiab->ijab", x), sum);

    w.add_product("ijac,bc->ijab", t2, add(1.0, f.bc, -1.0, u_vv), sum);
    w.add_product("ikab,kj->ijab", t2, add(1.0, f.kj, 1.0, u_oo), sum, -1);

    axpy(1.0, symmetric(sum, w), next.t2);
    divide_by_energies(next.t1, orbitals);
    divide_by_energies(next.t2, orbitals);
    return next;
}

CcsdResult ccsd(const MoIntegrals& integrals, const Orbitals& orbitals, AbcdTerm& abcd, Amplitudes start,
                const CcsdOptions& options, TensorWork& work) {
    CcsdResult out;
    out.amplitudes = std::move(start);
    const double begin = now_seconds();
    const auto say = [&](const std::string& line) {
        if (options.log) options.log(line);
    };
    Diis<Amplitudes> diis(8,
                          [](const Amplitudes& a, const Amplitudes& b) { return dot(a.t1, b.t1) + dot(a.t2, b.t2); });
    say(" iter   correlation / Eh       change     residual   diis   time / s");
    if (options.before > 0) out.energy = correlation_energy(integrals, make_tau(out.amplitudes, work), work);
    double residual = 0;
    for (int n = 1; n <= options.max_iterations; ++n) {
        const int iteration = options.before + n;
        const Amplitudes& old = out.amplitudes;
        Amplitudes next = next_amplitudes(integrals, orbitals, abcd, old, work);
        Amplitudes error{add(1.0, next.t1, -1.0, old.t1), add(1.0, next.t2, -1.0, old.t2)};
        residual = std::hypot(norm(error.t1), norm(error.t2));
        diis.add(std::move(next), std::move(error));
        out.amplitudes = diis.combination();
        const double e = correlation_energy(integrals, make_tau(out.amplitudes, work), work);
        const double change = e - out.energy;
        out.energy = e;
        out.iterations = n;
        say(fmt::format("{:5} {:18.10f} {:12.2e} {:12.2e} {:6} {:10.2f}", iteration, e, change, residual, diis.size(),
                        now_seconds() - begin));
        if (!std::isfinite(e) || !(residual < kHopeless)) break;
        if (options.keep && residual < kWorthKeeping) options.keep(out.amplitudes, iteration, e, residual);
        if (std::abs(change) < options.converge && residual < 10 * options.converge) return out;
    }
    const bool lost = !std::isfinite(out.energy) || !(residual < kHopeless);
    throw NotConverged(fmt::format("CCSD did not converge in {} ({}correlation energy {:.8f}, residual {:.1e}){}",
                                   counted(out.iterations, "iteration"), lost ? "it ran away: " : "", out.energy,
                                   residual, options.advice),
                       "ccsd", out.iterations, out.energy);
}

}  // namespace tessera::chem
