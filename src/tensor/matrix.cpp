#include "tessera/tensor/matrix.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "base/parallel.hpp"
#include "kernels/tile_math.hpp"
#include "shape/require_whole.hpp"
#include "storage/dry_run.hpp"
#include "tensor/resident.hpp"
#include "tensor/two_tensors.hpp"

namespace tessera {

namespace {

template <Scalar T>
void require_matrix(const char* operation, const Tensor<T>& a) {
    require(a.rank() == 2, "{}: a matrix is needed, this tensor has rank {}", operation, a.rank());
    require_whole(operation, a.shape());
}

template <Scalar T>
void require_square(const char* operation, const Tensor<T>& a) {
    require_matrix(operation, a);
    const auto rows = a.grid().tiling(0).extent(), columns = a.grid().tiling(1).extent();
    require(rows == columns, "{}: a square matrix is needed, this one has {} rows and {} columns", operation, rows,
            columns);
}

template <Scalar T>
void require_values(const char* operation, const char* what, std::int64_t wanted, std::span<const T> values) {
    require(static_cast<std::int64_t>(values.size()) == wanted, "{}: {} values for {} {}", operation, values.size(),
            wanted, what);
    for (std::size_t i = 0; i < values.size(); ++i)
        require(std::isfinite(std::abs(values[i])), "{}: value {} is not a finite number", operation, i);
}

/// The part of the diagonal that a tile has: elements [lo, hi) of it.
struct OnDiagonal {
    std::int64_t lo, hi;
    explicit OnDiagonal(const TileInfo& info)
        : lo(std::max(info.begin[0], info.begin[1])),
          hi(std::min(info.begin[0] + info.extents[0], info.begin[1] + info.extents[1])) {}
    bool empty() const { return lo >= hi; }
    /// Calls visit(i, element (i, i)) along it.
    template <class E, class Visit>
    void for_each(const TileInfo& info, E* tile, Visit&& visit) const {
        for (std::int64_t i = lo; i < hi; ++i)
            visit(i, tile[(i - info.begin[0]) * info.extents[1] + (i - info.begin[1])]);
    }
};

/// Tiles of a square grid that the diagonal passes, in ascending order.
std::vector<std::int64_t> diagonal_tiles(const TileGrid& grid) {
    std::vector<std::int64_t> tiles;
    const Tiling &rows = grid.tiling(0), &columns = grid.tiling(1);
    for (std::int64_t i = 0, j = 0; i < rows.tile_count() && j < columns.tile_count();) {
        tiles.push_back(grid.ordinal({i, j}).value);
        const auto row_end = rows.offsets()[static_cast<std::size_t>(i) + 1],
                   column_end = columns.offsets()[static_cast<std::size_t>(j) + 1];
        i += row_end <= column_end;
        j += column_end <= row_end;
    }
    return tiles;
}

/// The matrix with all tiles that the diagonal passes.
template <Scalar T>
void store_diagonal(Tensor<T>& a) {
    const auto tiles = diagonal_tiles(a.grid());
    const auto there = a.shape().ordinals();
    if (std::ranges::includes(there, tiles)) return;
    std::vector<std::int64_t> all;
    std::ranges::set_union(there, tiles, std::back_inserter(all));
    std::vector<double> norms(all.size(), 0.0);
    a = Tensor<T>::generate(
        Shape::from_sorted(a.grid(), std::move(all), std::move(norms)),
        [&](const TileInfo& info, std::span<T> tile) {
            const auto old = a.tile(info.coordinates);
            if (old.empty())
                std::ranges::fill(tile, T{});
            else
                std::ranges::copy(old, tile.begin());
        },
        0, a.placement());
}

/// Sums of numbers >= 0, each sum at most `most`: the same bits in any order, as sums of integers have. Two integers
/// stand for a number, so that nothing is lost that a double could hold.
class AnyOrderSums {
  public:
    AnyOrderSums(std::size_t sums, std::int64_t most)
        : bits_(61 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1))))),
          parts_(2 * sums) {}
    void add(std::size_t i, double x) {
        const double high = std::rint(std::ldexp(x, bits_));
        parts_[2 * i] += static_cast<std::int64_t>(high);
        parts_[2 * i + 1] += static_cast<std::int64_t>(std::rint(std::ldexp(x - std::ldexp(high, -bits_), 2 * bits_)));
    }
    /// Collective.
    std::vector<double> join(Communicator& ranks) {
        ranks.sum(std::span<std::int64_t>(parts_));
        std::vector<double> sums(parts_.size() / 2);
        for (std::size_t i = 0; i < sums.size(); ++i)
            sums[i] = std::ldexp(static_cast<double>(parts_[2 * i]), -bits_) +
                      std::ldexp(static_cast<double>(parts_[2 * i + 1]), -2 * bits_);
        return sums;
    }

  private:
    int bits_;
    std::vector<std::int64_t> parts_;
};

/// Of each row (index 0) or column (index 1): the largest magnitude, and the sum of term(magnitude / largest).
struct LineSums {
    std::vector<double> largest, sums;
};
template <Scalar T, class Term>
LineSums sum_lines(const Tensor<T>& a, int index, Term&& term) {
    const auto lines = static_cast<std::size_t>(a.grid().tiling(index).extent());
    LineSums out{std::vector<double>(lines), {}};
    AnyOrderSums sums(lines, a.grid().tiling(1 - index).extent());
    std::mutex mutex;
    // In a tile first, without a lock: visit(line, element), then done(line).
    const auto each_tile = [&](double start, const auto& visit, const auto& done) {
        a.for_each_tile(
            [&](const TileInfo& info, std::span<const T> tile) {
                const auto begin = static_cast<std::size_t>(info.begin[index]);
                std::vector<double> mine(static_cast<std::size_t>(info.extents[index]), start);
                const auto columns = static_cast<std::size_t>(info.extents[1]);
                for (std::size_t e = 0; e < tile.size(); ++e) {
                    const std::size_t line = index == 0 ? e / columns : e % columns;
                    visit(mine[line], begin + line, static_cast<double>(std::abs(tile[e])));
                }
                const std::lock_guard lock(mutex);
                for (std::size_t i = 0; i < mine.size(); ++i) done(begin + i, mine[i]);
            },
            0);
    };
    each_tile(
        0.0, [](double& most, std::size_t, double x) { most = std::max(most, x); },
        [&](std::size_t line, double x) { out.largest[line] = std::max(out.largest[line], x); });
    a.communicator().max(out.largest);
    each_tile(
        0.0,
        [&](double& sum, std::size_t line, double x) {
            if (out.largest[line] > 0) sum += term(x / out.largest[line]);
        },
        [&](std::size_t line, double x) { sums.add(line, x); });
    out.sums = sums.join(a.communicator());
    return out;
}

}  // namespace

namespace {

/// Of a matrix on devices: the tiles that meet the diagonal, on the host.
template <Scalar T>
Tensor<T> diagonal_on_host(const Tensor<T>& a) {
    std::vector<std::int64_t> both;
    auto meets = diagonal_tiles(a.grid());
    std::ranges::sort(meets);
    std::ranges::set_intersection(a.tiles().ordinals(), meets, std::back_inserter(both));
    std::vector<double> norms(both.size(), 0.0);
    return to_host(resident::part(Shape::from_sorted(a.grid(), std::move(both), std::move(norms)), a));
}

}  // namespace

template <Scalar T>
T trace(const Tensor<T>& a) {
    // Whatever symmetry a matrix has, the tiles of its diagonal are stored.
    require(a.rank() == 2, "trace: a matrix is needed, this tensor has rank {}", a.rank());
    if (a.tiles().symmetry().none()) require_square("trace", a);
    if (DryRun::current()) return T{};
    if (a.on_devices()) return trace(diagonal_on_host(a));
    const auto tiles = diagonal_tiles(a.grid());
    std::vector<T> partial(tiles.size());
    parallel_for(static_cast<std::int64_t>(tiles.size()), 0, 16, [&](std::int64_t n) {
        const auto i = static_cast<std::size_t>(n);
        const auto info = tile_info(a.grid(), TileOrdinal{tiles[i]});
        const auto tile = a.tile(info.coordinates);
        if (!tile.empty())
            OnDiagonal(info).for_each(info, tile.data(), [&](std::int64_t, const T& e) { partial[i] += e; });
    });
    return sum_of_tiles(a.communicator(), std::move(partial));
}

template <Scalar T>
T trace(const Tensor<T>& a, const Tensor<T>& given) {
    require_matrix("trace", a);
    require_matrix("trace", given);
    for (int d = 0; d < 2; ++d)
        require(a.grid().tiling(d) == given.grid().tiling(1 - d),
                "trace: the {} of one matrix are {} and the {} of the other {}: {}", d == 0 ? "rows" : "columns",
                to_string(a.grid().tiling(d)), d == 0 ? "columns" : "rows", to_string(given.grid().tiling(1 - d)),
                first_difference(a.grid().tiling(d), given.grid().tiling(1 - d)));
    const DealtLike<T> dealt("trace", given, a, a.distribution().permuted({1, 0}));
    const Tensor<T>& b = *dealt;
    if (DryRun::current()) return T{};
    if (a.on_devices() || b.on_devices()) return trace(to_host(a), to_host(b));
    std::vector<T> partial(static_cast<std::size_t>(a.tile_count()));
    parallel_for(a.impl().local_count(), 0, 4, [&](std::int64_t n) {
        const std::int64_t s = a.impl().local_slot(n);
        const auto at = a.grid().coordinates(a.shape().tile(s)), extents = a.grid().tile_extents(a.shape().tile(s));
        const auto other = b.tile({at[1], at[0]});
        if (other.empty()) return;
        const T *x = a.impl().tile(s), *y = other.data();
        T sum{};
        for (std::int64_t i = 0; i < extents[0]; ++i)
            for (std::int64_t j = 0; j < extents[1]; ++j) sum += x[i * extents[1] + j] * y[j * extents[0] + i];
        partial[static_cast<std::size_t>(s)] = sum;
    });
    return sum_of_tiles(a.communicator(), std::move(partial));
}

template <Scalar T>
std::vector<T> diagonal(const Tensor<T>& a) {
    require_square("diagonal", a);
    if (a.on_devices()) return diagonal(diagonal_on_host(a));
    constexpr std::size_t parts = is_complex<T> ? 2 : 1;
    // Each element comes from one rank: as integers, zeros keep their sign.
    std::vector<std::int64_t> bits(static_cast<std::size_t>(a.grid().tiling(0).extent()) * parts);
    a.for_each_tile(
        [&](const TileInfo& info, std::span<const T> tile) {
            OnDiagonal(info).for_each(info, tile.data(), [&](std::int64_t i, const T& e) {
                const auto* reals = reinterpret_cast<const RealOf<T>*>(&e);
                for (std::size_t p = 0; p < parts; ++p)
                    bits[static_cast<std::size_t>(i) * parts + p] =
                        std::bit_cast<std::int64_t>(static_cast<double>(reals[p]));
            });
        },
        0);
    a.communicator().sum(std::span<std::int64_t>(bits));
    std::vector<T> out(bits.size() / parts);
    auto* reals = reinterpret_cast<RealOf<T>*>(out.data());
    for (std::size_t i = 0; i < bits.size(); ++i) reals[i] = static_cast<RealOf<T>>(std::bit_cast<double>(bits[i]));
    return out;
}

template <Scalar T>
void set_diagonal(Tensor<T>& a, std::span<const std::type_identity_t<T>> values) {
    require_square("set_diagonal", a);
    require_values<T>("set_diagonal", "rows", a.grid().tiling(0).extent(), values);
    store_diagonal(a);
    a.update_tiles([&](const TileInfo& info, std::span<T> tile) {
        OnDiagonal(info).for_each(info, tile.data(),
                                  [&](std::int64_t i, T& e) { e = values[static_cast<std::size_t>(i)]; });
    });
}

template <Scalar T>
void add_on_diagonal(Tensor<T>& a, std::type_identity_t<T> alpha) {
    require_square("add_on_diagonal", a);
    require(std::isfinite(std::abs(alpha)), "add_on_diagonal: what is to be added is not a finite number");
    store_diagonal(a);
    a.update_tiles([&](const TileInfo& info, std::span<T> tile) {
        OnDiagonal(info).for_each(info, tile.data(), [&](std::int64_t, T& e) { e += alpha; });
    });
}

template <Scalar T>
Tensor<T> triangle(const Tensor<T>& a, Triangle which) {
    require_matrix("triangle", a);
    const bool upper = which == Triangle::upper;
    std::vector<ShapeEntry> kept;
    for (std::int64_t s = 0; s < a.tile_count(); ++s) {
        const auto begin = a.grid().tile_begin(a.shape().tile(s)), extents = a.grid().tile_extents(a.shape().tile(s));
        const bool meets = upper ? begin[1] + extents[1] > begin[0] : begin[0] + extents[0] > begin[1];
        if (meets) kept.push_back({a.shape().tile(s), a.shape().norm_of(s)});
    }
    return Tensor<T>::generate(
        Shape(a.grid(), std::move(kept)),
        [&](const TileInfo& info, std::span<T> tile) {
            std::ranges::copy(a.tile(info.coordinates), tile.begin());
            for (std::int64_t i = 0; i < info.extents[0]; ++i) {
                // How many elements of the row stand left of the diagonal.
                const auto left =
                    std::clamp<std::int64_t>(info.begin[0] + i - info.begin[1] + (upper ? 0 : 1), 0, info.extents[1]);
                T* row = tile.data() + i * info.extents[1];
                if (upper)
                    std::fill(row, row + left, T{});
                else
                    std::fill(row + left, row + info.extents[1], T{});
            }
        },
        0, a.placement());
}

template <Scalar T>
void scale_rows(Tensor<T>& a, std::span<const std::type_identity_t<T>> values) {
    require_matrix("scale_rows", a);
    require_values<T>("scale_rows", "rows", a.grid().tiling(0).extent(), values);
    a.update_tiles([&](const TileInfo& info, std::span<T> tile) {
        T* e = tile.data();
        for (std::int64_t i = 0; i < info.extents[0]; ++i) {
            const T by = values[static_cast<std::size_t>(info.begin[0] + i)];
            for (std::int64_t j = 0; j < info.extents[1]; ++j) *e++ *= by;
        }
    });
}

template <Scalar T>
void scale_columns(Tensor<T>& a, std::span<const std::type_identity_t<T>> values) {
    require_matrix("scale_columns", a);
    require_values<T>("scale_columns", "columns", a.grid().tiling(1).extent(), values);
    a.update_tiles([&](const TileInfo& info, std::span<T> tile) {
        T* e = tile.data();
        const T* by = values.data() + info.begin[1];
        for (std::int64_t i = 0; i < info.extents[0]; ++i)
            for (std::int64_t j = 0; j < info.extents[1]; ++j) *e++ *= by[j];
    });
}

template <Scalar T>
double frobenius(const Tensor<T>& a) {
    require(a.rank() == 2, "frobenius: a matrix is needed, this tensor has rank {}", a.rank());
    return norm(a);
}

template <Scalar T>
double gershgorin_norm(const Tensor<T>& a) {
    require_matrix("gershgorin_norm", a);
    if (DryRun::current()) return 0;
    const auto lines = sum_lines(a, 0, [](double x) { return x; });
    double most = 0;
    for (std::size_t i = 0; i < lines.sums.size(); ++i) most = std::max(most, lines.largest[i] * lines.sums[i]);
    return most;
}

template <Scalar T>
std::vector<double> column_norms(const Tensor<T>& a) {
    require_matrix("column_norms", a);
    const auto lines = sum_lines(a, 1, [](double x) { return x * x; });
    std::vector<double> norms(lines.sums.size());
    for (std::size_t i = 0; i < norms.size(); ++i) norms[i] = lines.largest[i] * std::sqrt(lines.sums[i]);
    return norms;
}

template <Scalar T>
Tensor<T> hadamard(const Tensor<T>& a, const Tensor<T>& given) {
    require_same_grid("hadamard", a, given);
    require_whole("hadamard", a.tiles());
    require_whole("hadamard", given.tiles());
    const DealtLike<T> dealt("hadamard", given, a);
    const Tensor<T>& b = *dealt;
    std::vector<std::int64_t> both;
    std::ranges::set_intersection(a.tiles().ordinals(), b.tiles().ordinals(), std::back_inserter(both));
    std::vector<double> norms(both.size(), 0.0);
    if (a.on_devices() || b.on_devices())
        return resident::multiply(Shape::from_sorted(a.grid(), std::move(both), std::move(norms)), a, b);
    return Tensor<T>::generate(
        Shape::from_sorted(a.grid(), std::move(both), std::move(norms)),
        [&](const TileInfo& info, std::span<T> tile) {
            multiply_elements(a.impl().tile(*a.shape().find(info.tile)), b.impl().tile(*b.shape().find(info.tile)),
                              tile.data(), static_cast<std::int64_t>(tile.size()), {.overwrite = true});
        },
        0, a.placement());
}

#define TESSERA_INSTANTIATE(T)                                                         \
    template T trace(const Tensor<T>&);                                                \
    template T trace(const Tensor<T>&, const Tensor<T>&);                              \
    template std::vector<T> diagonal(const Tensor<T>&);                                \
    template void set_diagonal(Tensor<T>&, std::span<const std::type_identity_t<T>>);  \
    template void add_on_diagonal(Tensor<T>&, std::type_identity_t<T>);                \
    template Tensor<T> triangle(const Tensor<T>&, Triangle);                           \
    template void scale_rows(Tensor<T>&, std::span<const std::type_identity_t<T>>);    \
    template void scale_columns(Tensor<T>&, std::span<const std::type_identity_t<T>>); \
    template double frobenius(const Tensor<T>&);                                       \
    template double gershgorin_norm(const Tensor<T>&);                                 \
    template std::vector<double> column_norms(const Tensor<T>&);                       \
    template Tensor<T> hadamard(const Tensor<T>&, const Tensor<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
