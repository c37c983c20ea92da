#include "chem/ccsd.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "chem/amplitude_file.hpp"
#include "chem/text.hpp"
#include "tensor/resident.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

namespace {

// Residuals of amplitudes that are beyond saving, and of those that are better than none to begin with.
constexpr double kHopeless = 1e6, kWorthKeeping = 10;

/// x[i][j][a][b] + x[j][i][b][a]
RealTensor symmetric(const RealTensor& x, TensorWork& work) { return add(1.0, x, 1.0, work.permuted("jiba->ijab", x)); }

/// F(kc) = g(kc), F(kj) = g(kj) + t(j,c) F(kc) and so on.
void finish(DressedFock& f, const RealTensor& t1, TensorWork& w) {
    w.add_product("jc,kc->kj", t1, f.kc, f.kj);
    w.add_product("ic,ac->ia", t1, f.bc, f.ia);
    w.add_product("ka,ki->ia", t1, f.kj, f.ia, -1);
    w.add_product("kb,kc->bc", t1, f.kc, f.bc, -1);
}

}  // namespace

RealTensor spin_summed(const RealTensor& x, TensorWork& work) {
    return add(2.0, x, -1.0, work.permuted("ijba->ijab", x));
}

void scale(Amplitudes& x, double factor) {
    scale(x.t1, factor);
    scale(x.t2, factor);
}

void axpy(double factor, const Amplitudes& x, Amplitudes& y) {
    axpy(factor, x.t1, y.t1);
    axpy(factor, x.t2, y.t2);
}

void divide_by_energies(RealTensor& x, const Orbitals& orbitals) {
    const auto& o = orbitals.occupied_energies;
    auto v = orbitals.virtual_energies;
    for (double& e : v) e = -e;
    if (x.rank() == 2)
        divide_by_sums(x, std::vector{o, v});
    else
        divide_by_sums(x, std::vector{o, o, v, v});
}

std::int64_t resident_bytes(const ResidentCcsd& x, bool vectors) {
    // Tensors like the doubles: four, two of integrals, and the copies of a contraction's operands and result in
    // another order; of DIIS those that are kept, one more until the oldest goes, and what they are combined to.
    const auto o = x.occupied, v = x.virtuals, tile = std::min(x.tile, v);
    const auto doubles = o * o * v * v, all = o + v, block = 4 * v * v * tile * tile;
    const auto field = x.jkfit * x.functions * (x.functions + 4 * o);
    constexpr std::int64_t kRest = std::int64_t{256} << 20;
    return 8 * ((vectors ? 10 + 2 * 9 + 1 : 13) * doubles + 3 * x.rifit * all * all + 3 * block + field) + kRest;
}

Amplitudes to_host(const Amplitudes& x) { return {tessera::to_host(x.t1), tessera::to_host(x.t2)}; }

Amplitudes to_device(const Amplitudes& x, int device) {
    return {to_devices(x.t1, {device}), to_devices(x.t2, {device})};
}

RealTensor make_tau(const Amplitudes& t, TensorWork& work) {
    RealTensor tau = t.t2;
    work.add_product("ia,jb->ijab", t.t1, t.t1, tau);
    return tau;
}

RealTensor first_order_doubles(const IntegralSource& integrals, const Orbitals& orbitals, TensorWork& work) {
    RealTensor t = *integrals.exchange(work);
    divide_by_energies(t, orbitals);
    return t;
}

double correlation_energy(const IntegralSource& integrals, const RealTensor& tau, TensorWork& work) {
    return integrals.exchange_with(spin_summed(tau, work), work);
}

Amplitudes next_amplitudes(IntegralSource& v, const Orbitals& orbitals, const Amplitudes& t, TensorWork& w) {
    const RealTensor &t1 = t.t1, &t2 = t.t2;
    DressedFock f = v.dress(t1, w);
    finish(f, t1, w);
    RealTensor u = spin_summed(t2, w);
    const DressedSums g = v.sums(u, w);
    Amplitudes next{add(1.0, f.ia, 1.0, g.ia), {}};
    w.add_product("ikac,kc->ia", u, f.kc, next.t1);

    // Rings, and what else is symmetrised, (ia) with (jb). Tensors like the doubles go as soon as they have served.
    RealTensor sum;
    {
        RealTensor d = v.ai_kc(w);
        scale(d, 2.0);
        axpy(-1.0, v.ki_ac(w), d);
        w.add_product("ilad,lkdc->ikac", u, *v.exchange_summed(w), d, 0.5);
        sum = w.product("jkbc,ikac->ijab", u, d, 0.5);
    }
    u = RealTensor();
    RealTensor c = v.ki_ac(w);  // made again: held from above it would be one more at the worst moment
    w.add_product("ilda,kldc->ikac", t2, *v.exchange(w), c, -0.5);  // t2(il,da) = t2(li,ad)
    {
        const RealTensor x = w.product("kjbc,ikac->ijab", t2, c);
        c = RealTensor();
        axpy(-0.5, x, sum);
        axpy(-1.0, w.permuted("jiab->ijab", x), sum);
    }
    w.add_product("ijac,bc->ijab", t2, add(1.0, f.bc, -1.0, g.bc), sum);
    w.add_product("ikab,kj->ijab", t2, add(1.0, f.kj, 1.0, g.kj), sum, -1);
    v.add_ladders(t, sum, w);

    next.t2 = symmetric(sum, w);
    divide_by_energies(next.t1, orbitals);
    divide_by_energies(next.t2, orbitals);
    return next;
}

CcsdResult ccsd(IntegralSource& integrals, const Orbitals& orbitals, Amplitudes start, const CcsdOptions& options,
                TensorWork& work) {
    return ccsd({[&](const Amplitudes& t) { return next_amplitudes(integrals, orbitals, t, work); },
                 [&](const Amplitudes& t) { return correlation_energy(integrals, make_tau(t, work), work); }},
                std::move(start), options, work.threads());
}

CcsdResult ccsd(const CcsdEquations& equations, Amplitudes start, const CcsdOptions& options, int threads) {
    CcsdResult out;
    out.amplitudes = std::move(start);
    const double begin = now_seconds();
    const auto say = [&](const std::string& line) {
        if (options.log) options.log(line);
    };
    std::unique_ptr<AmplitudeFile> file;
    Diis<Amplitudes>::Keep keep;
    if (!options.scratch.empty()) {
        file = std::make_unique<AmplitudeFile>(options.scratch, threads);
        keep = [&](const Amplitudes& x) { return file->keep(x); };
    } else if (options.vectors_on_host && out.amplitudes.t2.on_devices()) {
        const int device = out.amplitudes.t2.placement().devices.front();
        keep = [device](const Amplitudes& x) {
            return [device, here = std::make_shared<const Amplitudes>(to_host(x))] {
                return std::make_shared<const Amplitudes>(to_device(*here, device));
            };
        };
    }
    Diis<Amplitudes> diis(
        8, [](const Amplitudes& a, const Amplitudes& b) { return dot(a.t1, b.t1) + dot(a.t2, b.t2); }, std::move(keep));
    say(" iter   correlation / Eh       change     residual   diis   time / s");
    if (options.before > 0) out.energy = equations.energy(out.amplitudes);
    double residual = 0;
    for (int n = 1; n <= options.max_iterations; ++n) {
        const int iteration = options.before + n;
        const Amplitudes& old = out.amplitudes;
        Amplitudes next = equations.next(old);
        Amplitudes error{add(1.0, next.t1, -1.0, old.t1), add(1.0, next.t2, -1.0, old.t2)};
        residual = std::hypot(norm(error.t1), norm(error.t2));
        diis.add(std::move(next), std::move(error));
        out.amplitudes = diis.combination();
        const double e = equations.energy(out.amplitudes);
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
    throw NotConverged(fmt::format("{} did not converge in {} ({}correlation energy {:.8f}, residual {:.1e}){}",
                                   options.what, counted(out.iterations, "iteration"), lost ? "it ran away: " : "",
                                   out.energy, residual, options.advice),
                       "ccsd", out.iterations, out.energy);
}

}  // namespace tessera::chem
