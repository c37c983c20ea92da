// Extremal eigenvalues: each rank multiplies whole rows, so that sums do not depend on how many ranks there are.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <optional>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "matrix/checks.hpp"

namespace tessera {

namespace {

template <Scalar T>
using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;

double real_part(double x) { return x; }
double real_part(const std::complex<double>& x) { return x.real(); }
double conjugated(double x) { return x; }
std::complex<double> conjugated(const std::complex<double>& x) { return std::conj(x); }

template <class W>
W inner(const std::vector<W>& x, const std::vector<W>& y) {
    W sum{};
    for (std::size_t i = 0; i < x.size(); ++i) sum += conjugated(x[i]) * y[i];
    return sum;
}

/// A matrix whose tile rows are each on one rank.
template <Scalar T>
class Rows {
  public:
    using W = Wide<T>;
    Rows(const Tensor<T>& a, int threads) : a_(&a), threads_(threads) {
        Communicator& ranks = a.communicator();
        if (ranks.size() > 1) {
            moved_ = redistribute(a, Distribution(ranks.size(), {{ranks.size(), Distribution::Deal::blocked}, {}}));
            a_ = &*moved_;
        }
        const auto ordinals = a_->shape().ordinals();
        const auto columns = a_->grid().tiling(1).tile_count();
        for (std::int64_t r = 0; r <= a_->grid().tiling(0).tile_count(); ++r)
            first_.push_back(std::ranges::lower_bound(ordinals, r * columns) - ordinals.begin());
    }
    std::int64_t size() const { return a_->grid().tiling(0).extent(); }

    /// Calls visit(row, column of the tile's first element, elements) for the rows of this rank, in order within a row.
    template <class Visit>
    void for_each_row(Visit&& visit) const {
        parallel_for(static_cast<std::int64_t>(first_.size()) - 1, threads_, 8, [&](std::int64_t r) {
            for (auto s = first_[static_cast<std::size_t>(r)]; s < first_[static_cast<std::size_t>(r) + 1]; ++s) {
                const auto tile = a_->tile(s);
                if (tile.empty()) continue;
                const auto begin = a_->grid().tile_begin(a_->shape().tile(s));
                const auto extents = a_->grid().tile_extents(a_->shape().tile(s));
                for (std::int64_t i = 0; i < extents[0]; ++i)
                    visit(static_cast<std::size_t>(begin[0] + i), static_cast<std::size_t>(begin[1]),
                          tile.subspan(static_cast<std::size_t>(i * extents[1]), static_cast<std::size_t>(extents[1])));
            }
        });
    }
    std::vector<W> apply(const std::vector<W>& x) const {
        std::vector<W> y(x.size());
        for_each_row([&](std::size_t row, std::size_t column, std::span<const T> elements) {
            W sum{};
            for (std::size_t j = 0; j < elements.size(); ++j) sum += W(elements[j]) * x[column + j];
            y[row] += sum;
        });
        join(y);
        return y;
    }
    /// Each number is of one rank's rows.
    template <class N>
    void join(std::vector<N>& numbers) const {
        if (a_->communicator().size() > 1)
            a_->communicator().sum(
                std::span(reinterpret_cast<double*>(numbers.data()), numbers.size() * sizeof(N) / sizeof(double)));
    }

  private:
    const Tensor<T>* a_;
    std::optional<Tensor<T>> moved_;
    int threads_;
    std::vector<std::int64_t> first_;
};

/// Eigenvalues, ascending, of a symmetric tridiagonal matrix, and the last component of each eigenvector: QL with
/// implicit shifts.
void solve_tridiagonal(std::vector<double>& d, std::vector<double> e, std::vector<double>& last) {
    const auto n = static_cast<int>(d.size());
    e.resize(static_cast<std::size_t>(n), 0.0);
    last.assign(static_cast<std::size_t>(n), 0.0);
    last.back() = 1;
    for (int l = 0; l < n; ++l)
        for (int round = 0;; ++round) {
            ensure(round < 100, "a tridiagonal matrix of {} rows has no eigenvalues", n);
            int m = l;
            for (; m < n - 1; ++m)
                if (std::abs(e[m]) <= std::numeric_limits<double>::epsilon() * (std::abs(d[m]) + std::abs(d[m + 1])))
                    break;
            if (m == l) break;
            double g = (d[l + 1] - d[l]) / (2 * e[l]), r = std::hypot(g, 1.0);
            g = d[m] - d[l] + e[l] / (g + std::copysign(r, g));
            double s = 1, c = 1, p = 0;
            int i = m - 1;
            for (; i >= l; --i) {
                const double f = s * e[i], b = c * e[i];
                e[i + 1] = r = std::hypot(f, g);
                if (r == 0) {
                    d[i + 1] -= p;
                    e[m] = 0;
                    break;
                }
                s = f / r, c = g / r;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                const double z = last[i + 1];
                last[i + 1] = s * last[i] + c * z;
                last[i] = c * last[i] - s * z;
            }
            if (r == 0 && i >= l) continue;
            d[l] -= p;
            e[l] = g;
            e[m] = 0;
        }
}

}  // namespace

template <Scalar T>
Extremes extremal_eigenvalues(const Tensor<T>& given, double relative_error, int max_steps, int threads) {
    require(relative_error > 0 && std::isfinite(relative_error),
            "extremal_eigenvalues: a relative error of {} cannot be reached, it must be above 0", relative_error);
    require(max_steps >= 1, "extremal_eigenvalues: {} steps, at least 1 is needed", max_steps);
    if (given.on_devices()) return extremal_eigenvalues(to_host(given), relative_error, max_steps, threads);
    const Tensor<T> a = symmetric_part("extremal_eigenvalues", given);
    const Rows<T> rows(a, threads);
    const auto n = static_cast<std::size_t>(rows.size());
    Extremes out;
    if (n == 0) return out;
    using W = Wide<T>;
    std::vector<std::vector<W>> basis(1, std::vector<W>(n));
    for (std::size_t i = 0; i < n; ++i) basis[0][i] = to_signed_unit(combine(1, i));
    const double start = std::sqrt(real_part(inner(basis[0], basis[0])));
    for (W& x : basis[0]) x /= start;
    std::vector<double> alpha, beta;
    const int most = static_cast<int>(std::min<std::size_t>(n, static_cast<std::size_t>(max_steps)));
    for (int m = 1; m <= most; ++m) {
        auto w = rows.apply(basis.back());
        alpha.push_back(real_part(inner(basis.back(), w)));
        for (int again = 0; again < 2; ++again)
            for (const auto& v : basis) {
                const W part = inner(v, w);
                for (std::size_t i = 0; i < n; ++i) w[i] -= part * v[i];
            }
        const double size = std::sqrt(real_part(inner(w, w)));
        auto values = alpha;
        std::vector<double> last;
        solve_tridiagonal(values, beta, last);
        const auto low = static_cast<std::size_t>(std::ranges::min_element(values) - values.begin());
        const auto high = static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
        out = {values[low], values[high], size * std::abs(last[low]), size * std::abs(last[high]), m};
        const double scale = std::max(std::abs(out.lowest), std::abs(out.highest));
        if (size <= 1e-14 * scale) break;  // an invariant subspace
        if (m > 3 && std::max(out.lowest_error, out.highest_error) <= relative_error * scale) break;
        beta.push_back(size);
        for (W& x : w) x /= size;
        basis.push_back(std::move(w));
    }
    return out;
}

template <Scalar T>
Extremes gershgorin_interval(const Tensor<T>& given, int threads) {
    if (given.on_devices()) return gershgorin_interval(to_host(given), threads);
    const Tensor<T> a = symmetric_part("gershgorin_interval", given);
    const Rows<T> rows(a, threads);
    const auto n = static_cast<std::size_t>(rows.size());
    Extremes out;
    if (n == 0) return out;
    std::vector<double> middle(n), radius(n);
    rows.for_each_row([&](std::size_t row, std::size_t column, std::span<const T> elements) {
        for (std::size_t j = 0; j < elements.size(); ++j)
            if (column + j == row)
                middle[row] = static_cast<double>(std::real(elements[j]));
            else
                radius[row] += static_cast<double>(std::abs(elements[j]));
    });
    rows.join(middle);
    rows.join(radius);
    const double more = 1 + 1e-15 * static_cast<double>(n);  // than the sums were rounded
    out.lowest = std::numeric_limits<double>::infinity();
    out.highest = -out.lowest;
    for (std::size_t i = 0; i < n; ++i) {
        out.lowest = std::min(out.lowest, middle[i] - more * radius[i]);
        out.highest = std::max(out.highest, middle[i] + more * radius[i]);
    }
    return out;
}

#define TESSERA_INSTANTIATE(T)                                                  \
    template Extremes extremal_eigenvalues(const Tensor<T>&, double, int, int); \
    template Extremes gershgorin_interval(const Tensor<T>&, int);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
