// The energy epilogue on CPU cores: blocks are weighted and reduced while they lie in L2, and never stored.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/parallel.hpp"
#include "kernels/cpu/triples_engine.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::kernels {

namespace {

using cpu::BlockTiling;
using cpu::Clip;
using cpu::FusedEngine;

/// Orbital energies with the sign they carry in the denominator. Lanes past the end hold zero amplitudes; a huge
/// denominator keeps 0 / 0 away from them.
struct Denominators {
    const BlockTiling& tiling;
    std::array<std::vector<double>, kBlockRank> e;

    Denominators(const BlockTiling& t, const EnergyEpilogue& epilogue) : tiling(t) {
        for (int n = 0; n < kBlockRank; ++n) {
            for (std::int64_t x = 0; x < t.extents[n]; ++x)
                e[n].push_back(n < 3 ? epilogue.orbital_energies[n][x] : -epilogue.orbital_energies[n][x]);
            e[n].resize(static_cast<std::size_t>(t.tiles[n] * t.tile[n]), 1e300);
        }
    }
    /// Everything but the vector index.
    double base(const Clip& clip, const BlockExtents& x) const {
        double sum = 0;
        for (int n = 0; n < kBlockRank; ++n)
            if (n != tiling.vec) sum += e[n][static_cast<std::size_t>(clip.origin[n] + x[n])];
        return sum;
    }
    const double* lanes(const Clip& clip, const BlockExtents& x) const {
        return e[tiling.vec].data() + clip.origin[tiling.vec] + x[tiling.vec];
    }
};

/// W of one block, and V = W + singles behind it.
struct BlockPair {
    double *w, *v;
    BlockPair(const BlockTiling& t, double* storage) : w(storage), v(storage + t.block_size) {}
    void compute(const BlockTiling& t, const BlockExtents& block, const FusedEngine& terms,
                 const FusedEngine& singles) {
        std::memset(w, 0, static_cast<std::size_t>(t.block_size) * 8);
        terms.add(block, w);
        std::memcpy(v, w, static_cast<std::size_t>(t.block_size) * 8);
        singles.add(block, v);
    }
};

double sum_lanes(const double* acc, int lanes) {
    double sum = 0;
    for (int x = 0; x < lanes; ++x) sum += acc[x];
    return sum;
}

double spin_orbital_part(const Denominators& d, const BlockExtents& block, const BlockPair& pair, cpu::EnergyRow row) {
    const BlockTiling& t = d.tiling;
    const Clip clip(t, block);
    alignas(64) double acc[8] = {};
    cpu::for_each_row(t, clip, {}, [&](int at, std::int64_t, const BlockExtents& x) {
        row(pair.w + at, pair.v + at, d.base(clip, x), d.lanes(clip, x), acc);
    });
    return sum_lanes(acc, t.lanes);
}

/// All blocks whose virtual coordinates are permutations of one another: they hold whole orbits of (a, b, c).
class Orbit {
  public:
    Orbit(const BlockTiling& t, const BlockExtents& block, double* storage) : tiling_(t) {
        std::array<std::int64_t, 3> abc{block[5], block[4], block[3]};
        std::ranges::sort(abc);
        do {
            members_.push_back({{block[0], block[1], block[2], abc[2], abc[1], abc[0]}, BlockPair(t, storage)});
            storage += 2 * t.block_size;
        } while (std::ranges::next_permutation(abc).found);
    }
    void compute(const FusedEngine& terms, const FusedEngine& singles) {
        for (Member& m : members_) m.pair.compute(tiling_, m.block, terms, singles);
    }
    double energy(const Denominators& d, cpu::ClosedShellRow row) const {
        const BlockTiling& t = tiling_;
        alignas(64) double acc[8] = {};
        auto offset = [&](int n, std::int64_t x) { return t.offsets[n][static_cast<std::size_t>(x)]; };
        for (const Member& m : members_) {
            const std::int64_t A = m.block[5], B = m.block[4], C = m.block[3];
            const BlockPair &bca = at(B, C, A), &cab = at(C, A, B);
            const BlockPair &cba = at(C, B, A), &acb = at(A, C, B), &bac = at(B, A, C);
            const Clip clip(t, m.block);
            cpu::for_each_row(t, clip, {}, [&](int here, std::int64_t, const BlockExtents& x) {
                const std::int64_t a = x[5], b = x[4], c = x[3];
                const int occupied = offset(0, x[0]) + offset(1, x[1]) + offset(2, x[2]);
                auto there = [&](std::int64_t p, std::int64_t q, std::int64_t r) {
                    return occupied + offset(5, p) + offset(4, q) + offset(3, r);
                };
                const double* w[6] = {m.pair.w + here,        bca.w + there(b, c, a), cab.w + there(c, a, b),
                                      cba.w + there(c, b, a), acb.w + there(a, c, b), bac.w + there(b, a, c)};
                row(w, m.pair.v + here, d.base(clip, x), d.lanes(clip, x), acc);
            });
        }
        return sum_lanes(acc, t.lanes);
    }

  private:
    struct Member {
        BlockExtents block;
        BlockPair pair;
    };
    const BlockPair& at(std::int64_t a, std::int64_t b, std::int64_t c) const {
        for (const Member& m : members_)
            if (m.block[5] == a && m.block[4] == b && m.block[3] == c) return m.pair;
        return members_.front().pair;  // not reached: members are closed under permutation
    }
    const BlockTiling& tiling_;
    std::vector<Member> members_;
};

/// The blocks that stand for their orbits: a <= b <= c.
std::vector<std::int64_t> representatives(const BlockTiling& t) {
    std::vector<std::int64_t> list;
    for (std::int64_t number = 0; number < t.block_count; ++number) {
        const BlockExtents at = t.block_at(number);
        if (at[5] <= at[4] && at[4] <= at[3]) list.push_back(number);
    }
    return list;
}

}  // namespace

double fused_energy(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue,
                    const FusedOptions& options) {
    check_energy(extents, terms, epilogue);
    check_denominators(extents, epilogue.orbital_energies);
    const bool closed = epilogue.weights == TripleWeights::closed_shell;
    const int threads = resolve_threads(options.threads);
    const cpu::KernelChoice choice = cpu::kernel_for(options.isa);
    const BlockTiling t = cpu::reduction_tiling(extents, choice.lanes, closed);
    FusedWorkspace fresh;
    FusedWorkspace::Impl& workspace = (options.workspace != nullptr ? *options.workspace : fresh).impl();
    const FusedEngine engine(t, terms, choice.kernel, threads, workspace.packed_of(0));
    const FusedEngine singles(t, epilogue.singles, choice.kernel, threads, workspace.packed_of(1));
    const Denominators denominators(t, epilogue);

    std::vector<std::int64_t> work;
    if (closed) work = representatives(t);
    const std::int64_t count = closed ? static_cast<std::int64_t>(work.size()) : t.block_count;
    const std::int64_t pairs = closed ? 6 : 1;
    const double energy =
        cpu::sum_parts(count, threads, workspace, 2 * pairs * t.block_size, [&](std::int64_t number, double* storage) {
            if (closed) {
                Orbit orbit(t, t.block_at(work[static_cast<std::size_t>(number)]), storage);
                orbit.compute(engine, singles);
                return orbit.energy(denominators, choice.closed_shell_row);
            }
            const BlockExtents block = t.block_at(number);
            BlockPair pair(t, storage);
            pair.compute(t, block, engine, singles);
            return spin_orbital_part(denominators, block, pair, choice.energy_row);
        });
    return epilogue.scale * energy;
}

}  // namespace tessera::kernels
