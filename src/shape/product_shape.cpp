#include "shape/product_shape.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "base/units.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera {

namespace {

/// By how much each index of an operand advances the three numbers that place a tile: its row or column in C (the
/// part of C's ordinal its labels make), its batch (likewise), and its place along k (A's ordinal made by k labels).
struct KeyStrides {
    IndexVector batch, free, k;
};

KeyStrides key_strides(const ContractionSpec& spec, const std::string& labels, const TileGrid& a, const TileGrid& c) {
    KeyStrides s;
    for (char l : labels) {
        const auto role = spec.role(l);
        const auto in_c = spec.c().find(l), in_a = spec.a().find(l);
        s.batch.push_back(role == LabelRole::batch ? c.ordinal_strides()[static_cast<int>(in_c)] : 0);
        s.free.push_back(
            role == LabelRole::free_a || role == LabelRole::free_b ? c.ordinal_strides()[static_cast<int>(in_c)] : 0);
        s.k.push_back(role == LabelRole::contracted ? a.ordinal_strides()[static_cast<int>(in_a)] : 0);
    }
    return s;
}

struct Entry {
    std::int64_t batch, free, k;
    std::int32_t slot;
};

std::vector<Entry> entries_of(const Shape& shape, const KeyStrides& strides) {
    std::vector<Entry> out(static_cast<std::size_t>(shape.tile_count()));
    const int rank = shape.grid().rank();
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const auto at = shape.grid().coordinates(shape.tile(s));
        Entry e{0, 0, 0, static_cast<std::int32_t>(s)};
        for (int d = 0; d < rank; ++d) {
            e.batch += at[d] * strides.batch[d];
            e.free += at[d] * strides.free[d];
            e.k += at[d] * strides.k[d];
        }
        out[s] = e;
    }
    return out;
}

template <class Less>
void sort_unless_sorted(std::vector<Entry>& v, Less less) {
    if (!std::is_sorted(v.begin(), v.end(), less)) std::sort(v.begin(), v.end(), less);
}

/// How many pieces the contracted range is cut into (design page, order of summation): one, unless C is tiny.
int segment_count(double elements_a, double elements_b, double elements_c, std::int64_t distinct_k) {
    const double both = elements_a + elements_b;
    if (elements_c <= 0 || both < 16 * elements_c) return 1;
    int segments = 1;
    while (segments < 64 && 2.0 * segments <= both / (4 * elements_c)) segments *= 2;
    return static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(segments, distinct_k)));
}

}  // namespace

void require_products_fit(std::string_view spec, double products) {
    constexpr double each = 32;  // about: of a plan, for each product
    if (products * each > static_cast<double>(memory_bytes()))
        throw MachineError(
            fmt::format("contraction '{}': {:.0f} tile products, whose plan takes about {}; this machine has {}: "
                        "larger tiles make fewer",
                        spec, products, format_bytes(static_cast<std::int64_t>(std::min(products * each, 9e18))),
                        format_bytes(memory_bytes())));
}

ProductShape product_shape(const ContractionSpec& spec, const Shape& a, const Shape& b,
                           const ScreeningOptions& options) {
    const TileGrid grid = spec.result_grid(a.grid(), b.grid());
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    require(a.tile_count() <= most && b.tile_count() <= most, "contraction: {} and {} nonzero tiles; at most {} each",
            a.tile_count(), b.tile_count(), most);

    auto ea = entries_of(a, key_strides(spec, spec.a(), a.grid(), grid));
    auto eb = entries_of(b, key_strides(spec, spec.b(), a.grid(), grid));
    sort_unless_sorted(ea, [](const Entry& x, const Entry& y) {
        const auto rx = x.batch + x.free, ry = y.batch + y.free;
        return rx != ry ? rx < ry : x.k < y.k;
    });
    sort_unless_sorted(eb, [](const Entry& x, const Entry& y) {
        return x.batch != y.batch ? x.batch < y.batch : x.k != y.k ? x.k < y.k : x.free < y.free;
    });

    // B by (batch, k): where each such row begins. Columns of C numbered densely.
    struct RowOfB {
        std::int64_t batch, k;
        std::size_t begin, end;
    };
    std::vector<RowOfB> rows_b;
    for (std::size_t i = 0; i < eb.size(); ++i) {
        if (rows_b.empty() || rows_b.back().batch != eb[i].batch || rows_b.back().k != eb[i].k)
            rows_b.push_back({eb[i].batch, eb[i].k, i, i});
        rows_b.back().end = i + 1;
    }
    std::vector<std::int64_t> columns(eb.size());
    std::transform(eb.begin(), eb.end(), columns.begin(), [](const Entry& e) { return e.free; });
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    std::vector<std::int32_t> column_of(eb.size());
    for (std::size_t i = 0; i < eb.size(); ++i)
        column_of[i] =
            static_cast<std::int32_t>(std::lower_bound(columns.begin(), columns.end(), eb[i].free) - columns.begin());

    // Per tile of A: its row of B. Per tile: what it contributes to the flops.
    std::vector<std::int32_t> row_b_of(ea.size(), -1);
    for (std::size_t i = 0; i < ea.size(); ++i) {
        const auto it = std::lower_bound(rows_b.begin(), rows_b.end(), ea[i], [](const RowOfB& r, const Entry& e) {
            return r.batch != e.batch ? r.batch < e.batch : r.k < e.k;
        });
        if (it != rows_b.end() && it->batch == ea[i].batch && it->k == ea[i].k)
            row_b_of[i] = static_cast<std::int32_t>(it - rows_b.begin());
    }
    // What the loops below read of B, and no more.
    std::vector<std::int32_t> slot_b(eb.size());
    std::vector<double> norm_b(eb.size());
    for (std::size_t i = 0; i < eb.size(); ++i) {
        slot_b[i] = eb[i].slot;
        norm_b[i] = b.norm_of(eb[i].slot);
    }
    std::vector<double> free_b(eb.size());  // elements of B's free indices
    {
        std::vector<int> free_dims;
        for (int d = 0; d < b.grid().rank(); ++d)
            if (spec.role(spec.b()[d]) == LabelRole::free_b) free_dims.push_back(d);
        for (std::size_t i = 0; i < eb.size(); ++i) {
            const auto at = b.grid().coordinates(b.tile(eb[i].slot));
            free_b[i] = 1;
            for (int d : free_dims) free_b[i] *= static_cast<double>(b.grid().tiling(d).size(TileIndex{at[d]}));
        }
    }

    // The given result tiles by (row, column), where the caller gives them.
    struct GivenTile {
        std::int64_t row, column, ordinal;
    };
    std::vector<GivenTile> given;
    if (options.given) {
        const TileGrid& is = options.given->grid();
        require(is.rank() == grid.rank(), "contraction '{}': the given result shape is of {}, the result of {}",
                spec.text(), to_string(is), to_string(grid));
        for (int d = 0; d < grid.rank(); ++d)
            require(is.tiling(d) == grid.tiling(d),
                    "contraction '{}': index {} of the given result shape is {}, that of the result {}: {}",
                    spec.text(), d, to_string(is.tiling(d)), to_string(grid.tiling(d)),
                    first_difference(is.tiling(d), grid.tiling(d)));
        for (std::int64_t o : options.given->ordinals()) {
            const auto at = grid.coordinates(TileOrdinal{o});
            GivenTile t{0, 0, o};
            for (int d = 0; d < grid.rank(); ++d) {
                const auto role = spec.role(spec.c()[d]);
                (role == LabelRole::free_b ? t.column : t.row) += at[d] * grid.ordinal_strides()[d];
            }
            given.push_back(t);
        }
        std::sort(given.begin(), given.end(), [](const GivenTile& x, const GivenTile& y) {
            return x.row != y.row ? x.row < y.row : x.column < y.column;
        });
    }

    ProductShape out;
    struct Found {
        std::int64_t ordinal, row, col, first;
        std::int32_t count;
        double bound, skipped, flops;
    };
    std::vector<Found> found;
    std::vector<std::int32_t> count(columns.size()), touched;
    // Of the row at hand, by column: norm bounds, flops, and where the next product goes (-1: nowhere).
    std::vector<double> bound(columns.size()), skipped(columns.size()), flops(columns.size());
    std::vector<std::int64_t> at(columns.size());
    std::vector<double> parts(columns.size());             // a product below filter / parts cannot matter
    std::vector<std::int64_t> wanted(columns.size(), -1);  // stamped with the row where the caller gave the tile
    double left_out_square = 0;
    const bool filtered = options.filter > 0;
    if (!options.given) {
        // Room for all that can be, once: growing would touch several times the memory.
        std::size_t products = 0, rows = 0;
        for (std::size_t i = 0; i < ea.size(); ++i) {
            if (row_b_of[i] >= 0) products += rows_b[row_b_of[i]].end - rows_b[row_b_of[i]].begin;
            rows += i == 0 || ea[i].batch + ea[i].free != ea[i - 1].batch + ea[i - 1].free;
        }
        if (!filtered) require_products_fit(spec.text(), static_cast<double>(products));
        found.reserve(std::min(products, rows * columns.size()));
        if (!filtered) {
            out.products.reserve(products);
            out.k.reserve(products);
        }
    }

    for (std::size_t begin = 0, g = 0; begin < ea.size();) {
        const std::int64_t row = ea[begin].batch + ea[begin].free;
        std::size_t end = begin;
        while (end < ea.size() && ea[end].batch + ea[end].free == row) ++end;
        const auto stamp = static_cast<std::int64_t>(begin);
        if (options.given) {
            while (g < given.size() && given[g].row < row) ++g;
            for (; g < given.size() && given[g].row == row; ++g) {
                const auto it = std::lower_bound(columns.begin(), columns.end(), given[g].column);
                if (it != columns.end() && *it == given[g].column) wanted[it - columns.begin()] = stamp;
            }
        }

        touched.clear();
        for (std::size_t i = begin; i < end; ++i) {
            if (row_b_of[i] < 0) continue;
            const auto& rb = rows_b[row_b_of[i]];
            const double norm_a = a.norm_of(ea[i].slot);
            for (std::size_t j = rb.begin; j < rb.end; ++j) {
                const auto col = column_of[j];
                if (options.given && wanted[col] != stamp) continue;
                if (count[col]++ == 0) {
                    touched.push_back(col);
                    bound[col] = 0;
                }
                bound[col] += norm_a * norm_b[j];
            }
        }
        if (touched.size() > columns.size() / 8) {  // most of them: looking at all beats sorting
            touched.clear();
            for (std::size_t col = 0; col < count.size(); ++col)
                if (count[col] > 0) touched.push_back(static_cast<std::int32_t>(col));
        } else {
            std::sort(touched.begin(), touched.end());
        }
        const auto first_found = found.size();
        for (auto col : touched) {
            skipped[col] = flops[col] = 0;
            parts[col] = count[col];
            if (filtered && !options.given) {
                double all = options.alpha_magnitude * bound[col];
                const auto old = options.added ? options.added->find(TileOrdinal{row + columns[col]}) : std::nullopt;
                if (old) {
                    all += options.beta_magnitude * options.added->norm_of(*old);
                    parts[col] = all < options.filter ? 0 : parts[col] + 1;
                } else if (all < options.filter) {
                    left_out_square += all * all;
                    count[col] = 0;
                    at[col] = -1;
                    continue;
                }
            }
            at[col] = static_cast<std::int64_t>(out.products.size());
            found.push_back({row + columns[col], row, columns[col], at[col], 0, bound[col], 0, 0});
            out.products.resize(out.products.size() + static_cast<std::size_t>(count[col]));
        }
        out.k.resize(out.products.size());
        for (std::size_t i = begin; i < end; ++i) {
            if (row_b_of[i] < 0) continue;
            const auto& rb = rows_b[row_b_of[i]];
            const double norm_a = a.norm_of(ea[i].slot);
            const double flops_a = 2.0 * static_cast<double>(a.grid().tile_elements(a.tile(ea[i].slot)));
            for (std::size_t j = rb.begin; j < rb.end; ++j) {
                const auto col = column_of[j];
                if (count[col] == 0) continue;
                if (filtered) {
                    const double term = options.alpha_magnitude * norm_a * norm_b[j];
                    if (term * parts[col] < options.filter) {
                        skipped[col] += term;
                        continue;
                    }
                }
                const auto p = at[col]++;
                out.products[p] = {ea[i].slot, slot_b[j]};
                out.k[p] = row_b_of[i];
                flops[col] += flops_a * free_b[j];
            }
        }
        auto f = found.begin() + static_cast<std::ptrdiff_t>(first_found);
        for (auto col : touched) {
            count[col] = 0;
            if (at[col] < 0) continue;
            f->count = static_cast<std::int32_t>(at[col] - f->first);
            f->flops = flops[col];
            f->skipped = skipped[col];
            ++f;
        }
        begin = end;
    }
    if (options.given) {
        // Given tiles without a product are zero tiles of the result.
        std::vector<std::int64_t> have(found.size());
        std::transform(found.begin(), found.end(), have.begin(), [](const Found& f) { return f.ordinal; });
        std::sort(have.begin(), have.end());
        for (const auto& t : given)
            if (!std::binary_search(have.begin(), have.end(), t.ordinal))
                found.push_back(
                    {t.ordinal, t.row, t.column, static_cast<std::int64_t>(out.products.size()), 0, 0, 0, 0});
    }

    require(static_cast<std::int64_t>(found.size()) <= most, "contraction: {} result tiles; at most {}", found.size(),
            most);
    if (!std::is_sorted(found.begin(), found.end(),
                        [](const Found& x, const Found& y) { return x.ordinal < y.ordinal; }))
        std::sort(found.begin(), found.end(), [](const Found& x, const Found& y) { return x.ordinal < y.ordinal; });

    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    ordinals.reserve(found.size());
    norms.reserve(found.size());
    for (const auto& f : found) {
        ordinals.push_back(f.ordinal);
        // Bounds of finite norms may overflow; a shape holds finite ones.
        norms.push_back(std::min(f.bound * options.alpha_magnitude * (1 + 1e-12), std::numeric_limits<double>::max()));
        left_out_square += f.skipped * f.skipped;
    }
    out.c = Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
    out.left_out_bound = std::sqrt(left_out_square) * (1 + 1e-12);

    // Products in result order, without the gaps that skipped ones left.
    std::vector<TileProduct> ordered;
    std::vector<std::int32_t> ordered_k;
    const bool same = !filtered && std::is_sorted(found.begin(), found.end(),
                                                  [](const Found& x, const Found& y) { return x.first < y.first; });
    out.first.reserve(found.size() + 1);
    out.row.reserve(found.size());
    out.col.reserve(found.size());
    out.tile_flops.reserve(found.size());
    out.first.push_back(0);
    for (const auto& f : found) {
        out.first.push_back(out.first.back() + f.count);
        out.row.push_back(f.row);
        out.col.push_back(f.col);
        out.tile_flops.push_back(f.flops);
        out.flops += f.flops;
        if (filtered) out.skipped.push_back(static_cast<float>(f.skipped * (1 + 1e-6)));
    }
    if (!same) {
        ordered.reserve(static_cast<std::size_t>(out.first.back()));
        ordered_k.reserve(ordered.capacity());
        for (const auto& f : found) {
            ordered.insert(ordered.end(), out.products.begin() + f.first, out.products.begin() + f.first + f.count);
            ordered_k.insert(ordered_k.end(), out.k.begin() + f.first, out.k.begin() + f.first + f.count);
        }
        out.products = std::move(ordered);
        out.k = std::move(ordered_k);
    }

    // Segments of the contracted range, by the rank of k among those that B has.
    std::vector<std::int64_t> distinct_k(rows_b.size());
    std::transform(rows_b.begin(), rows_b.end(), distinct_k.begin(), [](const RowOfB& r) { return r.k; });
    std::sort(distinct_k.begin(), distinct_k.end());
    distinct_k.erase(std::unique(distinct_k.begin(), distinct_k.end()), distinct_k.end());
    const auto elements_c = static_cast<double>(out.c.elements());
    out.segments = segment_count(static_cast<double>(a.elements()), static_cast<double>(b.elements()), elements_c,
                                 static_cast<std::int64_t>(distinct_k.size()));
    if (out.segments > 1) {
        for (const auto& r : rows_b) {
            const auto rank = std::lower_bound(distinct_k.begin(), distinct_k.end(), r.k) - distinct_k.begin();
            out.segment.push_back(
                static_cast<std::int32_t>(rank * out.segments / static_cast<std::int64_t>(distinct_k.size())));
        }
    }
    return out;
}

}  // namespace tessera
