// The host side of the device lists: checks, block shapes, images.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "base/check.hpp"
#include "device/cuda/grouped_gemm.hpp"
#include "device/cuda/grouped_shapes.hpp"

namespace tessera::kernels::cuda {

namespace {

std::int32_t narrow(std::int64_t value, const char* what) {
    require(value >= 0 && value <= std::numeric_limits<std::int32_t>::max(), "device tiles: {} of {} does not fit",
            what, value);
    return static_cast<std::int32_t>(value);
}

void check_rows(std::int64_t rows, std::int64_t columns, std::int64_t ld, const char* what) {
    require(rows <= 1 || ld >= columns, "device tiles: {} has {} columns but a leading dimension of {}", what, columns,
            ld);
}

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

template <class T>
std::int64_t bytes_of(const std::vector<T>& list) {
    return static_cast<std::int64_t>(list.size() * sizeof(T));
}

template <class T>
void put(void* to, std::int64_t at, const std::vector<T>& list) {
    if (!list.empty()) std::memcpy(static_cast<char*>(to) + at, list.data(), list.size() * sizeof(T));
}

/// An extent in pieces, dealt to as few blocks as will do, as evenly as whole units allow.
struct Deal {
    std::int64_t units, blocks, unit;
    Deal(std::int64_t extent, std::int64_t piece, std::int64_t side, std::int64_t unit_pieces) : unit(unit_pieces) {
        const std::int64_t step = piece * unit_pieces;
        units = (extent + step - 1) / step;
        blocks = (units * step + side - 1) / side;
    }
    std::int64_t begin(std::int64_t block) const { return units * block / blocks * unit; }  // in pieces
};

int shape_for(std::int64_t m, std::int64_t n) {
    if (m <= 16 && n <= 16) return 3;
    if (m <= 32 && n <= 32) return 2;
    return m > 64 && n > 64 ? 0 : 1;
}

}  // namespace

void GroupedList::clear() {
    tiles_.clear();
    products_.clear();
}

void GroupedList::add_tile(DeviceAddress c, std::int64_t m, std::int64_t n, std::int64_t ldc, bool resume) {
    check_rows(m, n, ldc, "C");
    GroupedTile t;
    t.c = c;
    t.first_product = product_count();
    t.m = narrow(m, "m");
    t.n = narrow(n, "n");
    t.ldc = narrow(ldc, "leading dimension");
    t.resume = resume ? 1 : 0;
    tiles_.push_back(t);
}

void GroupedList::add_product(DeviceAddress a, std::int64_t lda, DeviceAddress b, std::int64_t ldb, std::int64_t k,
                              std::uint32_t flags) {
    ensure(!tiles_.empty(), "grouped products: a product before any tile");
    GroupedTile& tile = tiles_.back();
    const bool ta = flags & kTransposeA, tb = flags & kTransposeB;
    check_rows(ta ? k : tile.m, ta ? tile.m : k, lda, "A");
    check_rows(tb ? tile.n : k, tb ? k : tile.n, ldb, "B");
    if (k == 0) return;  // the kernels count on something to sum
    GroupedProduct p;
    p.a = a;
    p.b = b;
    p.lda = narrow(lda, "leading dimension");
    p.ldb = narrow(ldb, "leading dimension");
    p.k = narrow(k, "k");
    p.flags = flags;
    products_.push_back(p);
    ++tile.product_count;
}

constexpr int kShortList = 32;  // large work items a multiprocessor: the last one is 3 % of the time

GroupedLaunch GroupedList::plan(int multiprocessors, const GroupedTuning& tuning) {
    launch_ = {};
    launch_.kind = kind_;
    for (auto& list : items_) list.clear();
    const auto shape_of = [&](const GroupedTile& t) {
        if (kind_ != ScalarKind::f64) return kPlainShape;
        return tuning.shape >= 0 && tuning.shape < kPlainShape ? tuning.shape : shape_for(t.m, t.n);
    };
    const auto blocks_of = [](const GroupedTile& t, int shape) {
        const auto [side, row_unit, column_unit] = kGroupedShapes[shape];
        return Deal(t.m, 16, side, row_unit).blocks * Deal(t.n, 8, side, column_unit).blocks;
    };
    // Large blocks that leave multiprocessors idle are cut smaller: the bits are the same.
    std::int64_t large = 0;
    for (const GroupedTile& t : tiles_)
        if (shape_of(t) == 0) large += blocks_of(t, 0);
    const bool cut = tuning.shape < 0 && large < multiprocessors;
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
        const GroupedTile& t = tiles_[i];
        for (std::int64_t p = 0; p < t.product_count; ++p)
            launch_.flops += 2.0 * t.m * t.n * products_[static_cast<std::size_t>(t.first_product + p)].k;
        if (t.m == 0 || t.n == 0 || (t.resume && t.product_count == 0)) continue;
        int shape = shape_of(t);
        if (shape == 0 && cut) shape = 1;
        const auto [side, row_unit, column_unit] = kGroupedShapes[shape];
        const Deal rows(t.m, 16, side, row_unit), columns(t.n, 8, side, column_unit);
        for (std::int64_t r = 0; r < rows.blocks; ++r)
            for (std::int64_t q = 0; q < columns.blocks; ++q) {
                GroupedItem item;
                item.tile = static_cast<std::int32_t>(i);
                item.row = static_cast<std::int32_t>(16 * rows.begin(r));
                item.column = static_cast<std::int32_t>(8 * columns.begin(q));
                item.row_pieces = static_cast<std::uint16_t>(rows.begin(r + 1) - rows.begin(r));
                item.column_pieces = static_cast<std::uint16_t>(columns.begin(q + 1) - columns.begin(q));
                items_[shape].push_back(item);
            }
    }
    // A short list ends late where its last items are long: those with most work first. The items of a tile, which
    // share operands, stay together; long lists keep their order, in which neighbours share them too. The bits are the
    // same.
    auto& first = items_[0];
    if (!first.empty() && static_cast<std::int64_t>(first.size()) < std::int64_t{kShortList} * multiprocessors) {
        std::vector<double> work(tiles_.size(), 0);
        for (std::size_t i = 0; i < tiles_.size(); ++i) {
            const GroupedTile& t = tiles_[i];
            if (t.m == 0 || t.n == 0) continue;
            for (std::int64_t p = 0; p < t.product_count; ++p)
                work[i] += products_[static_cast<std::size_t>(t.first_product + p)].k;
            work[i] *= static_cast<double>(t.m) * t.n / static_cast<double>(blocks_of(t, 0));
        }
        std::ranges::stable_sort(first, std::greater{},
                                 [&](const GroupedItem& item) { return work[static_cast<std::size_t>(item.tile)]; });
    }
    std::int64_t at = kGroupedHeaderBytes;
    launch_.tiles_at = at;
    launch_.products_at = at = aligned(at + bytes_of(tiles_));
    at = aligned(at + bytes_of(products_));
    for (int s = 0; s < GroupedLaunch::kShapes; ++s) {
        launch_.items_at[s] = at;
        launch_.item_count[s] = narrow(static_cast<std::int64_t>(items_[s].size()), "number of work items");
        at = aligned(at + bytes_of(items_[s]));
    }
    launch_.bytes = at;
    return launch_;
}

void GroupedList::write_image(void* to) const {
    std::memset(to, 0, kGroupedHeaderBytes);
    put(to, launch_.tiles_at, tiles_);
    put(to, launch_.products_at, products_);
    for (int s = 0; s < GroupedLaunch::kShapes; ++s) put(to, launch_.items_at[s], items_[s]);
}

std::int64_t grouped_bytes_bound(std::int64_t m, std::int64_t n, std::int64_t products) {
    const std::int64_t items = ((m + 63) / 64) * ((n + 63) / 64);
    return static_cast<std::int64_t>(sizeof(GroupedTile)) +
           products * static_cast<std::int64_t>(sizeof(GroupedProduct)) +
           items * static_cast<std::int64_t>(sizeof(GroupedItem));
}

// Making: fixed numbers of rows per thread block --------------------------------------------------------------------

namespace {

/// Rows of a made tile per thread block: about 16384 elements, by the extents alone.
std::int64_t rows_per_part(std::int64_t n) {
    return std::max<std::int64_t>(1, kHashElements / std::max<std::int64_t>(n, 1));
}
std::int64_t parts_of(std::int64_t m, std::int64_t n) {
    if (n == 0) return 0;
    const std::int64_t rows = rows_per_part(n);
    return (m + rows - 1) / rows;
}

}  // namespace

void HashList::add(const HashTile& tile) {
    check_rows(tile.rows, tile.columns, tile.ld, "a tile to be made");
    tiles_.push_back(tile);
}

HashLaunch HashList::plan() {
    launch_ = {};
    launch_.kind = kind_;
    items_.clear();
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
        const HashTile& t = tiles_[i];
        const std::int64_t rows = rows_per_part(t.columns);
        for (std::int64_t p = 0; p < parts_of(t.rows, t.columns); ++p)
            items_.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(p * rows),
                              static_cast<std::int32_t>(std::min(rows, t.rows - p * rows)), 0});
    }
    launch_.item_count = narrow(static_cast<std::int64_t>(items_.size()), "number of parts");
    launch_.items_at = aligned(bytes_of(tiles_));
    launch_.bytes = aligned(launch_.items_at + bytes_of(items_));
    return launch_;
}

void HashList::write_image(void* to) const {
    put(to, launch_.tiles_at, tiles_);
    put(to, launch_.items_at, items_);
}

std::int64_t hash_bytes_bound(std::int64_t rows, std::int64_t columns) {
    return static_cast<std::int64_t>(sizeof(HashTile)) +
           parts_of(rows, columns) * static_cast<std::int64_t>(sizeof(RowsItem));
}

}  // namespace tessera::kernels::cuda
