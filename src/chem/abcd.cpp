#include "chem/abcd.hpp"

#include "chem/dense_array.hpp"

namespace tessera::chem {

namespace {

/// tau and the integrals are parted into what is even and what is odd under the exchange of c and d: each part needs
/// the pairs c >= d, a >= b only, half of the products in all.
class Stored final : public AbcdTerm {
  public:
    Stored(const FourVirtuals& vvvv, LocalPairs local, const Tiling& virtuals)
        : vvvv_(vvvv),
          local_(std::move(local)),
          grid_{local_.tiling(), local_.tiling(), virtuals, virtuals},
          pairs_(local_.tiling()) {}

    RealTensor apply(const RealTensor& tau, const RealTensor&, TensorWork& work) override {
        RealTensor even, odd;
        {
            const DenseArray dense(local_.to_local(tau, work));
            even = work.product("pq,qr->pr", part(dense, 1, work.threads()), vvvv_.plus);
            odd = work.product("pq,qr->pr", part(dense, -1, work.threads()), vvvv_.minus);
        }
        return local_.to_canonical(join(DenseArray(even), DenseArray(odd), work.threads()), work);
    }
    bool dressed() const override { return false; }

  private:
    /// (tau(ij,cd) + sign tau(ij,dc)) / 2, and half of it again where c = d: such a pair stands for one term, not two.
    RealTensor part(const DenseArray& tau, double sign, int threads) const {
        const auto o = grid_.tiling(0).extent(), v = grid_.tiling(2).extent();
        const PairIndex& virtuals = vvvv_.pairs;
        return RealTensor::generate(
            Shape::dense(TileGrid{pairs_.pairs(), virtuals.pairs()}),
            [&](const TileInfo& info, std::span<double> out) {
                const auto p = info.coordinates[0], q = info.coordinates[1];
                const auto i0 = pairs_.begin(pairs_.tile_i(p)), j0 = pairs_.begin(pairs_.tile_j(p));
                const auto c0 = virtuals.begin(virtuals.tile_i(q)), d0 = virtuals.begin(virtuals.tile_j(q));
                pairs_.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t row) {
                    const double* from = tau.data() + ((i0 + i) * o + j0 + j) * v * v;
                    double* to = out.data() + row * info.extents[1];
                    virtuals.for_each(q, [&](std::int64_t c, std::int64_t d, std::int64_t place) {
                        const auto x = c0 + c, y = d0 + d;
                        const double value = 0.5 * (from[x * v + y] + sign * from[y * v + x]);
                        to[place] = x == y ? 0.5 * value : value;
                    });
                });
            },
            threads);
    }

    /// x(ij,ab) = even + odd, x(ij,ba) = even - odd, x(ji,ba) = x(ij,ab).
    RealTensor join(const DenseArray& even, const DenseArray& odd, int threads) const {
        const auto o = grid_.tiling(0).extent(), v = grid_.tiling(2).extent(), row = v * (v + 1) / 2;
        const auto at_pair = pairs_.positions(), at_virtuals = vvvv_.pairs.positions();
        return RealTensor::generate(
            Shape::dense(grid_),
            [&](const TileInfo& info, std::span<double> out) {
                double* to = out.data();
                for (auto i = info.begin[0]; i < info.begin[0] + info.extents[0]; ++i)
                    for (auto j = info.begin[1]; j < info.begin[1] + info.extents[1]; ++j) {
                        const double *e = even.data() + at_pair[i * o + j] * row,
                                     *d = odd.data() + at_pair[i * o + j] * row;
                        for (auto a = info.begin[2]; a < info.begin[2] + info.extents[2]; ++a)
                            for (auto b = info.begin[3]; b < info.begin[3] + info.extents[3]; ++b) {
                                const auto q = at_virtuals[a * v + b];
                                *to++ = (i >= j) == (a >= b) ? e[q] + d[q] : e[q] - d[q];
                            }
                    }
            },
            threads);
    }

    const FourVirtuals& vvvv_;
    LocalPairs local_;
    TileGrid grid_;
    PairIndex pairs_;
};

}  // namespace

std::unique_ptr<AbcdTerm> stored_abcd(const FourVirtuals& vvvv, LocalPairs local, const Tiling& virtuals) {
    return std::make_unique<Stored>(vvvv, std::move(local), virtuals);
}

}  // namespace tessera::chem
