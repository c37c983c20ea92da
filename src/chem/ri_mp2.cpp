#include "chem/ri_mp2.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "chem/linear_algebra.hpp"
#include "comm/same_on_all.hpp"
#include "tessera/contract/batch.hpp"
#include "tessera/tensor/builder.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kAuxiliaryInTile = 96;
constexpr std::int64_t kRawBlock = 32 << 20;    // bytes of (P|mn) that all ranks together make at a time
constexpr std::int64_t kPairTile = 8 << 20;     // bytes of (ia|jb) for a pair of tiles of occupied orbitals
constexpr std::int64_t kEnergyRoom = 24 << 20;  // bytes of (ia|jb) under way, and of B on its way
constexpr std::int64_t kOccupiedTiles = 12;     // as many at least: there is something to deal, i <= j skips a half
constexpr double kDependent = 1e-10;            // eigenvalues of (P|Q) below this, by the largest, are noise

/// Occupied orbitals in tiles: all virtual ones are one tile, so that (ia|jb) and (ib|ja) are in one.
Tiling occupied_tiling(std::int64_t occupied, std::int64_t virtuals) {
    const auto most =
        static_cast<std::int64_t>(std::sqrt(static_cast<double>(kPairTile / 8))) / std::max<std::int64_t>(1, virtuals);
    return even_tiling(occupied, std::clamp<std::int64_t>(std::min(most, occupied / kOccupiedTiles), 1, occupied));
}

/// The tile (P|m n), all functions of P, m and n.
void make_tile(const FittingIntegrals& of, const AoTiling& auxiliary, const AoTiling& functions,
               const IndexVector& tile, FittingIntegrals::Coulomb& engine, std::span<double> out) {
    std::ranges::fill(out, 0.0);
    const auto &shells = of.basis().shells, &fits = of.auxiliary().shells;
    const auto begin = [](const AoTiling& t, std::int64_t i) { return t.functions.begin(TileIndex{i}).value; };
    const auto rows = functions.functions.size(TileIndex{tile[1]}),
               columns = functions.functions.size(TileIndex{tile[2]});
    for (auto p = auxiliary.first_shell[tile[0]]; p < auxiliary.first_shell[tile[0] + 1]; ++p)
        for (auto m = functions.first_shell[tile[1]]; m < functions.first_shell[tile[1] + 1]; ++m)
            for (auto n = functions.first_shell[tile[2]]; n < functions.first_shell[tile[2] + 1]; ++n) {
                const double* from = engine.block(p, m, n);
                if (!from) continue;
                const auto fp = fits[p].first - begin(auxiliary, tile[0]);
                const auto fm = shells[m].first - begin(functions, tile[1]);
                const auto fn = shells[n].first - begin(functions, tile[2]);
                const auto np = fits[p].shell.functions(), nm = shells[m].shell.functions();
                const auto nn = shells[n].shell.functions();
                for (std::int64_t a = 0; a < np; ++a)
                    for (std::int64_t b = 0; b < nm; ++b, from += nn)
                        std::copy_n(from, nn, out.data() + ((fp + a) * rows + fm + b) * columns + fn);
            }
}

/// W with W^T W = (P|Q)^-1: the inverse Cholesky factor, or where (P|Q) is too ill-conditioned for that, its
/// eigenvectors without those that are noise.
struct Metric {
    Matrix root;
    std::int64_t dropped = 0;
    double condition = 0;  // of (P|Q) without the dropped
};

/// The largest eigenvalue of what `apply` multiplies with, positive, to a few per cent.
template <class Apply>
double largest_eigenvalue(Eigen::Index n, const Apply& apply) {
    Vector x = Vector::LinSpaced(n, 1.0, 2.0);
    double value = 0;
    for (int step = 0; step < 30; ++step) {
        x /= x.norm();
        x = apply(x);
        value = x.norm();
    }
    return value;
}

Metric metric_root(const Matrix& metric) {
    Metric out;
    out.root = inverse_cholesky(metric);
    if (out.root.size() > 0) {
        const auto& w = out.root;
        out.condition = largest_eigenvalue(metric.rows(), [&](const Vector& x) -> Vector { return metric * x; }) *
                        largest_eigenvalue(metric.rows(), [&](const Vector& x) -> Vector {
                            const Vector y = w * x;
                            return w.transpose() * y;
                        });
        if (out.condition < 1 / kDependent) return out;
    }
    const auto eigen = symmetric_eigen(metric);
    const auto n = eigen.values.size();
    const double least = kDependent * eigen.values(n - 1);
    while (out.dropped < n && eigen.values(out.dropped) < least) ++out.dropped;
    require(out.dropped < n, "auxiliary basis: no combination of its functions is independent of the others");
    out.root = Matrix(n - out.dropped, n);
    for (auto k = out.dropped; k < n; ++k)
        out.root.row(k - out.dropped) = eigen.vectors.col(k).transpose() / std::sqrt(eigen.values(k));
    out.condition = eigen.values(n - 1) / eigen.values(out.dropped);
    return out;
}

/// Rank 0's, to the bit, on every rank.
void share(Metric& metric, Communicator& ranks) {
    const std::int64_t sizes[] = {metric.root.rows(), metric.root.cols(), metric.dropped};
    std::vector<std::byte> bytes(sizeof sizes + 8 * static_cast<std::size_t>(metric.root.size() + 1));
    std::memcpy(bytes.data(), sizes, sizeof sizes);
    std::memcpy(bytes.data() + sizeof sizes, &metric.condition, 8);
    std::memcpy(bytes.data() + sizeof sizes + 8, metric.root.data(), 8 * static_cast<std::size_t>(metric.root.size()));
    ranks.broadcast(bytes, 0);
    std::int64_t got[3];
    std::memcpy(got, bytes.data(), sizeof got);
    metric.root.resize(got[0], got[1]);
    metric.dropped = got[2];
    std::memcpy(&metric.condition, bytes.data() + sizeof got, 8);
    std::memcpy(metric.root.data(), bytes.data() + sizeof got + 8, 8 * static_cast<std::size_t>(metric.root.size()));
}

class RiMp2 {
  public:
    RiMp2(const Integrals& integrals, const AoTiling& functions, const Basis& auxiliary, const Orbitals& orbitals,
          const RiMp2Options& options)
        : functions_(functions),
          auxiliary_(tile_atoms(auxiliary, kAuxiliaryInTile)),
          integrals_(integrals, auxiliary),
          orbitals_(orbitals),
          options_(options),
          ranks_(options.here.communicator ? *options.here.communicator : self_communicator()),
          occupied_(occupied_tiling(orbitals.occupied_count(), orbitals.virtual_count())),
          virtuals_{orbitals.virtual_count()} {
        here_ = options.here;
        here_.communicator = &ranks_;
        here_.memory = 0;  // of the process; what this takes was counted before
        here_.devices = {};
    }

    RiMp2Result run() {
        const double start = now_seconds();
        const RealTensor b = transform();
        result_.transform_seconds = now_seconds() - start;
        result_.energy = energy(b);
        double numbers[] = {result_.left_out};
        ranks_.sum(std::span<double>(numbers));
        result_.left_out = std::sqrt(numbers[0]);
        result_.rank_bytes = largest_on_all(ranks_, most_);
        return result_;
    }

  private:
    /// All tiles of index d in turn on the ranks, the other indices whole.
    Placement dealt(const TileGrid& grid, int d) const {
        std::vector<Distribution::Axis> axes(static_cast<std::size_t>(grid.rank()));
        axes[static_cast<std::size_t>(d)].ranks = ranks_.size();
        return {ranks_, Distribution(ranks_.size(), axes)};
    }
    void note(std::int64_t bytes) { most_ = std::max(most_, bytes); }
    RealTensor coefficients(const Matrix& c, const Tiling& columns) const {
        const TileGrid grid{functions_.functions, columns};
        const auto of = to_tensor(c, functions_.functions, columns);
        return RealTensor::generate(
            of.shape(),
            [&](const TileInfo& info, std::span<double> out) {
                std::ranges::copy(of.tile(info.coordinates), out.begin());
            },
            here_.threads, dealt(grid, 0));
    }
    RealTensor raw(std::int64_t first, std::int64_t last);
    RealTensor transform();
    double energy(const RealTensor& b);

    AoTiling functions_, auxiliary_;
    FittingIntegrals integrals_;
    const Orbitals& orbitals_;
    const RiMp2Options& options_;
    Communicator& ranks_;
    Resources here_;
    Tiling occupied_, virtuals_;
    RiMp2Result result_;
    std::int64_t most_ = 0;
};

/// (P|mn) of the tiles first to last of P: each rank makes what it will hold of one half, or its mirror image.
RealTensor RiMp2::raw(std::int64_t first, std::int64_t last) {
    const TileGrid grid{auxiliary_.functions, functions_.functions, functions_.functions};
    const auto where = dealt(grid, 1);
    TensorBuilder<double> builder(grid, where);
    std::vector<IndexVector> mine;
    for (auto p = first; p < last; ++p)
        for (std::int64_t m = 0; m < functions_.functions.tile_count(); ++m)
            for (std::int64_t n = 0; n <= m; ++n) {
                const IndexVector at{p, m, n}, mirror{p, n, m};
                const auto& maker = (m + n) % 2 == 0 ? at : mirror;  // half of them each
                if (where.distribution.owner(grid, grid.ordinal(maker)) == ranks_.rank()) mine.push_back(at);
            }
    EnginePool<FittingIntegrals> engines(integrals_);
    std::mutex counting;
    std::atomic<std::size_t> next{0};
    parallel_region(here_.threads, [&](int, int) {
        std::vector<double> tile, mirror;
        double left_out = 0;
        std::int64_t kept = 0;
        engines.with([&](FittingIntegrals::Coulomb& engine) {
            for (std::size_t t; (t = next++) < mine.size();) {
                const auto& at = mine[t];
                const auto extents = grid.tile_extents(grid.ordinal(at));
                tile.resize(static_cast<std::size_t>(extents.product()));
                make_tile(integrals_, auxiliary_, functions_, at, engine, tile);
                double square = 0;
                for (const double x : tile) square += x * x;
                const int images = at[1] == at[2] ? 1 : 2;
                if (std::sqrt(square) <= options_.filter) {
                    left_out += images * square;
                    continue;
                }
                kept += images;
                builder.put(at, tile);
                if (images == 1) continue;
                mirror.resize(tile.size());
                const auto rows = extents[1], columns = extents[2];
                for (std::int64_t p = 0; p < extents[0]; ++p)
                    for (std::int64_t m = 0; m < rows; ++m)
                        for (std::int64_t n = 0; n < columns; ++n)
                            mirror[static_cast<std::size_t>((p * columns + n) * rows + m)] =
                                tile[static_cast<std::size_t>((p * rows + m) * columns + n)];
                builder.put({at[0], at[2], at[1]}, mirror);
            }
        });
        const std::lock_guard lock(counting);
        result_.left_out += left_out;
    });
    const auto held = builder.held_bytes();
    auto out = builder.finalize(here_.threads);
    note(held + out.tile_bytes());
    result_.tiles_kept += out.tile_count();
    result_.tiles += (last - first) * functions_.functions.tile_count() * functions_.functions.tile_count();
    return out;
}

/// B[Q][i][a], the sum over Q of B(Q|ia) B(Q|jb) being (ia|jb); dealt by i.
RealTensor RiMp2::transform() {
    Metric metric;
    if (ranks_.rank() == 0) metric = metric_root(integrals_.metric(here_.threads));
    share(metric, ranks_);
    result_.dropped_functions = metric.dropped;
    result_.condition = metric.condition;

    const Tiling& all = auxiliary_.functions;
    const Tiling fitted = metric.dropped == 0 ? all : even_tiling(metric.root.rows(), kAuxiliaryInTile);
    const TileGrid root_grid{fitted, all};
    std::vector<ShapeEntry> tiles;
    for (std::int64_t q = 0; q < fitted.tile_count(); ++q)
        for (std::int64_t p = 0; p < (metric.dropped == 0 ? q + 1 : all.tile_count()); ++p)
            tiles.push_back({root_grid.ordinal({q, p}), 1.0});
    const auto root = RealTensor::generate(
        Shape(root_grid, std::move(tiles)),
        [&](const TileInfo& info, std::span<double> out) {
            for (std::int64_t q = 0; q < info.extents[0]; ++q)
                for (std::int64_t p = 0; p < info.extents[1]; ++p)
                    out[static_cast<std::size_t>(q * info.extents[1] + p)] =
                        metric.root(info.begin[0] + q, info.begin[1] + p);
        },
        here_.threads, dealt(root_grid, 0));
    metric.root.resize(0, 0);

    const auto to_occupied = coefficients(orbitals_.occupied_matrix, occupied_);
    const auto to_virtuals = coefficients(orbitals_.virtual_matrix, virtuals_);
    const TileGrid half_grid{all, functions_.functions, occupied_}, b_grid{all, occupied_, virtuals_},
        fitted_grid{fitted, occupied_, virtuals_};
    ContractOptions to_half, to_b;
    to_half.result_distribution = dealt(half_grid, 1).distribution;
    to_b.result_distribution = dealt(b_grid, 1).distribution;
    RealTensor out(Shape(fitted_grid), dealt(fitted_grid, 1));
    const auto whole = Shape::dense(b_grid);
    BatchOptions sums;
    sums.whole_a = &root.shape();
    sums.whole_b = &whole;
    auto fit = batch("QP,Pia->Qia", out, here_, sums);
    const auto out_bytes = 8 * fitted.extent() * occupied_.extent() * virtuals_.extent() / ranks_.size();
    const auto always = root.tile_bytes() + to_occupied.tile_bytes() + to_virtuals.tile_bytes() + out_bytes;
    const auto functions = functions_.functions.extent();
    for (const auto& run : runs_of_tiles(all, kRawBlock / (8 * functions * functions))) {
        auto integrals = raw(run.first, run.second);
        auto half = contract("Pmn,ni->Pmi", integrals, to_occupied, here_, to_half);
        note(always + half.report.peak_host_bytes);
        integrals = {};
        auto b = contract("Pmi,ma->Pia", half.tensor, to_virtuals, here_, to_b);
        note(always + b.report.peak_host_bytes);
        half.tensor = {};
        const std::int64_t lo = all.begin(TileIndex{run.first}).value;
        const std::int64_t hi = run.second < all.tile_count() ? all.begin(TileIndex{run.second}).value : all.extent();
        result_.flops += half.report.flops + b.report.flops;
        fit.add(root, b.tensor, {{'P', lo, hi}});
    }
    const auto report = fit.finish();
    ensure(report.as_one_call, "fitting in batches: {}", report.why_not);
    note(always + report.peak_host_bytes);
    result_.flops += report.flops;
    return out;
}

/// The sum over tiles of occupied orbitals i <= j, each tile's on its own, then in their order.
double RiMp2::energy(const RealTensor& b) {
    const TileGrid grid{occupied_, virtuals_, occupied_, virtuals_};
    std::vector<ShapeEntry> upper;
    for (std::int64_t i = 0; i < occupied_.tile_count(); ++i)
        for (auto j = i; j < occupied_.tile_count(); ++j) upper.push_back({grid.ordinal({i, 0, j, 0}), 1.0});
    const Shape shape(grid, std::move(upper));
    std::vector<double> energies(static_cast<std::size_t>(shape.tile_count()), 0.0);
    const auto &eo = orbitals_.occupied_energies, &ev = orbitals_.virtual_energies;
    const auto nv = virtuals_.extent();
    ContractOptions options;
    options.result_shape = &shape;
    const TileConsumer<double> take = [&](std::int64_t slot, std::span<const double> tile, double) {
        const auto info = tile_info(grid, shape.tile(slot));
        const auto ni = info.extents[0], nj = info.extents[2];
        double sum = 0;
        for (std::int64_t i = 0; i < ni; ++i)
            for (std::int64_t j = 0; j < nj; ++j) {
                const double* x = tile.data() + (i * nv * nj + j) * nv;  // x[a nj nv + b] = (ia|jb)
                const double of_pair =
                    eo[static_cast<std::size_t>(info.begin[0] + i)] + eo[static_cast<std::size_t>(info.begin[2] + j)];
                for (std::int64_t a = 0; a < nv; ++a) {
                    const double above = of_pair - ev[static_cast<std::size_t>(a)];
                    for (std::int64_t v = 0; v < nv; ++v) {
                        const double iajb = x[a * nj * nv + v], ibja = x[v * nj * nv + a];
                        sum += iajb * (2 * iajb - ibja) / (above - ev[static_cast<std::size_t>(v)]);
                    }
                }
            }
        energies[static_cast<std::size_t>(slot)] = info.coordinates[0] == info.coordinates[2] ? sum : 2 * sum;
    };
    // Blocks of the result, and what other ranks send of B, are as large as this lets them.
    Resources here = here_;
    here.memory = 2 * largest_on_all(ranks_, b.tile_bytes()) + kEnergyRoom;
    const auto run = [&] { return contract_each<double>("Qia,Qjb->iajb", b, b, take, here, options); };
    ConsumedContraction done;
    try {
        done = run();
    } catch (const BudgetError& least) {  // before any work, on every rank
        here.memory = largest_on_all(ranks_, least.smallest_bytes());
        done = run();
    }
    note(done.report.peak_host_bytes);
    result_.flops += done.report.flops;
    ranks_.sum(std::span<double>(energies));
    double sum = 0;
    for (const double x : energies) sum += x;
    return sum;
}

}  // namespace

RiMp2Result ri_mp2(const Integrals& integrals, const AoTiling& functions, const Basis& auxiliary,
                   const Orbitals& orbitals, const RiMp2Options& options) {
    return RiMp2(integrals, functions, auxiliary, orbitals, options).run();
}

std::int64_t ri_mp2_bytes(const AoTiling& functions, std::int64_t auxiliary, std::int64_t occupied,
                          std::int64_t virtuals, int ranks) {
    const auto n = functions.functions.extent();
    const auto b = 8 * auxiliary * occupied * virtuals;
    const auto block = std::max(kRawBlock, 8 * kAuxiliaryInTile * n * n);
    return (4 * b + 2 * block) / ranks + 16 * auxiliary * auxiliary + kEnergyRoom;
}

}  // namespace tessera::chem
