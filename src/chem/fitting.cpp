#include "chem/fitting.hpp"

#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/orbitals.hpp"
#include "storage/dry_run.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kAuxiliaryInTile = 96;

/// One tile (P|mn), from the blocks of its shells.
void make_tile(const FittingIntegrals& of, const AoTiling& auxiliary, const AoTiling& functions, const PairIndex& pairs,
               std::int64_t tile, std::int64_t pair, FittingIntegrals::Coulomb& engine, std::span<double> out) {
    std::ranges::fill(out, 0.0);
    const auto tm = pairs.tile_i(pair), tn = pairs.tile_j(pair);
    const auto columns = pairs.pairs().size(TileIndex{pair});
    const auto &shells = of.basis().shells, &fits = of.auxiliary().shells;
    for (auto p = auxiliary.first_shell[tile]; p < auxiliary.first_shell[tile + 1]; ++p)
        for (auto m = functions.first_shell[tm]; m < functions.first_shell[tm + 1]; ++m)
            for (auto n = functions.first_shell[tn]; n < (tm == tn ? m + 1 : functions.first_shell[tn + 1]); ++n) {
                const double* from = engine.block(p, m, n);
                if (!from) continue;
                const auto fp = fits[p].first - auxiliary.functions.begin(TileIndex{tile}).value;
                const auto fm = shells[m].first - pairs.begin(tm), fn = shells[n].first - pairs.begin(tn);
                const auto np = fits[p].shell.functions(), nm = shells[m].shell.functions();
                const auto nn = shells[n].shell.functions();
                for (std::int64_t a = 0; a < np; ++a)
                    for (std::int64_t b = 0; b < nm; ++b, from += nn)
                        for (std::int64_t c = 0; c < (m == n ? b + 1 : nn); ++c)
                            out[(fp + a) * columns + pair_place(tm == tn, pairs.size(tn), fm + b, fn + c)] = from[c];
            }
}

}  // namespace

Fitting::Fitting(const Integrals& integrals, const AoTiling& functions, Basis auxiliary, int threads)
    : functions_(functions),
      auxiliary_(tile_atoms(auxiliary, kAuxiliaryInTile)),
      pairs_(functions.functions),
      integrals_(std::make_unique<FittingIntegrals>(integrals, std::move(auxiliary))) {
    inverse_ = inverse_cholesky(integrals_->metric(threads));
    require(inverse_.size() > 0, "auxiliary basis {}: its functions depend on each other in this molecule",
            integrals_->auxiliary().name);
}

Fitting::Fitting(const AoTiling& functions, const Basis& auxiliary)
    : functions_(functions), auxiliary_(tile_atoms(auxiliary, kAuxiliaryInTile)), pairs_(functions.functions) {
    ensure(DryRun::current(), "integrals that are not made, outside of a dry run");
}

Fitting::~Fitting() = default;

RealTensor Fitting::inverse(std::pair<std::int64_t, std::int64_t> rows, std::pair<std::int64_t, std::int64_t> columns,
                            int threads) const {
    const Tiling& all = auxiliary();
    const TileGrid grid{part_of(all, rows.first, rows.second), part_of(all, columns.first, columns.second)};
    std::vector<ShapeEntry> lower;
    for (auto q = std::max(rows.first, columns.first); q < rows.second; ++q)
        for (auto p = columns.first; p < std::min(q + 1, columns.second); ++p)
            lower.push_back({grid.ordinal({q - rows.first, p - columns.first}), 1.0});
    const auto row = all.begin(TileIndex{rows.first}).value, column = all.begin(TileIndex{columns.first}).value;
    return RealTensor::generate(
        Shape(grid, std::move(lower)),
        [&](const TileInfo& info, std::span<double> out) {
            for (std::int64_t q = 0; q < info.extents[0]; ++q)
                for (std::int64_t p = 0; p < info.extents[1]; ++p)
                    out[q * info.extents[1] + p] = inverse_(row + info.begin[0] + q, column + info.begin[1] + p);
        },
        threads);
}

void Fitting::in_blocks(const std::function<void(const RealTensor& inverse, RealTensor raw)>& use, int threads) const {
    in_blocks(
        {{0, auxiliary().tile_count()}},
        [&](std::span<const RealTensor> inverse, RealTensor raw) { use(inverse[0], std::move(raw)); }, threads);
}

void Fitting::in_blocks(const Runs& rows,
                        const std::function<void(std::span<const RealTensor> inverse, RealTensor raw)>& use,
                        int threads, Communicator* ranks) const {
    const Tiling& all = auxiliary();
    std::optional<EnginePool<FittingIntegrals>> engines;
    if (integrals_) engines.emplace(*integrals_);
    for (const auto& run : runs_of_tiles(all, kFittingBlock / (8 * pairs_.pairs().extent()))) {
        std::vector<RealTensor> inverses;
        for (const auto& some : rows) inverses.push_back(inverse(some, run, threads));
        const auto first = run.first;  // lambdas capture no bindings everywhere
        auto raw = RealTensor::generate(
            Shape::dense(TileGrid{part_of(all, first, run.second), pairs_.pairs()}),
            [&](const TileInfo& info, std::span<double> out) {
                if (ranks && info.tile.value % ranks->size() != ranks->rank()) {
                    std::ranges::fill(out, 0.0);
                    return;
                }
                engines->with([&](FittingIntegrals::Coulomb& engine) {
                    make_tile(*integrals_, auxiliary_, functions_, pairs_, first + info.coordinates[0],
                              info.coordinates[1], engine, out);
                });
            },
            threads);
        // Of each tile one rank has the integrals and the others zeros.
        if (ranks) raw.update_tiles([&](const TileInfo&, std::span<double> tile) { ranks->sum(tile); }, 1);
        use(inverses, std::move(raw));
    }
}

FittedOrbitals transform(const Fitting& fitting, const Orbitals& orbitals, Transform what, TensorWork& work) {
    const RealTensor &o = orbitals.occupied, &v = orbitals.virtuals;
    const Tiling &aux = fitting.auxiliary(), &to = o.grid().tiling(1), &tv = v.grid().tiling(1);
    FittedOrbitals out;
    out.ov = RealTensor(Shape::dense(TileGrid{aux, to, tv}, 0));
    if (what != Transform::mp2) {
        out.oo = RealTensor(Shape::dense(TileGrid{aux, to, to}, 0));
        out.vv = RealTensor(Shape::dense(TileGrid{aux, tv, tv}, 0));
    }
    fitting.in_blocks(
        [&](const RealTensor& inverse, RealTensor raw) {
            PairParts parts(fitting.pairs());
            parts.add(std::move(raw));
            RealTensor half = work.lean_product("Pls,si->Pli", parts.unpacked(), o);
            work.add_product("QP,Pia->Qia", inverse, work.product("Pli,la->Pia", half, v), out.ov);
            if (what == Transform::mp2) return;
            work.add_product("QP,Pji->Qji", inverse, work.product("Pli,lj->Pji", half, o), out.oo);
            half = work.lean_product("Pls,sb->Plb", parts.unpacked(), v);
            work.add_product("QP,Pab->Qab", inverse, work.product("Plb,la->Pab", half, v), out.vv);
        },
        work.threads());
    return out;
}

RealTensor rows_of(const RealTensor& x, std::int64_t first, const Tiling& rows, int threads) {
    const Tiling &aux = x.grid().tiling(0), &columns = x.grid().tiling(2), &all = x.grid().tiling(1);
    return RealTensor::generate(
        Shape::dense(TileGrid{aux, rows, columns}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto width = info.extents[2];
            for (std::int64_t a = 0; a < info.extents[1]; ++a) {
                const auto at = first + info.begin[1] + a;
                const auto tile = all.tile_of(ElementIndex{at}).value;
                const auto height = all.size(TileIndex{tile}), row = at - all.begin(TileIndex{tile}).value;
                const double* from = x.tile({info.coordinates[0], tile, info.coordinates[2]}).data();
                for (std::int64_t q = 0; q < info.extents[0]; ++q)
                    std::copy_n(from + (q * height + row) * width, width,
                                out.data() + (q * info.extents[1] + a) * width);
            }
        },
        threads);
}

RealTensor columns_of(const RealTensor& x, std::int64_t first, const Tiling& columns, int threads) {
    const Tiling &aux = x.grid().tiling(0), &rows = x.grid().tiling(1), &all = x.grid().tiling(2);
    return RealTensor::generate(
        Shape::dense(TileGrid{aux, rows, columns}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto width = info.extents[2], begin = first + info.begin[2];
            // From each tile that the columns meet.
            for (std::int64_t c = 0; c < width;) {
                const auto tile = all.tile_of(ElementIndex{begin + c}).value;
                const auto pitch = all.size(TileIndex{tile}), at = begin + c - all.begin(TileIndex{tile}).value;
                const auto count = std::min(width - c, pitch - at);
                const double* from = x.tile({info.coordinates[0], info.coordinates[1], tile}).data() + at;
                for (std::int64_t row = 0; row < info.extents[0] * info.extents[1]; ++row)
                    std::copy_n(from + row * pitch, count, out.data() + row * width + c);
                c += count;
            }
        },
        threads);
}

}  // namespace tessera::chem
