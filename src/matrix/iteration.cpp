#include "matrix/iteration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.hpp"
#include "comm/same_on_all.hpp"
#include "contract/planned_impl.hpp"
#include "shape/require_whole.hpp"
#include "tensor/tile_turns.hpp"
#include "tensor/two_tensors.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {

namespace {

/// Sums of norms along tile rows and tile columns; the largest of each.
double root_of_sums(const std::vector<double>& rows, const std::vector<double>& columns) {
    const double r = rows.empty() ? 0 : *std::ranges::max_element(rows);
    const double c = columns.empty() ? 0 : *std::ranges::max_element(columns);
    return std::sqrt(r * c);
}

class NormSums {
  public:
    explicit NormSums(const TileGrid& grid)
        : grid_(&grid),
          rows_(static_cast<std::size_t>(grid.tiling(0).tile_count())),
          columns_(static_cast<std::size_t>(grid.tiling(1).tile_count())) {}
    void add(TileOrdinal tile, double norm, bool mirrored = false) {
        const auto at = grid_->coordinates(tile);
        add(static_cast<std::size_t>(at[0]), static_cast<std::size_t>(at[1]), norm);
        if (mirrored && at[0] != at[1]) add(static_cast<std::size_t>(at[1]), static_cast<std::size_t>(at[0]), norm);
    }
    double frobenius() const { return std::sqrt(square_); }
    ErrorNorms bounds() const {
        const double frobenius = std::sqrt(square_) * (1 + 1e-12);
        return {frobenius, std::min(frobenius, root_of_sums(rows_, columns_) * (1 + 1e-12))};
    }

  private:
    void add(std::size_t row, std::size_t column, double norm) {
        rows_[row] += norm;
        columns_[column] += norm;
        square_ += norm * norm;
    }
    const TileGrid* grid_;
    std::vector<double> rows_, columns_;
    double square_ = 0;
};

/// Makes a tile of the diagonal the mean of itself and its (conjugate) transpose.
template <Scalar T>
void symmetrise_tile(std::int64_t n, std::span<T> tile) {
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j <= i; ++j) {
            T &x = tile[static_cast<std::size_t>(i * n + j)], &y = tile[static_cast<std::size_t>(j * n + i)];
            x = (x + conjugate_if(y, true)) * RealOf<T>(0.5);
            y = conjugate_if(x, true);
        }
}

/// The most elements that a sum over index `contracted` of A has.
std::int64_t longest_sum(const Shape& a, int contracted) {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(a.grid().tiling(1 - contracted).tile_count()));
    for (std::int64_t s = 0; s < a.tile_count(); ++s) {
        const auto at = a.grid().coordinates(a.tile(s));
        sums[static_cast<std::size_t>(at[1 - contracted])] += a.grid().tile_extents(a.tile(s))[contracted];
    }
    return sums.empty() ? 0 : *std::ranges::max_element(sums);
}

template <Scalar T>
Tensor<T> conjugate_transpose(const Tensor<T>& a, int threads) {
    auto out = permute(a, Permutation({1, 0}), threads);
    if constexpr (is_complex<T>)
        out.update_tiles(
            [](const TileInfo&, std::span<T> tile) {
                for (T& e : tile) e = std::conj(e);
            },
            threads);
    return out;
}

/// Tiles on and above the diagonal.
std::vector<std::int64_t> upper_tiles(const Shape& a) {
    std::vector<std::int64_t> out;
    for (std::int64_t s = 0; s < a.tile_count(); ++s) {
        const auto at = a.grid().coordinates(a.tile(s));
        if (at[0] <= at[1]) out.push_back(a.tile(s).value);
    }
    return out;
}

/// Gives y these tiles too, zeros; mostly it has them.
template <Scalar T>
void with_tiles(Tensor<T>& y, std::vector<std::int64_t> tiles, int threads) {
    const auto there = y.shape().ordinals();
    if (std::ranges::includes(there, tiles)) return;
    std::vector<std::int64_t> all;
    std::ranges::set_union(there, tiles, std::back_inserter(all));
    std::vector<double> norms(all.size(), 0.0);
    y = Tensor<T>::generate(
        Shape::from_sorted(y.grid(), std::move(all), std::move(norms), y.shape().symmetry()),
        [&](const TileInfo& info, std::span<T> tile) {
            if (const auto slot = y.shape().find(info.tile))
                std::ranges::copy(y.tile(*slot), tile.begin());
            else
                std::ranges::fill(tile, T{});
        },
        threads, y.placement());
}

}  // namespace

template <Scalar T>
void require_square_tiles(const char* operation, const Tensor<T>& a) {
    require(a.rank() == 2, "{}: a matrix is needed, this tensor has rank {}", operation, a.rank());
    require_whole(operation, a.shape());
    const auto &rows = a.grid().tiling(0), &columns = a.grid().tiling(1);
    require(rows.extent() == columns.extent(), "{}: a square matrix is needed, this one has {} rows and {} columns",
            operation, rows.extent(), columns.extent());
    require(rows == columns, "{}: rows are {} and columns {}: {}; retile the matrix", operation, to_string(rows),
            to_string(columns), first_difference(rows, columns));
}

template <Scalar T>
Tensor<T> symmetrised(Tensor<T> a, int threads) {
    const auto other = conjugate_transpose(a, threads);
    return add<T>(T(RealOf<T>(0.5)), a, T(RealOf<T>(0.5)), other);
}

template <Scalar T>
Tensor<T> symmetric_part(const char* operation, const Tensor<T>& a) {
    require_square_tiles(operation, a);
    const double size = norm(a);
    const auto other = conjugate_transpose(a, 0);
    const double off = norm(add<T>(T(1), a, T(-1), other));
    if (off == 0 && a.shape().same_tiles(other.shape())) return a;
    const double most = std::is_same_v<RealOf<T>, float> ? 1e-5 : 1e-10;
    require(off <= most * size, "{}: a {} matrix is needed, this one is {:.2g} off, of a norm of {:.2g}", operation,
            is_complex<T> ? "hermitian" : "symmetric", off, size);
    return symmetrised(a, 0);
}

void require_options(const char* operation, const MatrixOptions& o) {
    require(o.filter >= 0 && std::isfinite(o.filter), "{}: filter {} is not a finite number >= 0", operation, o.filter);
    require(o.tolerance >= 0 && std::isfinite(o.tolerance), "{}: tolerance {} is not a finite number >= 0", operation,
            o.tolerance);
    require(o.max_iterations >= 1, "{}: {} iterations at most, at least 1 is needed", operation, o.max_iterations);
}

void require_same_options(const char* operation, Communicator& ranks, const MatrixOptions& o) {
    if (ranks.size() == 1) return;
    require_same_on_all(ranks, {{fmt::format("the filter of {}", operation), fmt::format("{}", o.filter)},
                                {fmt::format("the tolerance of {}", operation), fmt::format("{}", o.tolerance)},
                                {"the most iterations", fmt::format("{}", o.max_iterations)},
                                {"the scaling", fmt::format("{}", static_cast<int>(o.scaling))}});
}

ErrorNorms norms_of(const Shape& a) {
    NormSums sums(a.grid());
    for (std::int64_t s = 0; s < a.tile_count(); ++s) sums.add(a.tile(s), a.norm_of(s), !a.symmetry().none());
    return {sums.frobenius(), sums.bounds().spectral};
}

template <Scalar T>
ErrorNorms rounding_of_product(const Shape& a, const Shape& b, const std::string& spec) {
    const bool transposed = spec[0] == 'k';
    const double unit = std::numeric_limits<RealOf<T>>::epsilon() * (is_complex<T> ? 3 : 1);
    const double terms = unit * static_cast<double>(longest_sum(a, transposed ? 0 : 1) + 4);
    const double bound = spectral_bound(b);
    return {terms * a.norm() * bound, terms * spectral_bound(a) * bound};
}

template <Scalar T>
double real_trace(const Tensor<T>& x) {
    return static_cast<double>(std::real(trace(x)));
}

template <Scalar T>
MatrixStep step_of(const Tensor<T>& x, double left_out) {
    MatrixStep step;
    step.left_out = left_out;
    step.tiles = x.tile_count();
    step.trace = real_trace(x);
    return step;
}

void complete_step(MatrixReport& report, const MatrixStep& step, double begin) {
    auto& entered = report.history.back();
    entered.planned |= step.planned;
    entered.plan_seconds = step.plan_seconds;
    entered.seconds = now_seconds() - begin;
}

template <Scalar T>
Tensor<T> KeptProduct<T>::operator()(const Tensor<T>& a, const Tensor<T>& b, const Resources& here,
                                     MatrixReport& report, MatrixStep& step) {
    const auto serves = [&] {
        return planned_ && planned_->impl().shape_a().same_tiles(a.shape()) &&
               planned_->impl().shape_b().same_tiles(b.shape());
    };
    const double start = now_seconds();
    if (!serves()) {
        ContractOptions what;
        what.alpha = alpha_;
        what.conjugate_a = conjugate_a_;
        what.result_symmetry = result_;
        if (a.communicator().size() > 1) what.result_distribution = b.distribution();
        planned_.reset();  // not both at a time
        planned_ = plan<T>(spec_, a, b, here, what);
        ++report.plans;
        report.plan_seconds += planned_->seconds();
        step.planned = true;
        step.plan_seconds += planned_->seconds();
    }
    auto ran = execute<T>(*planned_, a, b);
    report.flops += ran.report.flops;
    ++report.products;
    if (!ran.report.devices.empty()) ++report.device_products;
    report.product_seconds += now_seconds() - start;
    rounding_ = std::abs(alpha_) * rounding_of_product<T>(a.shape(), b.shape(), spec_);
    return std::move(ran.tensor);
}

template <Scalar T>
ErrorNorms drop_small_tiles(Tensor<T>& x, double filter, const Shape* before, int threads) {
    if (filter == 0) return {};
    const Shape& shape = x.shape();
    const bool symmetric = !shape.symmetry().none();
    const bool square = !symmetric && shape.grid().tiling(0) == shape.grid().tiling(1);
    std::vector<std::int64_t> kept;
    kept.reserve(static_cast<std::size_t>(shape.tile_count()));
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        bool stays = shape.norm_of(s) >= filter;
        if (!stays && square) {
            const auto at = shape.grid().coordinates(shape.tile(s));
            const auto mirror = shape.find(shape.grid().ordinal({at[1], at[0]}));
            stays = mirror && shape.norm_of(*mirror) >= filter;
        }
        if (stays) kept.push_back(shape.tile(s).value);
    }
    if (before && static_cast<double>(before->tile_count()) <= 1.1 * static_cast<double>(kept.size()) &&
        std::ranges::includes(before->ordinals(), kept) && std::ranges::includes(shape.ordinals(), before->ordinals()))
        kept.assign(before->ordinals().begin(), before->ordinals().end());
    if (static_cast<std::int64_t>(kept.size()) == shape.tile_count()) return {};
    NormSums dropped(shape.grid());
    auto next = kept.begin();
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        if (next != kept.end() && *next == shape.tile(s).value)
            ++next;
        else
            dropped.add(shape.tile(s), shape.norm_of(s), symmetric);
    std::vector<double> norms(kept.size());
    x = Tensor<T>::generate(
        Shape::from_sorted(shape.grid(), std::move(kept), std::move(norms), shape.symmetry()),
        [&](const TileInfo& info, std::span<T> tile) {
            std::ranges::copy(x.tile(*x.shape().find(info.tile)), tile.begin());
        },
        threads, x.placement());
    return dropped.bounds();
}

template <Scalar T>
ErrorNorms distance(const Tensor<T>& x, const Tensor<T>& given, int threads) {
    const DealtLike<T> dealt("distance", given, x);
    const Tensor<T>& y = *dealt;
    std::vector<double> norms(static_cast<std::size_t>(x.tile_count()));
    parallel_for(x.impl().local_count(), threads, tiles_of_a_turn<T>(x.impl(), threads), [&](std::int64_t i) {
        const std::int64_t s = x.impl().local_slot(i);
        const auto other = y.shape().find(x.shape().tile(s));
        if (!other) {
            norms[s] = x.shape().norm_of(s);
            return;
        }
        const T *a = x.impl().tile(s), *b = y.impl().tile(*other);
        const std::int64_t n = x.impl().elements(s);
        double sum = 0;
        for (std::int64_t e = 0; e < n; ++e) {
            const T d = a[e] - b[e];
            const auto real = static_cast<double>(std::real(d)), imag = static_cast<double>(std::imag(d));
            sum += real * real + imag * imag;
        }
        norms[s] = std::sqrt(sum);
    });
    x.impl().collect(norms);
    NormSums sums(x.grid());
    const auto& symmetry = x.shape().symmetry();
    for (std::int64_t s = 0; s < x.tile_count(); ++s) sums.add(x.shape().tile(s), norms[s], !symmetry.none());
    for (std::int64_t s = 0; s < y.tile_count(); ++s) {
        const auto tile = y.shape().tile(s);
        if (!x.shape().find(symmetry.none() ? tile : symmetry.stand_in(x.grid(), tile)))
            sums.add(tile, y.shape().norm_of(s));
    }
    return sums.bounds();
}

template <Scalar T>
void combine_into(double alpha, const Tensor<T>& given, double beta, Tensor<T>& y, int threads) {
    const T p = static_cast<RealOf<T>>(alpha), q = static_cast<RealOf<T>>(beta);
    const bool symmetric = !y.shape().symmetry().none();
    const DealtLike<T> dealt("add", given, y);
    const Tensor<T>& x = *dealt;
    with_tiles(y,
               symmetric ? upper_tiles(x.shape())
                         : std::vector<std::int64_t>(x.shape().ordinals().begin(), x.shape().ordinals().end()),
               threads);
    y.update_tiles(
        [&](const TileInfo& info, std::span<T> out) {
            if (const auto slot = x.shape().find(info.tile)) {
                const T* a = x.impl().tile(*slot);
                for (std::size_t i = 0; i < out.size(); ++i) out[i] = p * a[i] + q * out[i];
            } else {
                for (T& e : out) e *= q;
            }
            if (symmetric && info.coordinates[0] == info.coordinates[1]) symmetrise_tile(info.extents[0], out);
        },
        threads);
}

template <Scalar T>
void subtract_from_identity(Tensor<T>& x, int threads) {
    std::vector<std::int64_t> diagonal;
    for (std::int64_t i = 0; i < x.grid().tiling(0).tile_count(); ++i)
        diagonal.push_back(x.grid().ordinal({i, i}).value);
    with_tiles(x, std::move(diagonal), threads);
    const bool symmetric = !x.shape().symmetry().none();
    x.update_tiles(
        [&](const TileInfo& info, std::span<T> tile) {
            for (T& e : tile) e = -e;
            if (info.coordinates[0] != info.coordinates[1]) return;
            for (std::int64_t i = 0; i < info.extents[0]; ++i)
                tile[static_cast<std::size_t>(i * (info.extents[1] + 1))] += T(1);
            if (symmetric) symmetrise_tile(info.extents[0], tile);
        },
        threads);
}

template <Scalar T>
void symmetrise_diagonal(Tensor<T>& x, int threads) {
    if constexpr (is_complex<T>)
        x.update_tiles(
            [](const TileInfo& info, std::span<T> tile) {
                if (info.coordinates[0] == info.coordinates[1]) symmetrise_tile(info.extents[0], tile);
            },
            threads);
}

template <Scalar T>
Tensor<T> identity_like(const Tensor<T>& a, double value) {
    Tensor<T> out(Shape(a.grid()), a.placement());
    add_on_diagonal(out, static_cast<T>(static_cast<RealOf<T>>(value)));
    return out;
}

Extremes widened(const Extremes& found) {
    Extremes out = found;
    const double more = 0.01 * (found.highest - found.lowest);
    out.lowest -= std::max(2 * found.lowest_error, more);
    out.highest += std::max(2 * found.highest_error, more);
    return out;
}

template <Scalar T>
Extremes interval_of(const Tensor<T>& symmetric, const MatrixOptions& options, int threads) {
    const Extremes discs = gershgorin_interval(symmetric, threads);
    if (options.scaling == Scaling::gershgorin) return discs;
    Extremes close = widened(extremal_eigenvalues(symmetric, 1e-3, 100, threads));
    close.lowest = std::max(close.lowest, discs.lowest);
    close.highest = std::min(close.highest, discs.highest);
    return close;
}

void Convergence::fail(MatrixReport& report, const std::string& why) const {
    const auto n = report.history.size();
    throw MatrixNotConverged(fmt::format("{}: not converged after {} iteration{}, with a residual of {:.2e}: {}",
                                         operation_, n, n == 1 ? "" : "s", report.residual, why),
                             report);
}

bool Convergence::done(MatrixReport& report, const MatrixStep& step) const {
    report.history.push_back(step);
    report.residual = step.residual;
    if (options_->on_step) options_->on_step(step);
    const auto& past = report.history;
    if (!std::isfinite(step.residual) || step.residual > 1e30) fail(report, "it grows without limit");
    if (options_->tolerance > 0 && step.residual <= options_->tolerance) return true;
    if (step.residual == 0) return true;
    // Below a tenth residuals are squared: one that is not even halved twice is rounding, or what the filter leaves.
    if (past.size() > lag_) {
        const double before = past[past.size() - 1 - lag_].residual;
        if (before < 0.1 && step.residual > 0.25 * before) {
            if (options_->tolerance == 0) return true;
            fail(report, fmt::format("it falls no further, and {} was asked for; a smaller filter may reach it",
                                     options_->tolerance));
        }
    }
    if (static_cast<int>(past.size()) > options_->max_iterations)
        fail(report,
             options_->filter > 0 ? "a smaller filter or more iterations may help" : "more iterations may help");
    return false;
}

#define TESSERA_INSTANTIATE(T)                                                                  \
    template void require_square_tiles(const char*, const Tensor<T>&);                          \
    template Tensor<T> symmetrised(Tensor<T>, int);                                             \
    template Tensor<T> symmetric_part(const char*, const Tensor<T>&);                           \
    template ErrorNorms rounding_of_product<T>(const Shape&, const Shape&, const std::string&); \
    template double real_trace(const Tensor<T>&);                                               \
    template MatrixStep step_of(const Tensor<T>&, double);                                      \
    template class KeptProduct<T>;                                                              \
    template ErrorNorms drop_small_tiles(Tensor<T>&, double, const Shape*, int);                \
    template ErrorNorms distance(const Tensor<T>&, const Tensor<T>&, int);                      \
    template void combine_into(double, const Tensor<T>&, double, Tensor<T>&, int);              \
    template void subtract_from_identity(Tensor<T>&, int);                                      \
    template void symmetrise_diagonal(Tensor<T>&, int);                                         \
    template Tensor<T> identity_like(const Tensor<T>&, double);                                 \
    template Extremes interval_of(const Tensor<T>&, const MatrixOptions&, int);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
