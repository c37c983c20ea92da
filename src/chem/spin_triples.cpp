#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <string>

#include "base/parallel.hpp"
#include "chem/triples_rows.hpp"
#include "chem/uccsd.hpp"
#include "storage/buffer.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/kernels/triples.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kOccupiedTile = 6, kVirtualTile = 16;  // of bricks: large ones do more than they have to

/// A range of orbitals of one spin.
struct Range {
    int spin = 0;
    std::int64_t begin = 0, extent = 0;
};

/// A tensor of two or four indices as arrays, one for the spins of its indices. Antisymmetric pairs of indices that are
/// named hold alpha before beta.
class SpinArrays {
  public:
    SpinArrays(const RealTensor& x, std::string spaces, bool first_pair, bool second_pair, const SpinOrbitals& orbitals,
               int threads)
        : spaces_(std::move(spaces)), first_(first_pair), second_(second_pair), orbitals_(orbitals) {
        const RealTensor whole = x.shape().symmetry().none() ? x : desymmetrise(x);
        for (const auto t : whole.shape().ordinals()) {
            Key key = spins_of(whole.grid().coordinates(TileOrdinal{t}));
            if (arrays_.contains(key) || turned(key)) continue;
            Buffer& array = arrays_.try_emplace(key, 8 * elements(key)).first->second;
            std::fill_n(array.data(), array.bytes(), std::byte{0});
        }
        parallel_for(whole.tile_count(), threads, 1, [&](std::int64_t n) {
            const auto info = tile_info(whole.grid(), whole.shape().tile(n));
            const Key key = spins_of(info.coordinates);
            const auto found = arrays_.find(key);
            if (found == arrays_.end()) return;
            auto* to = reinterpret_cast<double*>(found->second.data());
            const auto from = whole.tile(n);
            const auto strides = strides_of(key);
            const std::size_t last = spaces_.size() - 1;
            const auto run = info.extents[static_cast<int>(last)];
            const auto begin = [&](std::size_t d) {
                return info.begin[static_cast<int>(d)] - (key[d] == 1 ? orbitals_.count(spaces_[d], 0) : 0);
            };
            for (std::int64_t at = 0; at < static_cast<std::int64_t>(from.size()); at += run) {
                auto rest = at / run, place = begin(last);
                for (std::size_t d = last; d-- > 0;) {
                    const auto extent = info.extents[static_cast<int>(d)];
                    place += (begin(d) + rest % extent) * strides[d];
                    rest /= extent;
                }
                std::copy_n(from.data() + at, run, to + place);
            }
        });
    }

    /// The element at the beginning of these ranges and the strides from there; the sign of an exchange. Null where
    /// spin is not conserved.
    struct View {
        const double* data = nullptr;
        std::array<std::int64_t, 4> stride{};
        double sign = 1;
    };
    View view(std::span<const Range> ranges) const {
        Key key{};
        std::array<std::size_t, 4> order{0, 1, 2, 3};
        for (std::size_t d = 0; d < ranges.size(); ++d) key[d] = ranges[d].spin;
        View out;
        const auto exchange = [&](std::size_t d) {
            if (key[d] <= key[d + 1]) return;
            std::swap(key[d], key[d + 1]);
            std::swap(order[d], order[d + 1]);
            out.sign = -out.sign;
        };
        if (first_) exchange(0);
        if (second_) exchange(2);
        const auto found = arrays_.find(key);
        if (found == arrays_.end()) return out;
        out.data = reinterpret_cast<const double*>(found->second.data());
        const auto strides = strides_of(key);
        for (std::size_t d = 0; d < ranges.size(); ++d) {
            out.stride[order[d]] = strides[d];
            out.data += ranges[order[d]].begin * strides[d];
        }
        return out;
    }

  private:
    using Key = std::array<int, 4>;
    Key spins_of(const IndexVector& tiles) const {
        Key key{};
        for (std::size_t d = 0; d < spaces_.size(); ++d)
            key[d] = orbitals_.spin(spaces_[d], tiles[static_cast<int>(d)]);
        return key;
    }
    /// Whether a pair has beta before alpha.
    bool turned(const Key& key) const { return (first_ && key[0] > key[1]) || (second_ && key[2] > key[3]); }
    std::int64_t elements(const Key& key) const { return strides_of(key)[0] * orbitals_.count(spaces_[0], key[0]); }
    std::array<std::int64_t, 4> strides_of(const Key& key) const {
        std::array<std::int64_t, 4> out{};
        std::int64_t step = 1;
        for (std::size_t d = spaces_.size(); d-- > 0;) {
            out[d] = step;
            step *= orbitals_.count(spaces_[d], key[d]);
        }
        return out;
    }
    std::string spaces_;
    bool first_, second_;
    const SpinOrbitals& orbitals_;
    std::map<Key, Buffer> arrays_;
};

/// i >= j >= k, a >= b >= c, as the kernel orders them: k, j, i, c, b, a.
struct Brick {
    std::array<Range, 6> ranges;
    double orders = 0;  // of both triples
};

std::vector<Range> tiles_of(const SpinOrbitals& orbitals, char space, std::int64_t tile) {
    std::vector<Range> out;
    for (const int spin : {0, 1})
        if (const auto n = orbitals.count(space, spin); n > 0) {
            std::int64_t begin = 0;
            for (const auto size : even_tiling(n, tile).sizes()) {
                out.push_back({spin, begin, size});
                begin += size;
            }
        }
    return out;
}

std::vector<Brick> bricks_of(const SpinOrbitals& orbitals) {
    const auto o = tiles_of(orbitals, 'o', kOccupiedTile), v = tiles_of(orbitals, 'v', kVirtualTile);
    struct Triple {
        std::array<Range, 3> ranges;
        int betas;
        double orders;
    };
    const auto triples = [](const std::vector<Range>& tiles) {
        std::vector<Triple> out;
        for (std::size_t z = 0; z < tiles.size(); ++z)
            for (std::size_t y = 0; y <= z; ++y)
                for (std::size_t x = 0; x <= y; ++x)
                    out.push_back({{tiles[x], tiles[y], tiles[z]},
                                   tiles[x].spin + tiles[y].spin + tiles[z].spin,
                                   x == z             ? 1.0
                                   : x == y || y == z ? 3.0
                                                      : 6.0});
        return out;
    };
    std::vector<Brick> out;
    for (const auto& abc : triples(v))
        for (const auto& ijk : triples(o))
            if (abc.betas == ijk.betas)
                out.push_back(
                    {{ijk.ranges[0], ijk.ranges[1], ijk.ranges[2], abc.ranges[0], abc.ranges[1], abc.ranges[2]},
                     abc.orders * ijk.orders});
    return out;
}

constexpr std::string_view kLetters = "kjicba";

/// What the eighteen terms of a brick, and its disconnected ones, are made of.
class Terms {
  public:
    Terms(const AntisymmetricIntegrals& v, const SpinOrbitals& orbitals, const Amplitudes& t, int threads)
        : orbitals_(orbitals),
          t1_(t.t1, "ov", false, false, orbitals, threads),
          fock_(orbitals.fock_ov, "ov", false, false, orbitals, threads),
          t2_(t.t2, "oovv", true, true, orbitals, threads),
          oovv_(v.oovv, "oovv", true, true, orbitals, threads),
          ooov_(v.ooov, "ooov", true, false, orbitals, threads),
          ovvv_(v.ovvv, "ovvv", false, true, orbitals, threads),
          has_fock_(norm(orbitals.fock_ov) > 0) {}

    void of(const Brick& brick, std::vector<kernels::FusedTerm>& terms,
            std::vector<kernels::FusedTerm>& singles) const {
        terms.clear();
        singles.clear();
        // The published letters, fastest first, are those of t(il,ab), <jk||lc>, t(ij,ad), <kd||bc>.
        for (const auto& p : kernels::kOccupiedPatterns)
            add(brick, p, t2_, {3, 0, 1, 2}, ooov_, {1, 0, 3, 2}, 'l', terms);
        for (const auto& p : kernels::kVirtualPatterns)
            add(brick, p, t2_, {2, 3, 1, 0}, ovvv_, {1, 0, 3, 2}, 'd', terms);
        for (const auto& p : kernels::kSinglesPatterns) {
            add(brick, p, t1_, {1, 0}, oovv_, {1, 0, 3, 2}, 0, singles);
            if (has_fock_) add(brick, p, fock_, {1, 0}, t2_, {1, 0, 3, 2}, 0, singles);
        }
    }

  private:
    void add(const Brick& brick, const kernels::TermPattern& pattern, const SpinArrays& left,
             const std::vector<std::size_t>& left_order, const SpinArrays& right,
             const std::vector<std::size_t>& right_order, char summed, std::vector<kernels::FusedTerm>& terms) const {
        for (const int spin : {0, 1}) {
            if (summed == 0 && spin == 1) break;
            const Range over{spin, 0, summed == 0 ? 1 : orbitals_.count(summed == 'l' ? 'o' : 'v', spin)};
            if (over.extent == 0) continue;
            kernels::FusedTerm term;
            term.factor = pattern.factor;
            term.sum_extent = over.extent;
            const auto put = [&](const SpinArrays& x, std::string_view letters, const std::vector<std::size_t>& order,
                                 kernels::TermOperand& operand, bool first) {
                std::array<Range, 4> ranges;
                for (std::size_t d = 0; d < order.size(); ++d) {
                    const char c = letters[order[d]];
                    ranges[d] = c == summed ? over : brick.ranges[kLetters.find(c)];
                }
                const auto view = x.view(std::span(ranges).first(order.size()));
                operand.data = view.data;
                term.factor *= view.sign;
                for (std::size_t d = 0; d < order.size(); ++d) {
                    const char c = letters[order[d]];
                    if (c == summed) {
                        operand.sum_stride = view.stride[d];
                    } else {
                        operand.stride[kLetters.find(c)] = view.stride[d];
                        if (first) term.a_indices |= 1U << kLetters.find(c);
                    }
                }
                return view.data != nullptr;
            };
            if (put(left, pattern.t2, left_order, term.a, true) && put(right, pattern.v2, right_order, term.b, false))
                terms.push_back(term);
        }
    }
    const SpinOrbitals& orbitals_;
    SpinArrays t1_, fock_, t2_, oovv_, ooov_, ovvv_;
    bool has_fock_;
};

}  // namespace

TriplesResult spin_triples(const AntisymmetricIntegrals& integrals, const SpinOrbitals& orbitals, const Amplitudes& t,
                           const TensorWorkers& workers, const TriplesProgress& progress) {
    TriplesResult out;
    const int threads = resolve_threads(workers.here.threads);
    const Terms terms(integrals, orbitals, t, threads);
    const auto bricks = bricks_of(orbitals);
    Communicator& ranks = workers.here.communicator ? *workers.here.communicator : self_communicator();
    const auto mine = [&](std::int64_t n) { return n % ranks.size() == ranks.rank(); };
    std::vector<double> energies(bricks.size(), 0.0), flops(bricks.size(), 0.0);
    const double* levels[] = {orbitals.energies.occupied_energies.data(), orbitals.energies.virtual_energies.data()};
    // A brick is for one thread: many of them are small.
    const auto count = static_cast<std::int64_t>(bricks.size());
    std::vector<kernels::FusedWorkspace> workspaces(static_cast<std::size_t>(threads));
    const std::int64_t turn = std::max<std::int64_t>(1, count / 20);
    for (std::int64_t first = 0; first < count; first += turn) {
        const auto here = std::min(turn, count - first);
        std::atomic<std::int64_t> next{0};
        parallel_region(threads, [&](int thread, int) {
            kernels::FusedOptions options;
            options.threads = 1;
            options.workspace = &workspaces[static_cast<std::size_t>(thread)];
            std::vector<kernels::FusedTerm> sums, singles;
            for (std::int64_t n; (n = first + next++) < first + here;) {
                if (!mine(n)) continue;
                const Brick& brick = bricks[static_cast<std::size_t>(n)];
                terms.of(brick, sums, singles);
                if (sums.empty()) continue;
                kernels::BlockExtents extents{};
                kernels::EnergyEpilogue epilogue;
                for (std::size_t d = 0; d < 6; ++d) {
                    const Range& r = brick.ranges[d];
                    const char space = d < 3 ? 'o' : 'v';
                    extents[d] = r.extent;
                    epilogue.orbital_energies[d] =
                        levels[d < 3 ? 0 : 1] + r.begin + (r.spin == 1 ? orbitals.count(space, 0) : 0);
                }
                epilogue.singles = singles;
                epilogue.scale = brick.orders / 36;
                energies[static_cast<std::size_t>(n)] = kernels::fused_energy(extents, sums, epilogue, options);
                flops[static_cast<std::size_t>(n)] = kernels::fused_flops(extents, sums);
            }
        });
        if (progress) progress(static_cast<double>(first + here), static_cast<double>(count));
    }
    if (ranks.size() > 1) {
        ranks.sum(std::span<double>(energies));
        ranks.sum(std::span<double>(flops));
    }
    out.energy = tree_sum(energies);
    out.flops = tree_sum(flops);
    return out;
}

}  // namespace tessera::chem
