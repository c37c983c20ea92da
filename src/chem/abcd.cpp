#include "chem/abcd.hpp"

#include <algorithm>

namespace tessera::chem {

EvenOdd::EvenOdd(const Tiling& occupied, const Tiling& virtuals)
    : grid_{occupied, occupied, virtuals, virtuals}, pairs_(occupied) {}

RealTensor EvenOdd::part(const DenseArray& tau, const PairIndex& cd, double sign, int threads) const {
    const auto o = grid_.tiling(0).extent(), v = grid_.tiling(2).extent();
    return RealTensor::generate(
        Shape::dense(TileGrid{pairs_.pairs(), cd.pairs()}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto p = info.coordinates[0], q = info.coordinates[1];
            const auto i0 = pairs_.begin(pairs_.tile_i(p)), j0 = pairs_.begin(pairs_.tile_j(p));
            const auto c0 = cd.begin(cd.tile_i(q)), d0 = cd.begin(cd.tile_j(q));
            pairs_.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t row) {
                const double* from = tau.data() + ((i0 + i) * o + j0 + j) * v * v;
                double* to = out.data() + row * info.extents[1];
                cd.for_each(q, [&](std::int64_t c, std::int64_t d, std::int64_t place) {
                    const auto x = c0 + c, y = d0 + d;
                    const double value = 0.5 * (from[x * v + y] + sign * from[y * v + x]);
                    to[place] = x == y ? 0.5 * value : value;
                });
            });
        },
        threads);
}

RealTensor EvenOdd::join(const double* even, const double* odd, const PairIndex& ab, int threads) const {
    const auto o = grid_.tiling(0).extent(), v = grid_.tiling(2).extent(), row = v * (v + 1) / 2;
    const auto at_pair = pairs_.positions(), at_virtuals = ab.positions();
    return RealTensor::generate(
        Shape::dense(grid_),
        [&](const TileInfo& info, std::span<double> out) {
            double* to = out.data();
            for (auto i = info.begin[0]; i < info.begin[0] + info.extents[0]; ++i)
                for (auto j = info.begin[1]; j < info.begin[1] + info.extents[1]; ++j) {
                    const double *e = even + at_pair[i * o + j] * row, *d = odd + at_pair[i * o + j] * row;
                    for (auto a = info.begin[2]; a < info.begin[2] + info.extents[2]; ++a)
                        for (auto b = info.begin[3]; b < info.begin[3] + info.extents[3]; ++b) {
                            const auto q = at_virtuals[a * v + b];
                            *to++ = (i >= j) == (a >= b) ? e[q] + d[q] : e[q] - d[q];
                        }
                }
        },
        threads);
}

namespace {

class Stored final : public AbcdTerm {
  public:
    Stored(const FourVirtuals& vvvv, LocalPairs local, const Tiling& virtuals)
        : vvvv_(vvvv), local_(std::move(local)), parts_(local_.tiling(), virtuals) {}

    RealTensor apply(const RealTensor& tau, const RealTensor&, TensorWork& work) override {
        RealTensor even, odd;
        {
            const DenseArray dense(local_.to_local(tau, work));
            const auto part = [&](double sign) { return parts_.part(dense, vvvv_.pairs, sign, work.threads()); };
            even = work.product("pq,qr->pr", part(1), vvvv_.plus);
            odd = work.product("pq,qr->pr", part(-1), vvvv_.minus);
        }
        const DenseArray of_even(even), of_odd(odd);
        return local_.to_canonical(parts_.join(of_even.data(), of_odd.data(), vvvv_.pairs, work.threads()), work);
    }
    bool dressed() const override { return false; }

  private:
    const FourVirtuals& vvvv_;
    LocalPairs local_;
    EvenOdd parts_;
};

}  // namespace

std::unique_ptr<AbcdTerm> stored_abcd(const FourVirtuals& vvvv, LocalPairs local, const Tiling& virtuals) {
    return std::make_unique<Stored>(vvvv, std::move(local), virtuals);
}

}  // namespace tessera::chem
