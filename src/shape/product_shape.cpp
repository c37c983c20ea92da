#include "shape/product_shape.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "index/matrix_view.hpp"
#include "shape/tile_keys.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMostTiles = std::numeric_limits<std::int32_t>::max();

/// How many pieces the contracted range is cut into (design page, order of summation): one, unless C is tiny.
int segment_count(double elements_a, double elements_b, double elements_c, std::int64_t distinct_k) {
    const double both = elements_a + elements_b;
    if (elements_c <= 0 || both < 16 * elements_c) return 1;
    int segments = 1;
    while (segments < 64 && 2.0 * segments <= both / (4 * elements_c)) segments *= 2;
    return static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(segments, distinct_k)));
}

/// A result tile that the caller asks for.
struct GivenTile {
    std::int64_t row, column, ordinal;
};

/// By (row, column).
std::vector<GivenTile> given_tiles(const ContractionSpec& spec, const MatrixView& view, const Shape& given,
                                   const TileGrid& grid, const Symmetry& symmetry) {
    const TileGrid& is = given.grid();
    ensure(given.symmetry().none() || given.symmetry() == symmetry, "the given result shape has another symmetry");
    if (is.rank() != grid.rank())
        user_error("contraction '{}': the given result shape is of {}, the result of {}", spec.text(), to_string(is),
                   to_string(grid));
    for (int d = 0; d < grid.rank(); ++d)
        if (!(is.tiling(d) == grid.tiling(d)))
            user_error("contraction '{}': index {} of the given result shape is {}, that of the result {}: {}",
                       spec.text(), d, to_string(is.tiling(d)), to_string(grid.tiling(d)),
                       first_difference(is.tiling(d), grid.tiling(d)));
    std::vector<GivenTile> out;
    out.reserve(static_cast<std::size_t>(given.tile_count()));
    for (const auto o : given.ordinals()) {
        const auto [row, col] = view.place(grid, TileOrdinal{o});
        out.push_back({row, col, o});
    }
    std::sort(out.begin(), out.end(), [](const GivenTile& x, const GivenTile& y) {
        return x.row != y.row ? x.row < y.row : x.column < y.column;
    });
    return out;
}

/// A result tile, and its products in the order in which they were found.
struct Found {
    std::int64_t row, col, first;  // first: of its stretch's products
    std::int32_t count, stretch;
    double bound, skipped, flops;
    std::int64_t ordinal() const { return row + col; }
};

/// Neighbouring rows of C that are walked in one go, as entries of A. Where they end depends on the shapes alone.
struct Stretch {
    std::size_t begin, end;
    std::size_t before;  // products of the stretches before, if all survive
};

/// What is found in one.
struct Rows {
    KeptVector<Found> found;
    TileProduct* place = nullptr;  // where its products go, if it is known beforehand how many there are; else into:
    KeptVector<TileProduct> own;
    double left_out_square = 0;
    const TileProduct* products() const { return place ? place : own.data(); }
};

/// Which tiles of a row of B are to be multiplied with an entry of A.
class Columns {
  public:
    Columns(const TileGrid& grid, const TilesOfA& a, const TilesOfB& b, const Symmetry& symmetry)
        : a_(a), b_(b), width_(grid.rank() == 2 ? grid.tiling(1).tile_count() : 0), upper_(is_upper(symmetry)) {}
    /// Whether the result is a matrix of which the tiles on and above the diagonal are computed, with its rows from A
    /// and its columns from B: then those below need not be looked at.
    bool upper() const { return upper_; }
    /// The first one, where they stand by column; the others follow.
    std::size_t first_of(const TilesOfB::Row& row, std::size_t i) const {
        if (!upper_) return row.begin;
        const auto diagonal = a_.row(i) / width_;
        const auto begin = b_.column.begin();
        return static_cast<std::size_t>(
            std::partition_point(begin + static_cast<std::ptrdiff_t>(row.begin),
                                 begin + static_cast<std::ptrdiff_t>(row.end),
                                 [&](std::int32_t col) { return b_.columns[col] < diagonal; }) -
            begin);
    }

  private:
    bool is_upper(const Symmetry& symmetry) const {
        const auto elements = symmetry.elements();
        if (width_ == 0 || elements.size() != 2 || !(elements[1].order == Permutation({1, 0}))) return false;
        if (b_.columns.empty() || b_.columns.back() >= width_) return false;
        for (std::size_t i = 0; i < a_.entries.size(); ++i)
            if (a_.row(i) % width_ != 0) return false;
        return true;
    }
    const TilesOfA& a_;
    const TilesOfB& b_;
    std::int64_t width_;
    bool upper_;
};

/// Goes through A row by row of C (Gustavson's order): for each row the bounds of its tiles first, then the products of
/// those that are kept. Several threads have one each.
class RowWalk {
  public:
    RowWalk(const TileGrid& grid, const Shape& a, const TilesOfA& tiles_a, const TilesOfB& tiles_b,
            const Columns& looked_at, const ScreeningOptions& options, const std::vector<GivenTile>& given)
        : grid_(grid),
          a_(a),
          tiles_a_(tiles_a),
          tiles_b_(tiles_b),
          looked_at_(looked_at),
          options_(options),
          given_(given),
          filtered_(options.filter > 0),
          count_(tiles_b.columns.size()),
          bound_(count_.size()),
          skipped_(count_.size()),
          flops_(count_.size()),
          parts_(count_.size()),
          at_(count_.size()),
          wanted_(count_.size(), -1) {}

    void walk(const Stretch& stretch, std::int32_t number, Rows& out) {
        out_ = &out;
        used_ = 0;
        reserve(stretch);
        if (options_.given) {
            const auto row = tiles_a_.row(stretch.begin);
            next_given_ = static_cast<std::size_t>(
                std::lower_bound(given_.begin(), given_.end(), row,
                                 [](const GivenTile& t, std::int64_t r) { return t.row < r; }) -
                given_.begin());
        }
        for (auto begin = stretch.begin; begin < stretch.end;) {
            const auto row = tiles_a_.row(begin);
            auto end = begin;
            while (end < stretch.end && tiles_a_.row(end) == row) ++end;
            const auto stamp = static_cast<std::int64_t>(begin);
            if (options_.given) mark_given(row, stamp);
            add_bounds(begin, end, stamp);
            sort_touched();
            const auto first = out.found.size();
            open_tiles(row, number);
            add_products(begin, end);
            close_tiles(first);
            begin = end;
        }
    }

  private:
    /// Room for all that can be, once: growing would touch several times the memory.
    void reserve(const Stretch& stretch) {
        if (options_.given) return;
        std::size_t all = 0, rows = 0;
        for (auto i = stretch.begin; i < stretch.end; ++i) {
            if (const auto r = tiles_a_.row_of_b[i]; r >= 0)
                all += tiles_b_.rows[r].end - looked_at_.first_of(tiles_b_.rows[r], i);
            rows += i == stretch.begin || tiles_a_.row(i) != tiles_a_.row(i - 1);
        }
        out_->found.reserve(std::min(all, rows * count_.size()));
    }

    void mark_given(std::int64_t row, std::int64_t stamp) {
        const auto& columns = tiles_b_.columns;
        while (next_given_ < given_.size() && given_[next_given_].row < row) ++next_given_;
        for (; next_given_ < given_.size() && given_[next_given_].row == row; ++next_given_) {
            const auto it = std::lower_bound(columns.begin(), columns.end(), given_[next_given_].column);
            if (it != columns.end() && *it == given_[next_given_].column) wanted_[it - columns.begin()] = stamp;
        }
    }

    /// How many products each column has, and what they can add up to.
    void add_bounds(std::size_t begin, std::size_t end, std::int64_t stamp) {
        touched_.clear();
        // Pointers of its own: the compiler reads members anew for every product.
        const auto* columns = tiles_b_.column.data();
        const auto* norms = tiles_b_.norm.data();
        const auto* wanted = options_.given ? wanted_.data() : nullptr;
        auto* counts = count_.data();
        auto* bounds = bound_.data();
        for (std::size_t i = begin; i < end; ++i) {
            if (tiles_a_.row_of_b[i] < 0) continue;
            const auto rb = tiles_b_.rows[tiles_a_.row_of_b[i]];
            const double norm_a = a_.norm_of(tiles_a_.entries[i].slot);
            for (std::size_t j = looked_at_.first_of(rb, i); j < rb.end; ++j) {
                const auto col = columns[j];
                if (wanted && wanted[col] != stamp) continue;
                if (counts[col]++ == 0) {
                    touched_.push_back(col);
                    bounds[col] = 0;
                }
                bounds[col] += norm_a * norms[j];
            }
        }
    }

    void sort_touched() {
        if (touched_.size() > count_.size() / 8) {  // most of them: looking at all beats sorting
            touched_.clear();
            for (std::size_t col = 0; col < count_.size(); ++col)
                if (count_[col] > 0) touched_.push_back(static_cast<std::int32_t>(col));
        } else {
            std::sort(touched_.begin(), touched_.end());
        }
    }

    /// A place for the products of each tile that is kept; the others get none.
    void open_tiles(std::int64_t row, std::int32_t stretch) {
        for (const auto col : touched_) {
            const auto column = tiles_b_.columns[col];
            skipped_[col] = flops_[col] = 0;
            parts_[col] = count_[col];
            if (!is_computed(row + column) || (filtered_ && !options_.given && !survives(row + column, col))) {
                count_[col] = 0;
                at_[col] = -1;
                continue;
            }
            at_[col] = used_;
            out_->found.push_back({row, column, at_[col], 0, stretch, bound_[col], 0, 0});
            used_ += count_[col];
        }
        if (!out_->place) out_->own.resize(static_cast<std::size_t>(used_));
    }

    bool is_computed(std::int64_t ordinal) const {
        return looked_at_.upper() || options_.symmetry.none() ||
               options_.symmetry.stand_in(grid_, TileOrdinal{ordinal}).value == ordinal;
    }

    /// Whether a tile can reach the filter, with what is there already; then also how small its products may be.
    bool survives(std::int64_t ordinal, std::int32_t col) {
        double all = options_.alpha_magnitude * bound_[col];
        const auto old = options_.added ? options_.added->find(TileOrdinal{ordinal}) : std::nullopt;
        if (old) {
            all += options_.beta_magnitude * options_.added->norm_of(*old);
            parts_[col] = all < options_.filter ? 0 : parts_[col] + 1;
            return true;
        }
        if (!(all < options_.filter)) return true;
        out_->left_out_square += static_cast<double>(options_.symmetry.orbit(grid_, TileOrdinal{ordinal})) * all * all;
        return false;
    }

    void add_products(std::size_t begin, std::size_t end) {
        const auto *columns = tiles_b_.column.data(), *slots = tiles_b_.slot.data(), *counts = count_.data();
        const auto *norms = tiles_b_.norm.data(), *elements = tiles_b_.free_elements.data(), *parts = parts_.data();
        auto *skipped = skipped_.data(), *flops = flops_.data();
        auto* at = at_.data();
        auto* to = out_->place ? out_->place : out_->own.data();
        const double filter = options_.filter, alpha = options_.alpha_magnitude;
        for (std::size_t i = begin; i < end; ++i) {
            const auto row_b = tiles_a_.row_of_b[i];
            if (row_b < 0) continue;
            const auto rb = tiles_b_.rows[row_b];
            const auto slot_a = tiles_a_.entries[i].slot;
            const double norm_a = a_.norm_of(slot_a);
            const double flops_a = 2.0 * static_cast<double>(a_.grid().tile_elements(a_.tile(slot_a)));
            for (std::size_t j = looked_at_.first_of(rb, i); j < rb.end; ++j) {
                const auto col = columns[j];
                if (counts[col] == 0) continue;
                if (filter > 0) {
                    const double term = alpha * norm_a * norms[j];
                    if (term * parts[col] < filter) {
                        skipped[col] += term;
                        continue;
                    }
                }
                const auto p = at[col]++;
                to[p] = {slot_a, slots[j]};
                flops[col] += flops_a * elements[j];
            }
        }
    }

    void close_tiles(std::size_t first) {
        auto f = out_->found.begin() + static_cast<std::ptrdiff_t>(first);
        for (const auto col : touched_) {
            count_[col] = 0;
            if (at_[col] < 0) continue;
            f->count = static_cast<std::int32_t>(at_[col] - f->first);
            f->flops = flops_[col];
            f->skipped = skipped_[col];
            ++f;
        }
    }

    const TileGrid& grid_;
    const Shape& a_;
    const TilesOfA& tiles_a_;
    const TilesOfB& tiles_b_;
    const Columns& looked_at_;
    const ScreeningOptions& options_;
    const std::vector<GivenTile>& given_;
    bool filtered_;
    Rows* out_ = nullptr;
    std::int64_t used_ = 0;  // places of products in it
    std::size_t next_given_ = 0;
    // Of the row at hand, by column: products, norm bounds, flops, and where the next product goes (-1: nowhere).
    std::vector<std::int32_t> count_, touched_;
    std::vector<double> bound_, skipped_, flops_;
    std::vector<double> parts_;  // a product below filter / parts cannot matter
    std::vector<std::int64_t> at_;
    std::vector<std::int64_t> wanted_;  // stamped with the row where the caller gave the tile
};

/// Stretches of about so many products of whole rows, which are worth a thread. `products`: that are looked at.
std::vector<Stretch> stretches_of(const TilesOfA& a, const TilesOfB& b, const Columns& looked_at,
                                  std::size_t& products) {
    constexpr std::size_t kProducts = std::size_t{1} << 17;
    std::vector<Stretch> out;
    std::size_t begin = 0, before = 0, here = 0;
    products = 0;
    for (std::size_t i = 0; i < a.entries.size(); ++i) {
        if (here >= kProducts && a.row(i) != a.row(i - 1)) {
            out.push_back({begin, i, before});
            begin = i;
            before = products;
            here = 0;
        }
        if (const auto r = a.row_of_b[i]; r >= 0) {
            here += b.rows[r].end - b.rows[r].begin;
            products += b.rows[r].end - looked_at.first_of(b.rows[r], i);
        }
    }
    if (begin < a.entries.size()) out.push_back({begin, a.entries.size(), before});
    return out;
}

/// Given tiles without a product are zero tiles of the result.
void add_zero_tiles(const std::vector<GivenTile>& given, std::vector<Rows>& rows) {
    std::vector<std::int64_t> have;
    for (const auto& r : rows)
        for (const auto& f : r.found) have.push_back(f.ordinal());
    std::sort(have.begin(), have.end());
    Rows zero;
    for (const auto& t : given)
        if (!std::binary_search(have.begin(), have.end(), t.ordinal))
            zero.found.push_back({t.row, t.column, 0, 0, static_cast<std::int32_t>(rows.size()), 0, 0, 0});
    rows.push_back(std::move(zero));
}

/// By their place in the result.
KeptVector<const Found*> in_order(const std::vector<Rows>& rows) {
    std::size_t count = 0;
    for (const auto& r : rows) count += r.found.size();
    require(static_cast<std::int64_t>(count) <= kMostTiles, "contraction: {} result tiles; at most {}", count,
            kMostTiles);
    KeptVector<const Found*> out;
    out.reserve(count);
    for (const auto& r : rows)
        for (const auto& f : r.found) out.push_back(&f);
    const auto less = [](const Found* x, const Found* y) { return x->ordinal() < y->ordinal(); };
    if (!std::is_sorted(out.begin(), out.end(), less)) std::sort(out.begin(), out.end(), less);
    return out;
}

/// The result's tiles and all that is known of each; products in result order, without the gaps that skipped ones left.
/// `placed`: all products, where their number was known beforehand.
void describe_tiles(const TileGrid& grid, const KeptVector<const Found*>& found, const std::vector<Rows>& rows,
                    KeptVector<TileProduct> placed, const ScreeningOptions& options, int threads, ProductShape& out) {
    constexpr std::int64_t kTiles = 8192;  // that are worth a thread's turn
    const auto n = found.size();
    const bool filtered = options.filter > 0;
    bool as_found = !placed.empty();  // then the products are where they belong
    out.first.resize(n + 1);
    out.first[0] = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const Found& f = *found[i];
        as_found =
            as_found && rows[static_cast<std::size_t>(f.stretch)].products() + f.first == placed.data() + out.first[i];
        out.first[i + 1] = out.first[i] + f.count;
    }
    if (as_found)
        out.products = std::move(placed);
    else
        out.products.resize(static_cast<std::size_t>(out.first[n]));
    std::vector<std::int64_t> ordinals(n);
    std::vector<double> norms(n);
    out.row.resize(n);
    out.col.resize(n);
    out.tile_flops.resize(n);
    if (filtered) out.skipped.resize(n);
    KeptVector<float> orbit(options.symmetry.none() ? 0 : n);  // tiles that follow from each, itself included
    parallel_for(static_cast<std::int64_t>(n), threads, kTiles, [&](std::int64_t slot) {
        const auto i = static_cast<std::size_t>(slot);
        const Found& f = *found[i];
        ordinals[i] = f.ordinal();
        // Bounds of finite norms may overflow; a shape holds finite ones.
        norms[i] = std::min(f.bound * options.alpha_magnitude * (1 + 1e-12), std::numeric_limits<double>::max());
        out.row[i] = f.row;
        out.col[i] = f.col;
        out.tile_flops[i] = f.flops;
        if (!orbit.empty()) orbit[i] = static_cast<float>(options.symmetry.orbit(grid, TileOrdinal{ordinals[i]}));
        if (filtered) out.skipped[i] = static_cast<float>(f.skipped * (1 + 1e-6));
        if (!as_found)
            std::copy_n(rows[static_cast<std::size_t>(f.stretch)].products() + f.first, f.count,
                        out.products.begin() + out.first[i]);
    });
    out.c = Shape::from_sorted(grid, std::move(ordinals), std::move(norms), options.symmetry);
    const auto times = [&](std::size_t i) { return orbit.empty() ? 1.0 : static_cast<double>(orbit[i]); };
    for (std::size_t i = 0; i < n; ++i) {
        out.flops += out.tile_flops[i];
        out.whole_flops += times(i) * out.tile_flops[i];
    }
    double left_out = 0;
    for (const auto& r : rows) left_out += r.left_out_square;
    if (filtered)
        for (std::size_t i = 0; i < n; ++i) left_out += times(i) * found[i]->skipped * found[i]->skipped;
    out.left_out_bound = std::sqrt(left_out) * (1 + 1e-12);
}

/// Flops if each tile of a folded A counted for itself alone.
double unfolded_flops(const ProductShape& product, const Shape& a, const Shape& b, const MatrixView& view,
                      const TileViews& views) {
    double flops = 0;
    for (std::int64_t c = 0; c < product.c.tile_count(); ++c) {
        double tile = 0;
        for (auto p = product.first[c]; p < product.first[c + 1]; ++p) {
            const auto x = product.products[p].a, y = product.products[p].b;
            const auto sides = view.sides(Operand::b, b.grid().tile_extents(b.tile(y)));
            tile += std::abs(views[x].factor) * 2 * static_cast<double>(a.grid().tile_elements(a.tile(x))) *
                    static_cast<double>(sides.cols);
        }
        flops += tile * static_cast<double>(product.c.symmetry().orbit(product.c.grid(), product.c.tile(c)));
    }
    return flops;
}

/// Elements of the result, those that follow from others included: so the order of summation is that of a result
/// without symmetry.
double whole_elements(const Shape& c) {
    if (c.symmetry().none()) return static_cast<double>(c.elements());
    std::int64_t all = 0;
    for (std::int64_t s = 0; s < c.tile_count(); ++s)
        all += c.symmetry().orbit(c.grid(), c.tile(s)) * c.grid().tile_elements(c.tile(s));
    return static_cast<double>(all);
}

/// Segments of the contracted range, by the rank of k among those that B has.
void cut_into_segments(const Shape& a, const Shape& b, const std::vector<TilesOfB::Row>& rows, ProductShape& out) {
    std::vector<std::int64_t> distinct(rows.size());
    std::transform(rows.begin(), rows.end(), distinct.begin(), [](const TilesOfB::Row& r) { return r.k; });
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    const auto count = static_cast<std::int64_t>(distinct.size());
    out.segments = segment_count(static_cast<double>(a.elements()), static_cast<double>(b.elements()),
                                 whole_elements(out.c), count);
    if (out.segments == 1) return;
    for (const auto& r : rows) {
        const auto rank = std::lower_bound(distinct.begin(), distinct.end(), r.k) - distinct.begin();
        out.segment.push_back(static_cast<std::int32_t>(rank * out.segments / count));
    }
}

}  // namespace

void require_products_fit(std::string_view spec, double products, std::int64_t memory) {
    constexpr double each = 32;  // about: of a plan, for each product
    if (memory > 0 && products * each > static_cast<double>(memory))
        throw MachineError(
            fmt::format("contraction '{}': {:.0f} tile products, whose plan takes about {}; this machine has {}: "
                        "larger tiles make fewer",
                        spec, products, format_bytes(static_cast<std::int64_t>(std::min(products * each, 9e18))),
                        format_bytes(memory)));
}

ProductShape product_shape(const ContractionSpec& spec, const Shape& a, const Shape& b, const ScreeningOptions& options,
                           std::int64_t memory, int threads) {
    const TileGrid grid = spec.result_grid(a.grid(), b.grid());
    require(a.tile_count() <= kMostTiles && b.tile_count() <= kMostTiles,
            "contraction: {} and {} nonzero tiles; at most {} each", a.tile_count(), b.tile_count(), kMostTiles);
    const MatrixView view(spec);
    const auto tiles_b = tiles_of_b(view, b, a.grid(), grid);
    const auto tiles_a = tiles_of_a(view, a, grid, tiles_b);
    std::vector<GivenTile> given;
    if (options.given) given = given_tiles(spec, view, *options.given, grid, options.symmetry);

    std::size_t most = 0;
    const Columns looked_at(grid, tiles_a, tiles_b, options.symmetry);
    const auto stretches = stretches_of(tiles_a, tiles_b, looked_at, most);
    if (!options.given && options.filter == 0) require_products_fit(spec.text(), static_cast<double>(most), memory);
    std::vector<Rows> rows(stretches.size());
    KeptVector<TileProduct> placed;
    if (!options.given && options.filter == 0 && (options.symmetry.none() || looked_at.upper())) {
        placed.resize(most);
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i].place = placed.data() + stretches[i].before;
    }
    std::atomic<std::size_t> next{0};
    parallel_region(std::min(threads, static_cast<int>(std::min<std::size_t>(stretches.size(), kMostThreads))),
                    [&](int, int) {
                        RowWalk walk(grid, a, tiles_a, tiles_b, looked_at, options, given);
                        for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < stretches.size();)
                            walk.walk(stretches[i], static_cast<std::int32_t>(i), rows[i]);
                    });
    if (options.given) add_zero_tiles(given, rows);

    ProductShape out;
    describe_tiles(grid, in_order(rows), rows, std::move(placed), options, threads, out);
    out.k_of_b.resize(static_cast<std::size_t>(b.tile_count()));
    for (std::size_t r = 0; r < tiles_b.rows.size(); ++r)
        for (auto i = tiles_b.rows[r].begin; i < tiles_b.rows[r].end; ++i)
            out.k_of_b[tiles_b.slot[i]] = static_cast<std::int32_t>(r);
    cut_into_segments(a, b, tiles_b.rows, out);
    if (options.views_a && options.views_a->folded) out.whole_flops = unfolded_flops(out, a, b, view, *options.views_a);
    return out;
}

}  // namespace tessera
