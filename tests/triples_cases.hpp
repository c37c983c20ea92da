#pragma once
// Blocks, terms and molecules with random content, for the triples tests of every back end.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "tessera/kernels/triples.hpp"

namespace tessera::kernels::triples_cases {

using Random = std::mt19937_64;

inline std::vector<double> random_values(std::int64_t count, Random& random) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<double> x(static_cast<std::size_t>(count));
    for (double& v : x) v = uniform(random);
    return x;
}

inline std::int64_t pick(Random& random, std::initializer_list<std::int64_t> choices) {
    return choices.begin()[random() % choices.size()];
}

/// A block, its terms and the memory behind them.
struct Case {
    BlockExtents extents{};
    std::vector<std::vector<double>> storage;
    std::vector<FusedTerm> terms, singles;
    std::array<std::vector<double>, kBlockRank> energies;

    Case() { storage.reserve(4096); }
    double* tensor(std::int64_t count, Random& random) {
        return storage.emplace_back(random_values(count, random)).data();
    }
    std::int64_t volume() const {
        std::int64_t v = 1;
        for (std::int64_t e : extents) v *= e;
        return v;
    }
    EnergyEpilogue epilogue(TripleWeights weights, double scale) const {
        EnergyEpilogue e;
        e.weights = weights;
        for (int n = 0; n < kBlockRank; ++n) e.orbital_energies[n] = energies[n].data();
        e.singles = singles;
        e.scale = scale;
        return e;
    }
};

inline Case eighteen(const BlockExtents& extents, std::int64_t occupied, std::int64_t virtuals, Random& random) {
    Case c;
    c.extents = extents;
    auto tensor = [&](std::string_view letters, std::int64_t sum) {
        std::int64_t count = 1;
        for (char l : letters) {
            const std::size_t n = std::string_view("kjicba").find(l);
            count *= n == std::string_view::npos ? sum : extents[n];
        }
        return c.tensor(count, random);
    };
    TriplesOperands t;
    SinglesOperands one;
    t.occupied_sum = occupied;
    t.virtual_sum = virtuals;
    for (std::size_t n = 0; n < 9; ++n) {
        t.t2_occupied[n] = tensor(kOccupiedPatterns[n].t2, occupied);
        t.v2_occupied[n] = tensor(kOccupiedPatterns[n].v2, occupied);
        t.t2_virtual[n] = tensor(kVirtualPatterns[n].t2, virtuals);
        t.v2_virtual[n] = tensor(kVirtualPatterns[n].v2, virtuals);
        one.t1[n] = tensor(kSinglesPatterns[n].t2, 1);
        one.v2[n] = tensor(kSinglesPatterns[n].v2, 1);
    }
    c.terms = triples_terms(extents, t);
    c.singles = singles_terms(extents, one);
    for (int n = 0; n < kBlockRank; ++n) {
        c.energies[n] = random_values(extents[n], random);
        for (double& e : c.energies[n]) e = (n < 3 ? -2.0 : 1.5) + 0.4 * e;
    }
    return c;
}

/// Any split of the indices, shuffled and padded strides, some negative or zero, any factor.
inline FusedTerm random_term(Case& c, Random& random) {
    FusedTerm t;
    t.factor = std::vector<double>{1, -1, 0.5, -3}[random() % 4];
    t.sum_extent = pick(random, {1, 2, 3, 5, 16, 33, 70});
    t.a_indices = static_cast<unsigned>(random() % 64);
    for (bool is_a : {true, false}) {
        TermOperand& x = is_a ? t.a : t.b;
        std::vector<int> order{6};
        for (int n = 0; n < kBlockRank; ++n)
            if (((t.a_indices >> n & 1U) != 0) == is_a) order.push_back(n);
        std::shuffle(order.begin(), order.end(), random);
        std::int64_t step = 1, back = 0;
        for (int n : order) {
            std::int64_t& stride = n == 6 ? x.sum_stride : x.stride[n];
            const std::int64_t extent = n == 6 ? t.sum_extent : c.extents[n];
            const auto kind = random() % 8;
            stride = kind == 0 ? 0 : kind == 1 ? -step : step;
            if (kind == 1) back += step * (extent - 1);
            if (kind != 0) step *= extent + static_cast<std::int64_t>(random() % 2);
        }
        x.data = c.tensor(step, random) + back;
    }
    return t;
}

/// Any terms into an output in any order of its indices, with gaps that must stay untouched, and a negative stride now
/// and then.
struct StridedCase {
    Case c;
    FusedOutput out;             // data is not set
    std::int64_t back = 0;       // of its first element in memory
    std::vector<double> before;  // all of the memory
    StridedCase(std::size_t most_terms, Random& random) {
        for (std::int64_t& e : c.extents) e = pick(random, {1, 1, 2, 3, 4, 5, 7, 8, 11});
        while (c.volume() > 60000) c.extents[random() % 6] = 1;
        const auto terms = random() % (most_terms + 1);
        for (std::size_t n = 0; n < terms; ++n) c.terms.push_back(random_term(c, random));
        std::array<int, 6> order{0, 1, 2, 3, 4, 5};
        std::shuffle(order.begin(), order.end(), random);
        std::int64_t step = 1 + static_cast<std::int64_t>(random() % 2);
        for (int n : order) {
            out.stride[n] = random() % 4 == 0 ? -step : step;
            if (out.stride[n] < 0) back += step * (c.extents[n] - 1);
            step *= c.extents[n] + static_cast<std::int64_t>(random() % 2);
        }
        out.accumulate = random() % 2 == 0;
        before = random_values(step + 3, random);
    }
    /// All of the memory after `contract` has worked on it.
    template <class Contract>
    std::vector<double> after(Contract&& contract) const {
        std::vector<double> memory = before;
        FusedOutput to = out;
        to.data = memory.data() + back;
        contract(to);
        return memory;
    }
};

/// Closed-shell integrals and amplitudes with the symmetries real ones have, and the same as spin orbitals.
struct Molecule {
    std::int64_t o, v;
    std::vector<double> t1, t2, ovov, ovvv, ooov, eo, ev;
    Molecule(std::int64_t occupied, std::int64_t virtuals, Random& random) : o(occupied), v(virtuals) {
        t1 = random_values(o * v, random);
        eo = random_values(o, random);
        ev = random_values(v, random);
        for (double& e : eo) e = -2 + 0.5 * e;
        for (double& e : ev) e = 1 + 0.5 * e;
        t2.resize(static_cast<std::size_t>(o * o * v * v));
        ovov.resize(t2.size());
        ovvv.resize(static_cast<std::size_t>(o * v * v * v));
        ooov.resize(static_cast<std::size_t>(o * o * o * v));
        std::uniform_real_distribution<double> uniform(-1, 1);
        for (std::int64_t i = 0; i < o; ++i)
            for (std::int64_t j = 0; j < o; ++j)
                for (std::int64_t a = 0; a < v; ++a)
                    for (std::int64_t b = 0; b < v; ++b) {
                        T(i, j, a, b) = T(j, i, b, a) = uniform(random);
                        OVOV(i, a, j, b) = OVOV(j, b, i, a) = uniform(random);
                    }
        for (std::int64_t i = 0; i < o; ++i)
            for (std::int64_t a = 0; a < v; ++a)
                for (std::int64_t b = 0; b < v; ++b)
                    for (std::int64_t c = 0; c < v; ++c) OVVV(i, a, b, c) = OVVV(i, a, c, b) = uniform(random);
        for (std::int64_t i = 0; i < o; ++i)
            for (std::int64_t j = 0; j < o; ++j)
                for (std::int64_t k = 0; k < o; ++k)
                    for (std::int64_t a = 0; a < v; ++a) OOOV(i, j, k, a) = OOOV(j, i, k, a) = uniform(random);
    }
    using I = std::int64_t;
    double& T(I i, I j, I a, I b) { return t2[((i * o + j) * v + a) * v + b]; }
    double& OVOV(I i, I a, I j, I b) { return ovov[((i * v + a) * o + j) * v + b]; }
    double& OVVV(I i, I a, I b, I c) { return ovvv[((i * v + a) * v + b) * v + c]; }
    double& OOOV(I i, I j, I k, I a) { return ooov[((i * o + j) * o + k) * v + a]; }
    ClosedShellTensors tensors() const {
        return {o, v, t1.data(), t2.data(), ovov.data(), ovvv.data(), ooov.data(), eo.data(), ev.data()};
    }
};

}  // namespace tessera::kernels::triples_cases
