#include "chem/given_source.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "storage/buffer.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kVirtualsInTile = 16;                 // as in transform.cpp: tiles of pairs of these
constexpr std::int64_t kRowBytes = std::int64_t{256} << 20;  // of integrals (ac|bd) for a run of a

std::int64_t pair_of(std::int64_t i, std::int64_t j) { return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i; }

/// Calls use(place in the tile, element of the view, elements, stride) for each run of the last index of a tile.
template <class T, class Use>
void for_each_run(const TileInfo& info, const ArrayView<T>& x, Use&& use) {
    const int last = info.extents.size() - 1;
    const auto run = info.extents[last], size = info.extents.product();
    for (std::int64_t n = 0; n < size; n += run) {
        T* at = x.data + info.begin[last] * x.strides[last];
        auto rest = n / run;
        for (int d = last - 1; d >= 0; --d) {
            at += (info.begin[d] + rest % info.extents[d]) * x.strides[d];
            rest /= info.extents[d];
        }
        use(n, at, run, x.strides[last]);
    }
}

/// (ac|bd) by pairs b, d: of all pairs a, c as they lie, or of a run of a and all c in a buffer.
class PairRows {
  public:
    PairRows(const OrbitalIntegrals& from, std::int64_t n, std::int64_t most) : read_(from.vvvv), n_(n) {
        const auto pairs = n * (n + 1) / 2;
        if (from.vvvv_pairs.data) {
            data_ = from.vvvv_pairs.data;
            step_ = from.vvvv_pairs.strides[0];
            all_ = true;
        } else {
            values_ = Buffer(8 * most * n * pairs);
            data_ = reinterpret_cast<const double*>(values_.data());
            step_ = pairs;
        }
    }
    /// From here on a is one of these.
    void read(std::int64_t first, std::int64_t count) {
        if (all_) return;
        first_ = first;
        read_(first, count, {reinterpret_cast<double*>(values_.data()), static_cast<std::size_t>(count * n_ * step_)});
    }
    bool all() const { return all_; }
    const double* row(std::int64_t a, std::int64_t c) const {
        return data_ + (all_ ? pair_of(a, c) : (a - first_) * n_ + c) * step_;
    }

  private:
    const OrbitalIntegrals::Rows& read_;
    std::int64_t n_, step_ = 0, first_ = 0;
    bool all_ = false;
    Buffer values_;
    const double* data_ = nullptr;
};

/// (ac|bd) + sign (ad|bc) as [c d][a b], c >= d, for the tiles of a, b from `first`, up to `last` (excluded).
RealTensor combined(const PairRows& rows, const PairIndex& cd, const PairIndex& ab, std::int64_t first,
                    std::int64_t last, double sign, int threads) {
    return RealTensor::generate(
        Shape::dense(TileGrid{cd.pairs(), part_of(ab.pairs(), first, last)}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto q = info.coordinates[0], p = first + info.coordinates[1], columns = info.extents[1];
            const auto with = [&](const PairIndex& left, std::int64_t l, const PairIndex& right, std::int64_t r,
                                  auto&& place) {
                const auto a0 = left.begin(left.tile_i(l)), b0 = left.begin(left.tile_j(l));
                const auto c0 = right.begin(right.tile_i(r)), d0 = right.begin(right.tile_j(r));
                left.for_each(l, [&](std::int64_t a, std::int64_t b, std::int64_t at) {
                    right.for_each(r, [&](std::int64_t c, std::int64_t d, std::int64_t to) {
                        out[static_cast<std::size_t>(place(at, to))] =
                            rows.row(a0 + a, c0 + c)[pair_of(b0 + b, d0 + d)] +
                            sign * rows.row(a0 + a, d0 + d)[pair_of(b0 + b, c0 + c)];
                    });
                });
            };
            // The same with a, b and c, d exchanged: where all rows are there, those that let the tile be written as it
            // lies.
            if (rows.all())
                with(cd, q, ab, p, [&](std::int64_t at, std::int64_t to) { return at * columns + to; });
            else
                with(ab, p, cd, q, [&](std::int64_t at, std::int64_t to) { return to * columns + at; });
        },
        threads);
}

/// Read anew each time, for a run of a after the other.
class Read final : public AbcdTerm {
  public:
    Read(const OrbitalIntegrals& from, const Tiling& occupied, const Tiling& virtuals, int threads)
        : from_(from), occupied_(occupied) {
        if (from.functions.data) {
            const Tiling all = even_tiling(from.functions.extents[0], virtuals.largest_tile());
            functions_ = to_tensor(from.functions, TileGrid{all, virtuals}, threads);
        }
    }

    RealTensor apply(const RealTensor& tau, const RealTensor&, TensorWork& w) override {
        if (functions_.rank() == 0) return ladder(tau, w);
        const RealTensor x = w.product("ijcn,mc->ijmn", w.product("ijcd,nd->ijcn", tau, functions_), functions_);
        return w.product("ijan,nb->ijab", w.product("ijmn,ma->ijan", ladder(x, w), functions_), functions_);
    }
    bool dressed() const override { return false; }

  private:
    RealTensor ladder(const RealTensor& tau, TensorWork& w) {
        const Tiling& v = tau.grid().tiling(2);
        const auto n = v.extent();
        const auto fits = kRowBytes / (8 * n * (n * (n + 1) / 2));
        const PairIndex cd(even_tiling(n, kVirtualsInTile));
        const PairIndex ab(even_tiling(n, std::clamp<std::int64_t>(fits, 4, kVirtualsInTile)));
        const EvenOdd parts(occupied_, v);
        RealTensor even, odd;
        {
            const DenseArray dense(tau);
            even = parts.part(dense, cd, 1, w.threads());
            odd = parts.part(dense, cd, -1, w.threads());
        }
        const auto height = even.grid().tiling(0).extent(), width = ab.pairs().extent();
        std::vector<double> of_even(static_cast<std::size_t>(height * width)), of_odd(of_even.size());
        PairRows rows(from_, n, ab.single().largest_tile());
        for (std::int64_t ta = 0; ta < ab.single().tile_count(); ++ta) {
            rows.read(ab.begin(ta), ab.size(ta));
            const auto first = ab.tile_of(ta, 0), at = ab.pairs().begin(TileIndex{first}).value;
            const auto put = [&](const RealTensor& part, double sign, std::vector<double>& to) {
                const RealTensor x =
                    w.product("pq,qr->pr", part, combined(rows, cd, ab, first, first + ta + 1, sign, w.threads()));
                x.for_each_tile([&](const TileInfo& info, std::span<const double> from) {
                    for (std::int64_t p = 0; p < info.extents[0]; ++p)
                        std::copy_n(from.data() + p * info.extents[1], info.extents[1],
                                    to.data() + (info.begin[0] + p) * width + at + info.begin[1]);
                });
            };
            put(even, 1, of_even);
            put(odd, -1, of_odd);
        }
        return parts.join(of_even.data(), of_odd.data(), ab, w.threads());
    }

    OrbitalIntegrals from_;
    Tiling occupied_;
    RealTensor functions_;
};

/// Read once.
class Kept final : public AbcdTerm {
  public:
    Kept(const OrbitalIntegrals& from, const Tiling& occupied, const Tiling& virtuals, int threads) {
        const auto n = virtuals.extent(), o = occupied.extent();
        vvvv_.pairs = PairIndex(even_tiling(n, kVirtualsInTile));
        const auto pairs = n * (n + 1) / 2;
        OrbitalIntegrals whole = from;
        std::vector<double> values;
        if (!whole.vvvv_pairs.data) {
            values.resize(static_cast<std::size_t>(pairs * pairs));
            const auto most = std::min(n, kVirtualsInTile);
            std::vector<double> run(static_cast<std::size_t>(most * n * pairs));
            for (std::int64_t first = 0; first < n; first += most) {
                const auto count = std::min(most, n - first);
                from.vvvv(first, count, std::span(run).first(static_cast<std::size_t>(count * n * pairs)));
                for (auto a = first; a < first + count; ++a)
                    std::copy_n(run.data() + (a - first) * n * pairs, (a + 1) * pairs,
                                values.data() + pair_of(a, 0) * pairs);
            }
            whole.vvvv_pairs = {values.data(), {pairs, pairs}};
        }
        const PairRows rows(whole, n, 0);
        const auto& all = vvvv_.pairs;
        vvvv_.plus = combined(rows, all, all, 0, all.pairs().tile_count(), 1, threads);
        vvvv_.minus = combined(rows, all, all, 0, all.pairs().tile_count(), -1, threads);
        // These orbitals stay as they are.
        term_ = stored_abcd(vvvv_, LocalPairs(to_tensor(Matrix::Identity(o, o), occupied, occupied)), virtuals);
    }
    RealTensor apply(const RealTensor& tau, const RealTensor& t1, TensorWork& work) override {
        return term_->apply(tau, t1, work);
    }
    bool dressed() const override { return false; }

  private:
    FourVirtuals vvvv_;
    std::unique_ptr<AbcdTerm> term_;
};

}  // namespace

RealTensor to_tensor(const ArrayView<const double>& x, const TileGrid& grid, int threads) {
    return RealTensor::generate(
        Shape::dense(grid),
        [&](const TileInfo& info, std::span<double> out) {
            for_each_run(info, x, [&](std::int64_t n, const double* from, std::int64_t run, std::int64_t step) {
                for (std::int64_t k = 0; k < run; ++k) out[n + k] = from[k * step];
            });
        },
        threads);
}

void to_view(const RealTensor& x, const ArrayView<double>& out, int threads) {
    x.for_each_tile(
        [&](const TileInfo& info, std::span<const double> tile) {
            for_each_run(info, out, [&](std::int64_t n, double* to, std::int64_t run, std::int64_t step) {
                for (std::int64_t k = 0; k < run; ++k) to[k * step] = tile[n + k];
            });
        },
        threads);
}

MoIntegrals read_integrals(const OrbitalIntegrals& from, const Tiling& occupied, const Tiling& virtuals, int threads) {
    const auto o = occupied.extent(), v = virtuals.extent(), pairs = v * (v + 1) / 2;
    const auto swapped = [](ArrayView<const double> x) {
        std::swap(x.extents[1], x.extents[2]);
        std::swap(x.strides[1], x.strides[2]);
        return x;
    };
    MoIntegrals out;
    out.oooo = to_tensor(from.oooo, TileGrid{occupied, occupied, occupied, occupied}, threads);
    out.ooov = to_tensor(from.ooov, TileGrid{occupied, occupied, occupied, virtuals}, threads);
    out.o_o_vv = to_tensor(from.oovv, TileGrid{occupied, occupied, virtuals, virtuals}, threads);
    out.oovv = to_tensor(swapped(from.ovov), TileGrid{occupied, occupied, virtuals, virtuals}, threads);
    // A few i at a time: they come packed.
    out.ovvv = RealTensor(Shape::dense(TileGrid{occupied, virtuals, virtuals, virtuals}));
    const auto run = std::clamp<std::int64_t>(kRowBytes / (8 * v * pairs), 1, o);
    std::vector<double> packed(static_cast<std::size_t>(run * v * pairs));
    for (std::int64_t first = 0; first < o; first += run) {
        const auto count = std::min(run, o - first);
        from.ovvv(first, count, std::span(packed).first(static_cast<std::size_t>(count * v * pairs)));
        out.ovvv.update_tiles(
            [&](const TileInfo& info, std::span<double> tile) {
                const auto begin = std::max(first, info.begin[0]);
                const auto end = std::min(first + count, info.begin[0] + info.extents[0]);
                const auto size = info.extents[1] * info.extents[2] * info.extents[3];
                for (auto i = begin; i < end; ++i) {
                    double* to = tile.data() + (i - info.begin[0]) * size;
                    for (std::int64_t a = 0; a < info.extents[1]; ++a) {
                        const double* row = packed.data() + ((i - first) * v + info.begin[1] + a) * pairs;
                        for (auto b = info.begin[2]; b < info.begin[2] + info.extents[2]; ++b)
                            for (auto c = info.begin[3]; c < info.begin[3] + info.extents[3]; ++c)
                                *to++ = row[pair_of(b, c)];
                    }
                }
            },
            threads);
    }
    return out;
}

std::unique_ptr<AbcdTerm> given_abcd(const OrbitalIntegrals& from, const Tiling& occupied, const Tiling& virtuals,
                                     TensorWork& work) {
    require(from.vvvv != nullptr || from.vvvv_pairs.data, "CCSD needs the integrals over four virtual orbitals");
    if (from.keep_vvvv && !from.functions.data) return std::make_unique<Kept>(from, occupied, virtuals, work.threads());
    return std::make_unique<Read>(from, occupied, virtuals, work.threads());
}

DressedFock GivenSource::dress(const RealTensor& t1, TensorWork& w) {
    DressedFock f = stored_.dress(t1, w);
    axpy(1.0, rest_.ov, f.kc);
    axpy(1.0, rest_.oo, f.kj);
    axpy(1.0, rest_.vv, f.bc);
    axpy(1.0, rest_.ov, f.ia);
    return f;
}

}  // namespace tessera::chem
