#include "chem/memory.hpp"

#include <algorithm>
#include <cmath>

#include "chem/fock.hpp"
#include "chem/orbitals.hpp"
#include "kernels/gemm.hpp"

namespace tessera::chem {

namespace {

constexpr double kMiB = 1 << 20;
constexpr double kProgram = 30 * kMiB;     // code, libraries, tables of the integrals; a few more than here
constexpr double kEachTensor = 2 * kMiB;   // large tensors end on huge pages
constexpr double kSmallTensor = 4 * kMiB;  // what is below this comes from the heap, which keeps it
constexpr double kHeap = 5 * kMiB;         // plans and lists of contractions; freed, but not given back
constexpr double kRanks = 12 * kMiB;       // of the library of messages
constexpr double kAlone = 2e6;             // multiply-adds below which one thread does a contraction
constexpr int kDiis = 16, kDoubles = 22;   // tensors like the doubles: of DIIS, and of an iteration at once

double stored_integrals(const PairIndex& pairs) {
    double sum = 0, before = 0;
    for (std::int64_t p = 0; p < pairs.pairs().tile_count(); ++p) {
        const auto size = static_cast<double>(pairs.pairs().size(TileIndex{p}));
        before += size;
        sum += size * before;
    }
    return sum;
}

/// What Integrals holds of pairs of shells: a header, and of each pair of primitives a product.
double shell_pairs(const Basis& basis) {
    constexpr double kOfPair = 96, kOfPrimitives = 80;  // bytes, with what the heap adds
    double primitives = 0;
    for (const auto& s : basis.shells) primitives += static_cast<double>(s.shell.exponents.size());
    const auto shells = static_cast<double>(basis.shells.size());
    return kOfPair * shells * shells + kOfPrimitives * primitives * primitives + 4 * 8 * shells * shells;
}

double largest(const Tiling& tiling) {
    return tiling.tile_count() > 0 ? static_cast<double>(tiling.largest_tile()) : 0.0;
}

double padded(double extent, double step) { return std::ceil(extent / step) * step; }

/// In numbers, not bytes.
struct Sizes {
    double n, o, v, functions, pairs, doubles, ovvv, ooov, oooo, small;
};

/// What transform() holds at most.
double of_transform(const Sizes& s, const MemoryQuestion& q, double integrals, double function_pairs, double block,
                    double made) {
    const bool mp2 = q.method == Method::mp2, four = !mp2 && q.abcd == Abcd::stored;
    const double ov = function_pairs * s.o * s.v, oo = mp2 ? 0 : function_pairs * s.o * s.o;
    const double vv = four ? function_pairs * s.pairs : 0;
    const double work = block * (s.n * s.n + s.n * (four ? s.v : s.o) + 2 * (four ? s.v * s.v : s.o * s.v));
    double most = integrals + ov + oo + vv + work;
    most = std::max(most, ov + oo + vv + 2 * s.doubles + s.o * s.v * s.n * s.o + made);
    if (!mp2) {
        most = std::max(most, ov + oo + vv + s.doubles + s.ovvv + s.o * s.v * s.n * s.v + made);
        most = std::max(most, oo + vv + s.small + s.o * s.o * s.n * std::max(s.o, s.v) + made);
    }
    if (four) {
        const double rows = std::min(s.pairs, std::max(block, 256.0));
        most = std::max(most, vv + s.small + s.pairs * s.pairs + made + rows * (s.n * s.v + 2 * s.v * s.v));
        most = std::max(most, s.small + 3 * s.pairs * s.pairs);
    }
    return most;
}

double of_ccsd(const Sizes& s, const MemoryQuestion& q, double made) {
    // Of the ladders (ki|lj) dressed and its part of doubles stay to the end, two more are there while they are made.
    double most = s.small + s.ovvv + (kDiis + kDoubles) * s.doubles + 8 * s.ooov + 4 * s.oooo;
    if (q.abcd == Abcd::stored) return most + 2 * s.pairs * s.pairs;
    // The rotated doubles over functions (by pairs as well), before and after the product with the integrals; then
    // the product, the same with pairs turned, and their sum.
    const double over_functions = s.o * s.o * s.n * s.n;
    return most + std::max(0.0, std::max(2.5 * over_functions + made, 3 * over_functions) - 8 * s.doubles);
}

/// Threads that work on the largest contraction, each with a workspace.
double team(const Sizes& s, const MemoryQuestion& q, double function_pairs) {
    double work = function_pairs * s.n * s.n * s.o;
    if (q.method != Method::mp2) {
        work = std::max(work, std::pow(s.o * s.v, 3));
        work = std::max(work, q.abcd == Abcd::direct ? s.o * s.o * std::pow(s.n, 4) : function_pairs * s.n * s.n * s.v);
    }
    return work < kAlone ? 1 : q.threads;
}

/// The operands of the kernel as arrays, and its own copies of them, in whole vectors.
double of_triples(const Sizes& s) {
    if (s.o < 2) return 0;
    const double o = s.o + 8, v = padded(s.v, 4);
    const double copies = 2 * o * v * v * v + 4 * o * s.o * v * v;
    return s.small + s.ovvv + 4 * s.doubles + s.ooov + copies;
}

}  // namespace

NeededMemory needed_memory(const MemoryQuestion& q) {
    const PairIndex functions(q.stored->functions);
    Sizes s{};
    s.n = static_cast<double>(q.stored->functions.extent());
    s.o = static_cast<double>(q.occupied);
    s.v = static_cast<double>(q.virtuals);
    s.pairs = s.v * (s.v + 1) / 2;
    s.doubles = s.o * s.o * s.v * s.v;
    s.ovvv = s.o * s.v * s.v * s.v;
    s.ooov = s.o * s.o * s.o * s.v;
    s.oooo = s.o * s.o * s.o * s.o;
    s.small = s.ovvv + 3 * s.doubles + 2 * s.ooov + s.oooo;
    const double integrals = stored_integrals(functions);
    const auto function_pairs = static_cast<double>(functions.pairs().extent());
    const double block =
        std::min(function_pairs, std::max(kTransformBlock / (8 * s.n * s.n), largest(functions.pairs())));

    const double largest_row = largest(functions.pairs()) * function_pairs;

    // Engines of the integral library are there while integrals are made; the heap keeps some of their memory.
    const double engines = q.threads * static_cast<double>(coulomb_engine_bytes(*q.basis));
    double bytes = kProgram + kHeap + shell_pairs(*q.basis) + 8 * 40 * s.n * s.n;
    const double field = std::min<double>(8 * integrals, kFockKept + std::max<double>(kFockBlock, 8 * largest_row));
    const double scf = bytes + 8 * integrals + field + engines;
    if (q.method == Method::rhf || s.v == 0) return {static_cast<std::int64_t>(scf), kFockKept};

    // Tiles made on demand: room for a few, and for the largest one on each thread; never more than all of them.
    const double of_tile = std::pow(largest(q.stored->functions), 2), tile = static_cast<double>(q.tile);
    const bool cc = q.method != Method::mp2, direct = cc && q.abcd == Abcd::direct;
    const double largest_made = std::max({std::min(s.o, tile) * std::min(s.v, tile) * of_tile, 256.0 * of_tile,
                                          direct ? std::pow(largest(q.direct->functions), 4) : 0.0});
    const double all_made = std::max(s.o * s.v, direct ? s.n * s.n : s.pairs) * s.n * s.n;
    const double made = std::min(kMadeTiles / 8 + 2 * q.threads * largest_made, all_made);
    double most = of_transform(s, q, integrals, function_pairs, block, made);
    if (cc) most = std::max(most, of_ccsd(s, q, made));
    if (q.method == Method::ccsd_t) most = std::max(most, of_triples(s));
    if (q.checkpoint) most += s.doubles;
    // Ranks hold what they were dealt of the operands as well, and pass results on as arrays.
    if (q.ranks > 1) {
        bytes += kRanks;
        most += 4 * s.doubles + (cc ? 2 * s.ovvv : block * s.n * s.n);
        if (cc && !direct) most += s.pairs * s.pairs / q.ranks;
    }
    double rest = 8 * most;
    if (cc) rest += (kDiis + kDoubles) * (8 * s.doubles < kSmallTensor ? 4 * s.doubles : kEachTensor);
    bytes += team(s, q, function_pairs) * static_cast<double>(kernels::gemm_workspace_bytes());
    bytes += direct ? rest + engines : std::max(rest, engines) + 0.3 * std::min(rest, engines);
    return {static_cast<std::int64_t>(std::max(bytes, scf)),
            kFockKept + static_cast<std::int64_t>(std::max(0.0, bytes - scf))};
}

}  // namespace tessera::chem
