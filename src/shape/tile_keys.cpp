#include "shape/tile_keys.hpp"

#include <algorithm>

namespace tessera {

namespace {

/// By how much each index of an operand advances the three keys.
struct KeyStrides {
    IndexVector batch, free, k;
};

KeyStrides key_strides(const MatrixView& view, Operand o, const TileGrid& a, const TileGrid& c) {
    KeyStrides s;
    for (std::size_t d = 0; d < view.labels[o].size(); ++d) {
        const char l = view.labels[o][d];
        const bool batch = view.part(o, static_cast<int>(d)) == MatrixPart::batch;
        const bool contracted = view.contracted(o, static_cast<int>(d));
        const auto in_c = static_cast<int>(view.labels.c.find(l)), in_a = static_cast<int>(view.labels.a.find(l));
        s.batch.push_back(batch ? c.ordinal_strides()[in_c] : 0);
        s.free.push_back(batch || contracted ? 0 : c.ordinal_strides()[in_c]);
        s.k.push_back(contracted ? a.ordinal_strides()[in_a] : 0);
    }
    return s;
}

/// free_elements: of each slot, the elements of its free indices; null: not asked for.
std::vector<TileKey> keys_of(const Shape& shape, const KeyStrides& strides, std::vector<double>* free_elements) {
    std::vector<TileKey> out(static_cast<std::size_t>(shape.tile_count()));
    if (free_elements) free_elements->assign(out.size(), 1);
    const auto& grid = shape.grid();
    const int rank = grid.rank();
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const auto at = grid.coordinates(shape.tile(s));
        TileKey e{0, 0, 0, static_cast<std::int32_t>(s)};
        for (int d = 0; d < rank; ++d) {
            e.batch += at[d] * strides.batch[d];
            e.free += at[d] * strides.free[d];
            e.k += at[d] * strides.k[d];
            if (free_elements && strides.free[d] > 0)
                (*free_elements)[s] *= static_cast<double>(grid.tiling(d).size(TileIndex{at[d]}));
        }
        out[s] = e;
    }
    return out;
}

template <class Less>
void sort_unless_sorted(std::vector<TileKey>& v, Less less) {
    if (!std::is_sorted(v.begin(), v.end(), less)) std::sort(v.begin(), v.end(), less);
}

std::vector<TilesOfB::Row> rows_of(const std::vector<TileKey>& keys) {
    std::vector<TilesOfB::Row> rows;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (rows.empty() || rows.back().batch != keys[i].batch || rows.back().k != keys[i].k)
            rows.push_back({keys[i].batch, keys[i].k, i, i});
        rows.back().end = i + 1;
    }
    return rows;
}

/// The distinct columns in ascending order; and the place of each key's among them.
void number_columns(const std::vector<TileKey>& keys, std::vector<std::int64_t>& columns,
                    std::vector<std::int32_t>& column) {
    column.resize(keys.size());
    if (keys.empty()) return;
    const auto free = [](const TileKey& e) { return e.free; };
    const auto [low, high] = std::ranges::minmax(keys, {}, free);
    const auto first = low.free;
    if (high.free - first < 4 * static_cast<std::int64_t>(keys.size()) + 1024) {  // a table beats sorting
        std::vector<std::int32_t> place(static_cast<std::size_t>(high.free - first) + 1, -1);
        for (const auto& e : keys) place[static_cast<std::size_t>(e.free - first)] = 0;
        for (std::size_t v = 0; v < place.size(); ++v)
            if (place[v] == 0) {
                place[v] = static_cast<std::int32_t>(columns.size());
                columns.push_back(first + static_cast<std::int64_t>(v));
            }
        for (std::size_t i = 0; i < keys.size(); ++i) column[i] = place[static_cast<std::size_t>(keys[i].free - first)];
        return;
    }
    columns.resize(keys.size());
    std::ranges::transform(keys, columns.begin(), free);
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (std::size_t i = 0; i < keys.size(); ++i)
        column[i] = static_cast<std::int32_t>(std::ranges::lower_bound(columns, keys[i].free) - columns.begin());
}

}  // namespace

TilesOfB tiles_of_b(const MatrixView& view, const Shape& b, const TileGrid& a, const TileGrid& c) {
    std::vector<double> free_elements;
    auto keys = keys_of(b, key_strides(view, Operand::b, a, c), &free_elements);
    sort_unless_sorted(keys, [](const TileKey& x, const TileKey& y) {
        return x.batch != y.batch ? x.batch < y.batch : x.k != y.k ? x.k < y.k : x.free < y.free;
    });
    TilesOfB out;
    out.rows = rows_of(keys);
    number_columns(keys, out.columns, out.column);
    out.slot.resize(keys.size());
    out.norm.resize(keys.size());
    out.free_elements.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto slot = keys[i].slot;
        out.slot[i] = slot;
        out.norm[i] = b.norm_of(slot);
        out.free_elements[i] = free_elements[slot];
    }
    return out;
}

TilesOfA tiles_of_a(const MatrixView& view, const Shape& a, const TileGrid& c, const TilesOfB& b) {
    TilesOfA out;
    out.entries = keys_of(a, key_strides(view, Operand::a, a.grid(), c), nullptr);
    sort_unless_sorted(out.entries, [](const TileKey& x, const TileKey& y) {
        const auto rx = x.batch + x.free, ry = y.batch + y.free;
        return rx != ry ? rx < ry : x.k < y.k;
    });
    out.row_of_b.assign(out.entries.size(), -1);
    for (std::size_t i = 0; i < out.entries.size(); ++i) {
        const auto& e = out.entries[i];
        const auto it = std::lower_bound(b.rows.begin(), b.rows.end(), e, [](const TilesOfB::Row& r, const TileKey& x) {
            return r.batch != x.batch ? r.batch < x.batch : r.k < x.k;
        });
        if (it != b.rows.end() && it->batch == e.batch && it->k == e.k)
            out.row_of_b[i] = static_cast<std::int32_t>(it - b.rows.begin());
    }
    return out;
}

}  // namespace tessera
