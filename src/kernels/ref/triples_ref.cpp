// The fused contractions and the (T) formulas as plain loops.
#include <array>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::kernels::ref {

namespace {

template <class Body>
void for_each_index(const BlockExtents& extents, Body&& body) {
    BlockExtents x{};
    for (x[5] = 0; x[5] < extents[5]; ++x[5])
        for (x[4] = 0; x[4] < extents[4]; ++x[4])
            for (x[3] = 0; x[3] < extents[3]; ++x[3])
                for (x[2] = 0; x[2] < extents[2]; ++x[2])
                    for (x[1] = 0; x[1] < extents[1]; ++x[1])
                        for (x[0] = 0; x[0] < extents[0]; ++x[0]) body(x);
}

std::int64_t offset(const std::array<std::int64_t, kBlockRank>& stride, const BlockExtents& x, unsigned mask = 0x3f) {
    std::int64_t at = 0;
    for (int n = 0; n < kBlockRank; ++n)
        if (mask >> n & 1U) at += stride[n] * x[n];
    return at;
}

double add_terms(std::span<const FusedTerm> terms, const BlockExtents& x, double c) {
    for (const FusedTerm& t : terms) {
        const double* a = t.a.data + offset(t.a.stride, x, t.a_indices);
        const double* b = t.b.data + offset(t.b.stride, x, ~t.a_indices);
        for (std::int64_t s = 0; s < t.sum_extent; ++s)
            c = std::fma(a[s * t.a.sum_stride], t.factor * b[s * t.b.sum_stride], c);
    }
    return c;
}

}  // namespace

void fused_contract(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output) {
    check_fused(extents, terms, output);
    for_each_index(extents, [&](const BlockExtents& x) {
        double& c = output.data[offset(output.stride, x)];
        c = add_terms(terms, x, output.accumulate ? c : 0.0);
    });
}

double fused_element(std::span<const FusedTerm> terms, const BlockExtents& index) {
    for (const FusedTerm& t : terms) {
        require(t.a.data != nullptr && t.b.data != nullptr, "fused element: an operand is a null pointer");
        require(t.sum_extent >= 1, "fused element: summed extent {} is below 1", t.sum_extent);
    }
    return add_terms(terms, index, 0);
}

double fused_energy(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue) {
    check_energy(extents, terms, epilogue);
    check_denominators(extents, epilogue.orbital_energies);
    const auto stride = packed_strides(extents);
    std::vector<double> w, v;
    for_each_index(extents, [&](const BlockExtents& x) {
        w.push_back(add_terms(terms, x, 0));
        v.push_back(add_terms(epilogue.singles, x, w.back()));
    });
    double energy = 0;
    for_each_index(extents, [&](const BlockExtents& x) {
        const auto& e = epilogue.orbital_energies;
        const double d = e[0][x[0]] + e[1][x[1]] + e[2][x[2]] - e[3][x[3]] - e[4][x[4]] - e[5][x[5]];
        const auto [k, j, i, c, b, a] = x;
        // The value at virtual positions (p, q, r) where the block has (a, b, c).
        auto at = [&](const std::vector<double>& t, std::int64_t p, std::int64_t q, std::int64_t r) {
            return t[static_cast<std::size_t>(offset(stride, {k, j, i, r, q, p}))];
        };
        if (epilogue.weights == TripleWeights::spin_orbital)
            energy += at(w, a, b, c) * at(v, a, b, c) / d;
        else
            energy += (4 * at(w, a, b, c) + at(w, b, c, a) + at(w, c, a, b) -
                       2 * (at(w, c, b, a) + at(w, a, c, b) + at(w, b, a, c))) *
                      at(v, a, b, c) / d;
    });
    return epilogue.scale * energy;
}

double spin_orbital_triples(const SpinOrbitalTensors& x) {
    const std::int64_t o = x.occupied, v = x.virtuals;
    check_triples_tensors(o, v, {x.t1, x.t2, x.oovv, x.ovvv, x.ooov, x.occupied_energies, x.virtual_energies});
    check_denominators({o, o, o, v, v, v}, {x.occupied_energies, x.occupied_energies, x.occupied_energies,
                                            x.virtual_energies, x.virtual_energies, x.virtual_energies});
    auto t1 = [&](auto i, auto a) { return x.t1[i * v + a]; };
    auto t2 = [&](auto i, auto j, auto a, auto b) { return x.t2[((i * o + j) * v + a) * v + b]; };
    auto oovv = [&](auto i, auto j, auto a, auto b) { return x.oovv[((i * o + j) * v + a) * v + b]; };
    auto ovvv = [&](auto i, auto a, auto b, auto c) { return x.ovvv[((i * v + a) * v + b) * v + c]; };
    auto ooov = [&](auto i, auto j, auto k, auto a) { return x.ooov[((i * o + j) * o + k) * v + a]; };
    using I = std::int64_t;
    // sum_e t[jk,ae] <ei||bc> - sum_m t[im,bc] <ma||jk>
    auto connected = [&](I i, I j, I k, I a, I b, I c) {
        double sum = 0;
        for (I e = 0; e < v; ++e) sum -= t2(j, k, a, e) * ovvv(i, e, b, c);
        for (I m = 0; m < o; ++m) sum -= t2(i, m, b, c) * ooov(j, k, m, a);
        return sum;
    };
    auto disconnected = [&](I i, I j, I k, I a, I b, I c) { return t1(i, a) * oovv(j, k, b, c); };
    // P(i/jk) P(a/bc)
    auto antisymmetrised = [&](auto&& f, I i, I j, I k, I a, I b, I c) {
        auto over_virtuals = [&](I p, I q, I r) {
            return f(p, q, r, a, b, c) - f(p, q, r, b, a, c) - f(p, q, r, c, b, a);
        };
        return over_virtuals(i, j, k) - over_virtuals(j, i, k) - over_virtuals(k, j, i);
    };
    double energy = 0;
    for_each_index({o, o, o, v, v, v}, [&](const BlockExtents& n) {
        const auto [k, j, i, c, b, a] = n;
        const double d = x.occupied_energies[i] + x.occupied_energies[j] + x.occupied_energies[k] -
                         x.virtual_energies[a] - x.virtual_energies[b] - x.virtual_energies[c];
        const double w = antisymmetrised(connected, i, j, k, a, b, c);
        energy += w * (w + antisymmetrised(disconnected, i, j, k, a, b, c)) / d;
    });
    return energy / 36;
}

double closed_shell_triples(const ClosedShellTensors& x) {
    const std::int64_t o = x.occupied, v = x.virtuals;
    check_triples_tensors(o, v, {x.t1, x.t2, x.ovov, x.ovvv, x.ooov, x.occupied_energies, x.virtual_energies});
    check_denominators({o, o, o, v, v, v}, {x.occupied_energies, x.occupied_energies, x.occupied_energies,
                                            x.virtual_energies, x.virtual_energies, x.virtual_energies});
    auto t1 = [&](auto i, auto a) { return x.t1[i * v + a]; };
    auto t2 = [&](auto i, auto j, auto a, auto b) { return x.t2[((i * o + j) * v + a) * v + b]; };
    auto ovov = [&](auto i, auto a, auto j, auto b) { return x.ovov[((i * v + a) * o + j) * v + b]; };
    auto ovvv = [&](auto i, auto a, auto b, auto c) { return x.ovvv[((i * v + a) * v + b) * v + c]; };
    auto ooov = [&](auto i, auto j, auto k, auto a) { return x.ooov[((i * o + j) * o + k) * v + a]; };
    auto fock = [&](auto i, auto a) { return x.fock ? x.fock[i * v + a] : 0.0; };
    using I = std::int64_t;
    auto one = [&](I i, I j, I k, I a, I b, I c) {
        double sum = 0;
        for (I d = 0; d < v; ++d) sum += ovvv(i, a, b, d) * t2(k, j, c, d);
        for (I m = 0; m < o; ++m) sum -= ooov(j, m, i, a) * t2(m, k, b, c);
        return sum;
    };
    auto w = [&](I i, I j, I k, I a, I b, I c) {
        return one(i, j, k, a, b, c) + one(i, k, j, a, c, b) + one(j, i, k, b, a, c) + one(j, k, i, b, c, a) +
               one(k, i, j, c, a, b) + one(k, j, i, c, b, a);
    };
    auto whole = [&](I i, I j, I k, I a, I b, I c) {
        return w(i, j, k, a, b, c) + t1(i, a) * ovov(j, b, k, c) + t1(j, b) * ovov(i, a, k, c) +
               t1(k, c) * ovov(i, a, j, b) + fock(i, a) * t2(j, k, b, c) + fock(j, b) * t2(i, k, a, c) +
               fock(k, c) * t2(i, j, a, b);
    };
    double energy = 0;
    for_each_index({o, o, o, v, v, v}, [&](const BlockExtents& n) {
        const auto [k, j, i, c, b, a] = n;
        const double d = x.occupied_energies[i] + x.occupied_energies[j] + x.occupied_energies[k] -
                         x.virtual_energies[a] - x.virtual_energies[b] - x.virtual_energies[c];
        energy += (4 * w(i, j, k, a, b, c) + w(i, j, k, b, c, a) + w(i, j, k, c, a, b)) *
                  (whole(i, j, k, a, b, c) - whole(i, j, k, c, b, a)) / d;
    });
    return energy / 3;
}

}  // namespace tessera::kernels::ref
