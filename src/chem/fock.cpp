#include "chem/fock.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "chem/linear_algebra.hpp"
#include "storage/dry_run.hpp"
#include "tessera/tensor/slice.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kFieldTile = 64;  // of orbitals
constexpr std::int64_t kWideTile = 128;  // of functions, unpacked: what a device's kernel likes

/// A symmetric matrix by pairs; those off the diagonal stand for two.
RealTensor packed(const RealTensor& x, const PairIndex& pairs) {
    return RealTensor::generate(Shape::dense(TileGrid{pairs.pairs()}),
                                [&](const TileInfo& info, std::span<double> out) {
                                    const auto p = info.coordinates[0], ti = pairs.tile_i(p), tj = pairs.tile_j(p);
                                    const auto tile = x.tile({ti, tj});
                                    if (tile.empty()) return std::ranges::fill(out, 0.0), void();
                                    pairs.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
                                        out[place] = (ti == tj && i == j ? 1.0 : 2.0) * tile[i * pairs.size(tj) + j];
                                    });
                                });
}

RealTensor unpacked(const RealTensor& x, const PairIndex& pairs) {
    return RealTensor::generate(Shape::dense(TileGrid{pairs.single(), pairs.single()}),
                                [&](const TileInfo& info, std::span<double> out) {
                                    const auto ti = info.coordinates[0], tj = info.coordinates[1];
                                    const auto p = pairs.tile_of(ti, tj);
                                    const auto tile = x.tile({p});
                                    if (tile.empty()) return std::ranges::fill(out, 0.0), void();
                                    const auto columns = info.extents[1];
                                    pairs.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
                                        if (ti >= tj) out[i * columns + j] = tile[place];
                                        if (ti <= tj) out[j * columns + i] = tile[place];
                                    });
                                });
}

}  // namespace

TwoElectron::TwoElectron(const AoIntegrals& integrals, std::int64_t block, std::int64_t kept) : integrals_(integrals) {
    const Tiling& pairs = integrals.pairs().pairs();
    std::int64_t filled = 0, all = 0;
    for (std::int64_t p = 0; p < pairs.tile_count(); ++p) {
        const auto bytes = 8 * pairs.size(TileIndex{p}) * (pairs.begin(TileIndex{p}).value + pairs.size(TileIndex{p}));
        if (blocks_.empty() || filled + bytes > block) {
            blocks_.push_back({p, p, true, {}});
            filled = 0;
        }
        filled += bytes;
        all += bytes;
        blocks_.back().last = p + 1;
        blocks_.back().keep = all <= kept;
    }
}

/// Tiles P >= Q of G; of tiles P = Q one half, which counts twice.
RealTensor TwoElectron::make(const Block& block, int threads) const {
    const PairIndex& pairs = integrals_.pairs();
    const auto norm = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        return integrals_.norm(pairs.tile_of(a, b), pairs.tile_of(c, d));
    };
    const auto view = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        const auto p = pairs.tile_of(a, b), q = pairs.tile_of(c, d);
        return PairView(pairs, a, b, c, d, integrals_.tile(p, q), p < q);
    };
    const TileGrid grid{pairs.pairs(), pairs.pairs()};
    std::vector<ShapeEntry> entries;
    for (auto p = block.first; p < block.last; ++p)
        for (std::int64_t q = 0; q <= p; ++q) {
            const auto m = pairs.tile_i(p), l = pairs.tile_j(p), n = pairs.tile_i(q), s = pairs.tile_j(q);
            if (norm(m, l, n, s) + norm(m, n, l, s) + norm(m, s, l, n) > 0)
                entries.push_back({grid.ordinal({p, q}), 0.0});
        }
    return RealTensor::generate(
        Shape(grid, std::move(entries)),
        [&](const TileInfo& info, std::span<double> out) {
            const auto p = info.coordinates[0], q = info.coordinates[1];
            const auto tm = pairs.tile_i(p), tl = pairs.tile_j(p), tn = pairs.tile_i(q), ts = pairs.tile_j(q);
            const PairView coulomb = view(tm, tl, tn, ts), exchange = view(tm, tn, tl, ts),
                           crossed = view(tm, ts, tl, tn);
            const double of_coulomb = p == q ? 1.0 : 2.0, of_exchange = -0.25 * of_coulomb;
            double* to = out.data();
            pairs.for_each(p, [&](std::int64_t m, std::int64_t l, std::int64_t) {
                const double* ml = coulomb.left(m, l);
                const std::int64_t *ls = exchange.right_row(l), *ms = crossed.left_row(m);
                for (std::int64_t n = 0; n < pairs.size(tn); ++n) {
                    const auto count = tn == ts ? n + 1 : pairs.size(ts);
                    const std::int64_t* ns = coulomb.right_row(n);
                    const double *mn = exchange.left(m, n), *ln = crossed.right(l, n);
                    for (std::int64_t s = 0; s < count; ++s)
                        *to++ = of_coulomb * ml[ns[s]] + of_exchange * (mn[ls[s]] + ln[ms[s]]);
                }
            });
        },
        threads);
}

RealTensor TwoElectron::of(const RealTensor& density, const RealTensor*, TensorWork& work) {
    const PairIndex& pairs = integrals_.pairs();
    const RealTensor d = packed(density, pairs);
    RealTensor sum(Shape::dense(TileGrid{pairs.pairs()}, 0));
    for (auto& block : blocks_) {
        RealTensor here;
        if (block.tiles.tile_count() == 0) (block.keep ? block.tiles : here) = make(block, work.threads());
        const RealTensor& g = block.keep ? block.tiles : here;
        work.add_product("pq,q->p", g, d, sum);
        work.add_product("pq,p->q", g, d, sum);
    }
    return unpacked(sum, pairs);
}

RealTensor Field::coulomb(const RealTensor&, TensorWork&) {
    ensure(false, "J alone of integrals that are not stored");
    return {};
}

RealTensor Field::of_pair(const RealTensor& left, const RealTensor& right, TensorWork& work) {
    RealTensor density = work.product("mi,ni->mn", left, right);
    work.add_product("mi,ni->mn", right, left, density);
    return of(density, nullptr, work);
}

RealTensor TwoElectron::coulomb(const RealTensor& density, TensorWork& work) {
    const PairIndex& pairs = integrals_.pairs();
    const TileGrid grid{pairs.pairs(), pairs.pairs()};
    std::vector<ShapeEntry> entries;
    for (std::int64_t p = 0; p < pairs.pairs().tile_count(); ++p)
        for (std::int64_t q = 0; q < pairs.pairs().tile_count(); ++q)
            if (const double norm = integrals_.norm(p, q); norm > 0) entries.push_back({grid.ordinal({p, q}), norm});
    const GeneratedTensor<double> all{Shape(grid, std::move(entries)),
                                      [&](const TileInfo& info, std::span<double> out) {
                                          const auto p = info.coordinates[0], q = info.coordinates[1];
                                          const auto from = integrals_.tile(p, q);
                                          const auto rows = info.extents[0], columns = info.extents[1];
                                          if (p >= q) return std::ranges::copy(from, out.begin()), void();
                                          for (std::int64_t i = 0; i < rows; ++i)
                                              for (std::int64_t j = 0; j < columns; ++j)
                                                  out[i * columns + j] = from[j * rows + i];
                                      }};
    return unpacked(work.lean_product("pq,q->p", all, packed(density, pairs)), pairs);
}

namespace {

/// Vectors whose squares add up to the density: its eigenvectors.
RealTensor square_root(const RealTensor& density) {
    constexpr double kEmpty = 1e-14;
    const auto [values, vectors] = symmetric_eigen(to_matrix(density));
    Eigen::Index first = 0;
    while (first + 1 < values.size() && values(first) < kEmpty) ++first;
    Matrix out = vectors.rightCols(values.size() - first);
    for (Eigen::Index k = 0; k < out.cols(); ++k) out.col(k) *= std::sqrt(std::max(0.0, values(first + k)));
    return to_tensor(out, density.grid().tiling(0), even_tiling(out.cols(), kFieldTile));
}

}  // namespace

FittedField::FittedField(const Fitting& fitting, TensorWork& work, const FieldShare& share)
    : pairs_(fitting.pairs()), share_(share) {
    const Tiling& all = fitting.auxiliary();
    share_.slices = static_cast<int>(std::min<std::int64_t>(share.slices, all.tile_count()));
    Fitting::Runs rows;
    std::vector<RealTensor> mine;
    for (std::int64_t s = share_.rank; s < share_.slices; s += share_.ranks) {
        rows.emplace_back(all.tile_count() * s / share_.slices, all.tile_count() * (s + 1) / share_.slices);
        const TileGrid grid{part_of(all, rows.back().first, rows.back().second), pairs_.pairs()};
        mine.emplace_back(Shape::dense(grid, 0));
    }
    fitting.in_blocks(
        rows,
        [&](std::span<const RealTensor> inverse, const RealTensor& raw) {
            for (std::size_t s = 0; s < mine.size(); ++s)
                if (inverse[s].tile_count() > 0) work.add_product("QP,Pp->Qp", inverse[s], raw, mine[s]);
        },
        work.threads(), share_.ranks > 1 ? share_.communicator : nullptr);
    for (auto& b : mine) slices_.emplace_back(pairs_).add(std::move(b));
}

RealTensor FittedField::of(const RealTensor& density, const RealTensor* orbitals, TensorWork& work) {
    if (orbitals) return of_product(*orbitals, *orbitals, work);
    const RealTensor roots = square_root(density);
    return of_product(roots, roots, work);
}

void FittedField::unpack(std::optional<int> device, int threads) {
    ensure(share_.slices == 1 && share_.ranks == 1, "slices of B are not unpacked");
    const PairIndex& pairs = pairs_;
    const PairParts& b = slices_[0];
    const Tiling &narrow = pairs.single(), wide = even_tiling(narrow.extent(), kWideTile);
    whole_ = RealTensor::generate(
        Shape::dense(TileGrid{b.part(0).grid().tiling(0), wide, wide}),
        [&](const TileInfo& info, std::span<double> out) {
            std::ranges::fill(out, 0.0);
            const auto m0 = info.begin[1], m1 = m0 + info.extents[1], n0 = info.begin[2], n1 = n0 + info.extents[2];
            const auto matrix = info.extents[1] * info.extents[2];
            // Tiles of pairs are of a higher and a lower tile of functions: each lies here, turned round, or both.
            for (std::int64_t p = 0; p < pairs.pairs().tile_count(); ++p) {
                const auto i0 = pairs.begin(pairs.tile_i(p)), i1 = i0 + pairs.size(pairs.tile_i(p));
                const auto j0 = pairs.begin(pairs.tile_j(p)), j1 = j0 + pairs.size(pairs.tile_j(p));
                const bool straight = i1 > m0 && i0 < m1 && j1 > n0 && j0 < n1;
                const bool turned = j1 > m0 && j0 < m1 && i1 > n0 && i0 < n1;
                const auto values = straight || turned ? b.tile({info.coordinates[0]}, p) : std::span<const double>();
                if (values.empty()) continue;
                const auto columns = static_cast<std::int64_t>(values.size()) / info.extents[0];
                pairs.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
                    const auto put = [&](std::int64_t m, std::int64_t n) {
                        if (m < m0 || m >= m1 || n < n0 || n >= n1) return;
                        double* to = out.data() + (m - m0) * info.extents[2] + n - n0;
                        for (std::int64_t q = 0; q < info.extents[0]; ++q) to[q * matrix] = values[q * columns + place];
                    };
                    put(i0 + i, j0 + j);
                    put(j0 + j, i0 + i);
                });
            }
        },
        threads);
    if (device) whole_ = to_devices(whole_, {*device});
    slices_[0].clear();
}

RealTensor FittedField::of_whole(const RealTensor& left, const RealTensor& right, TensorWork& work) {
    const RealTensor density = work.product("mi,ni->mn", left, right);
    const RealTensor d = add(0.5, density, 0.5, work.permuted("nm->mn", density));
    RealTensor out = work.product("Qmn,Q->mn", whole_, work.product("Qmn,mn->Q", whole_, d), 2);
    const RealTensor x = work.product("Qms,si->Qmi", whole_, left);
    if (&left == &right)
        work.add_product("Qmi,Qni->mn", x, x, out, -1);
    else
        work.add_product("Qmi,Qni->mn", x, work.product("Qms,si->Qmi", whole_, right), out, -1);
    return out;
}

RealTensor FittedField::of_pair(const RealTensor& left, const RealTensor& right, TensorWork& work) {
    const RealTensor half = of_product(left, right, work);
    return add(1.0, half, 1.0, work.permuted("nm->mn", half));
}

RealTensor FittedField::coulomb(const RealTensor& density, TensorWork& work) {
    ensure(share_.slices == 1 && share_.ranks == 1, "J of slices of B");
    const RealTensor& b = slices_[0].part(0);
    return unpacked(work.product("Qp,Q->p", b, work.product("Qp,p->Q", b, packed(density, pairs_))), pairs_);
}

RealTensor FittedField::of_product(const RealTensor& left, const RealTensor& right, TensorWork& work) {
    if (whole_.rank() > 0) {
        if (left.on_devices() == whole_.on_devices() && left.grid().tiling(0) == tiles())
            return of_whole(left, right, work);
        const auto moved = [&](const RealTensor& x) {
            RealTensor y = retile(x, TileGrid{tiles(), x.grid().tiling(1)});
            return whole_.on_devices() ? to_devices(y, whole_.placement().devices) : y;
        };
        const RealTensor there = moved(left);
        const RealTensor out = &left == &right ? of_whole(there, there, work) : of_whole(there, moved(right), work);
        return retile(to_host(out), TileGrid{functions(), functions()});
    }
    const RealTensor density = work.product("mi,ni->mn", left, right);
    const RealTensor d = packed(add(0.5, density, 0.5, work.permuted("nm->mn", density)), pairs_);
    if (share_.slices == 1 && share_.ranks == 1) return of_slice(slices_[0], left, right, d, work);
    std::vector<RealTensor> parts;
    for (const auto& slice : slices_) parts.push_back(of_slice(slice, left, right, d, work));
    return summed(parts);
}

/// What slices add, in their order; row by row of tiles, so that not all of them are on every rank at once.
RealTensor FittedField::summed(const std::vector<RealTensor>& mine) const {
    const Tiling& functions = pairs_.single();
    const auto width = functions.extent();
    std::int64_t tallest = 0;
    for (std::int64_t m = 0; m < functions.tile_count(); ++m) tallest = std::max(tallest, pairs_.size(m));
    const DryArray room(8 * width * (width + tallest * share_.slices));
    std::vector<double> total, rows;
    if (!DryRun::current()) {
        total.resize(static_cast<std::size_t>(width * width));
        for (std::int64_t m = 0; m < functions.tile_count(); ++m) {
            const auto of_slice = pairs_.size(m) * width;
            rows.assign(static_cast<std::size_t>(of_slice * share_.slices), 0.0);
            for (std::size_t s = 0; s < mine.size(); ++s) {
                double* to = rows.data() + (share_.rank + static_cast<std::int64_t>(s) * share_.ranks) * of_slice;
                for (std::int64_t n = 0; n < functions.tile_count(); ++n) {
                    const auto tile = mine[s].tile({m, n});
                    for (std::int64_t i = 0; i < pairs_.size(m) && !tile.empty(); ++i)
                        std::copy_n(tile.data() + i * pairs_.size(n), pairs_.size(n), to + i * width + pairs_.begin(n));
                }
            }
            if (share_.ranks > 1) share_.communicator->sum(std::span<double>(rows));
            for (std::int64_t s = 0; s < share_.slices; ++s)
                for (std::int64_t e = 0; e < of_slice; ++e)
                    total[static_cast<std::size_t>(pairs_.begin(m) * width + e)] +=
                        rows[static_cast<std::size_t>(s * of_slice + e)];
        }
    }
    return RealTensor::generate(Shape::dense(TileGrid{functions, functions}),
                                [&](const TileInfo& info, std::span<double> out) {
                                    for (std::int64_t i = 0; i < info.extents[0]; ++i)
                                        std::copy_n(total.data() + (info.begin[0] + i) * width + info.begin[1],
                                                    info.extents[1], out.data() + i * info.extents[1]);
                                });
}

void FittedField::agree(std::span<double> numbers) const {
    if (!share_.communicator || share_.ranks == 1) return;
    const auto from = std::as_bytes(numbers);
    std::vector<std::byte> bytes(from.begin(), from.end());
    share_.communicator->broadcast(bytes, 0);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
}

RealTensor FittedField::of_slice(const PairParts& slice, const RealTensor& left, const RealTensor& right,
                                 const RealTensor& packed, TensorWork& work) const {
    const RealTensor& b = slice.part(0);
    RealTensor out = unpacked(work.product("Qp,Q->p", b, work.product("Qp,p->Q", b, packed), 2), pairs_);
    const auto row = 8 * pairs_.single().extent() * left.grid().tiling(1).extent();
    for (const auto& [first, last] : runs_of_tiles(b.grid().tiling(0), kFockBlock / row)) {
        const auto here = slice.unpacked(first, last);
        const RealTensor x = work.lean_product("Qls,si->Qli", here, left);
        if (&left == &right)
            work.add_product("Qmi,Qni->mn", x, x, out, -1);
        else
            work.add_product("Qmi,Qni->mn", x, work.lean_product("Qls,si->Qli", here, right), out, -1);
    }
    return out;
}

}  // namespace tessera::chem
