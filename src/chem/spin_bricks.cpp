#include "chem/spin_bricks.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "base/parallel.hpp"
#include "storage/buffer.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera::chem {

namespace {

constexpr std::string_view kLetters = "kjicba";

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
    View view(std::span<const SpinRange> ranges) const {
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

    void add_to(std::vector<std::span<const double>>& list) const {
        for (const auto& [key, array] : arrays_)
            list.emplace_back(reinterpret_cast<const double*>(array.data()), array.bytes() / 8);
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

/// n ranges of one spin in ascending order, and what they count for.
struct Chosen {
    std::vector<SpinRange> ranges;
    double permutations = 1;  // of equal ranges
    double unique = 1;
};

std::vector<Chosen> choices(const std::vector<SpinRange>& tiles, int n) {
    std::vector<Chosen> out{{}};
    for (int d = 0; d < n; ++d) {
        std::vector<Chosen> longer;
        for (const Chosen& x : out)
            for (const SpinRange& r : tiles) {
                if (!x.ranges.empty() && r.begin < x.ranges.back().begin) continue;
                Chosen y = x;
                const auto equal = std::count_if(x.ranges.begin(), x.ranges.end(),
                                                 [&](const SpinRange& other) { return other.begin == r.begin; });
                y.ranges.push_back(r);
                y.permutations *= static_cast<double>(equal + 1);
                y.unique *=
                    static_cast<double>(std::max<std::int64_t>(0, r.extent - equal)) / static_cast<double>(equal + 1);
                longer.push_back(std::move(y));
            }
        out = std::move(longer);
    }
    return out;
}

/// Three of a space, `betas` of them of beta.
std::vector<Chosen> triples(const SpinOrbitals& orbitals, char space, int betas, const BrickSizes& sizes) {
    const auto of_spin = [&](int spin, int n) {
        std::vector<SpinRange> tiles;
        const auto count = orbitals.count(space, spin);
        if (n == 0 || count == 0) return choices(tiles, n);
        const auto size = (space == 'o' ? sizes.occupied : sizes.virtuals)[static_cast<std::size_t>(n - 1)];
        for (std::int64_t begin = 0; begin < count;) {
            const auto left = (count - begin + size - 1) / size;
            const auto extent =
                sizes.even && space == 'o' ? (count - begin + left - 1) / left : std::min(size, count - begin);
            tiles.push_back({spin, begin, extent});
            begin += extent;
        }
        return choices(tiles, n);
    };
    std::vector<Chosen> out;
    for (const Chosen& beta : of_spin(1, betas))
        for (const Chosen& alpha : of_spin(0, 3 - betas)) {
            Chosen x = alpha;
            x.ranges.insert(x.ranges.end(), beta.ranges.begin(), beta.ranges.end());
            x.permutations *= beta.permutations;
            x.unique *= beta.unique;
            out.push_back(std::move(x));
        }
    return out;
}

}  // namespace

kernels::BlockExtents SpinBrick::extents() const {
    kernels::BlockExtents out{};
    for (std::size_t d = 0; d < 6; ++d) out[d] = ranges[d].extent;
    return out;
}

std::vector<SpinBrick> spin_bricks(const SpinOrbitals& orbitals, const BrickSizes& sizes) {
    std::vector<SpinBrick> out;
    for (int betas = 0; betas <= 3; ++betas) {
        const auto occupied = triples(orbitals, 'o', betas, sizes);
        for (const Chosen& abc : triples(orbitals, 'v', betas, sizes))
            for (const Chosen& ijk : occupied) {
                if (abc.unique * ijk.unique == 0) continue;
                SpinBrick brick;
                std::copy_n(ijk.ranges.begin(), 3, brick.ranges.begin());
                std::copy_n(abc.ranges.begin(), 3, brick.ranges.begin() + 3);
                brick.orders = 36 / (ijk.permutations * abc.permutations);
                brick.unique = ijk.unique * abc.unique;
                out.push_back(brick);
            }
    }
    return out;
}

struct SpinTerms::Impl {
    Impl(const AntisymmetricIntegrals& v, const SpinOrbitals& orbitals, const Amplitudes& t, int threads)
        : orbitals_(orbitals),
          t1_(t.t1, "ov", false, false, orbitals, threads),
          fock_(orbitals.fock_ov, "ov", false, false, orbitals, threads),
          t2_(t.t2, "oovv", true, true, orbitals, threads),
          oovv_(v.oovv, "oovv", true, true, orbitals, threads),
          ooov_(v.ooov, "ooov", true, false, orbitals, threads),
          ovvv_(v.ovvv, "ovvv", false, true, orbitals, threads),
          has_fock_(norm(orbitals.fock_ov) > 0) {}

    void of(const SpinBrick& brick, std::vector<kernels::FusedTerm>& terms,
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

    void add(const SpinBrick& brick, const kernels::TermPattern& pattern, const SpinArrays& left,
             const std::vector<std::size_t>& left_order, const SpinArrays& right,
             const std::vector<std::size_t>& right_order, char summed, std::vector<kernels::FusedTerm>& terms) const {
        for (const int spin : {0, 1}) {
            if (summed == 0 && spin == 1) break;
            const SpinRange over{spin, 0, summed == 0 ? 1 : orbitals_.count(summed == 'l' ? 'o' : 'v', spin)};
            if (over.extent == 0) continue;
            kernels::FusedTerm term;
            term.factor = pattern.factor;
            term.sum_extent = over.extent;
            const auto put = [&](const SpinArrays& x, std::string_view letters, const std::vector<std::size_t>& order,
                                 kernels::TermOperand& operand, bool first) {
                std::array<SpinRange, 4> ranges;
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

SpinTerms::SpinTerms(const AntisymmetricIntegrals& v, const SpinOrbitals& orbitals, const Amplitudes& t, int threads)
    : impl_(std::make_unique<Impl>(v, orbitals, t, threads)) {}
SpinTerms::~SpinTerms() = default;

void SpinTerms::of(const SpinBrick& brick, std::vector<kernels::FusedTerm>& terms,
                   std::vector<kernels::FusedTerm>& singles) const {
    impl_->of(brick, terms, singles);
}

kernels::EnergyEpilogue SpinTerms::epilogue(const SpinBrick& brick, std::span<const kernels::FusedTerm> singles) const {
    const SpinOrbitals& orbitals = impl_->orbitals_;
    kernels::EnergyEpilogue out;
    for (std::size_t d = 0; d < 6; ++d) {
        const SpinRange& r = brick.ranges[d];
        const auto& levels = d < 3 ? orbitals.energies.occupied_energies : orbitals.energies.virtual_energies;
        out.orbital_energies[d] = levels.data() + r.begin + (r.spin == 1 ? orbitals.count(d < 3 ? 'o' : 'v', 0) : 0);
    }
    out.singles = singles;
    out.scale = brick.orders / 36;
    return out;
}

std::vector<std::span<const double>> SpinTerms::arrays() const {
    std::vector<std::span<const double>> out{impl_->orbitals_.energies.occupied_energies,
                                             impl_->orbitals_.energies.virtual_energies};
    for (const auto* x : {&impl_->t1_, &impl_->fock_, &impl_->t2_, &impl_->oovv_, &impl_->ooov_, &impl_->ovvv_})
        x->add_to(out);
    return out;
}

double counted_flops(const SpinBrick& brick, std::span<const kernels::FusedTerm> terms) {
    double sums = 0;
    for (const auto& t : terms) sums += static_cast<double>(t.sum_extent);
    return 2 * brick.unique * sums;
}

}  // namespace tessera::chem
