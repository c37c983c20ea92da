#include "tessera/matrix/layouts.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/check.hpp"
#include "comm/outcome.hpp"
#include "shape/require_whole.hpp"
#include "tessera/tensor/builder.hpp"
#include "tessera/tensor/slice.hpp"

namespace tessera {

namespace {

/// Elements of an index of this extent that coordinate `at` of `ranks` has: ScaLAPACK's NUMROC.
std::int64_t local_extent(std::int64_t extent, std::int64_t block, int at, int first, int ranks) {
    const std::int64_t blocks = extent / block, rest = extent % block;
    const std::int64_t from_first = (ranks + at - first) % ranks;
    std::int64_t mine = blocks / ranks * block;
    if (from_first < blocks % ranks) mine += block;
    if (from_first == blocks % ranks) mine += rest;
    return mine;
}

void require_layout(const BlockCyclic& l, const Communicator& ranks, std::int64_t given) {
    require(l.rows >= 0 && l.columns >= 0, "block-cyclic: a matrix of {} rows and {} columns", l.rows, l.columns);
    require(l.row_block >= 1 && l.column_block >= 1, "block-cyclic: blocks of {} x {}, both must be at least 1",
            l.row_block, l.column_block);
    require(l.grid_rows >= 1 && l.grid_columns >= 1 && l.grid_rows * l.grid_columns <= ranks.size(),
            "block-cyclic: a grid of {} x {} ranks, there are {}", l.grid_rows, l.grid_columns, ranks.size());
    require(l.first_row >= 0 && l.first_row < l.grid_rows && l.first_column >= 0 && l.first_column < l.grid_columns,
            "block-cyclic: the first block is at ({}, {}) of a grid of {} x {} ranks", l.first_row, l.first_column,
            l.grid_rows, l.grid_columns);
    const std::int64_t rows = l.local_rows(ranks.rank()), columns = l.local_columns(ranks.rank());
    require(l.leading == 0 || l.leading >= rows, "block-cyclic: a leading dimension of {} for {} rows", l.leading,
            rows);
    const std::int64_t leading = l.leading == 0 ? rows : l.leading,
                       least = columns == 0 ? 0 : leading * (columns - 1) + rows;
    require(given >= least, "block-cyclic: an array of {} elements, {} columns of {} need {}", given, columns, leading,
            least);
}

/// Blocks as tiles, each on its rank.
Placement placement_of(const BlockCyclic& l, const TileGrid& blocks, Communicator& ranks) {
    std::vector<std::vector<std::int32_t>> maps(2);
    for (std::int64_t i = 0; i < blocks.tiling(0).tile_count(); ++i)
        maps[0].push_back(static_cast<std::int32_t>((i + l.first_row) % l.grid_rows));
    for (std::int64_t j = 0; j < blocks.tiling(1).tile_count(); ++j)
        maps[1].push_back(static_cast<std::int32_t>((j + l.first_column) % l.grid_columns));
    return {ranks, Distribution::from_maps(ranks.size(), std::move(maps), {l.grid_rows, l.grid_columns})};
}

TileGrid blocks_of(const BlockCyclic& l) {
    return TileGrid({Tiling::uniform(l.rows, l.row_block), Tiling::uniform(l.columns, l.column_block)});
}

/// Where the block's first element is in its rank's array.
std::int64_t local_place(const BlockCyclic& l, const TileInfo& block, std::int64_t leading) {
    return block.coordinates[0] / l.grid_rows * l.row_block +
           leading * (block.coordinates[1] / l.grid_columns * l.column_block);
}

void require_all(Communicator& ranks, const std::function<void()>& check) {
    Outcome outcome;
    outcome.attempt(check);
    outcome.share_all(ranks);
}

void require_matrix(const TileGrid& grid, std::int64_t rows, std::int64_t columns, const char* what) {
    require(grid.rank() == 2, "{}: tiles of rank {}, a matrix is needed", what, grid.rank());
    require(grid.tiling(0).extent() == rows && grid.tiling(1).extent() == columns,
            "{}: tiles of {} x {} elements for a matrix of {} x {}", what, grid.tiling(0).extent(),
            grid.tiling(1).extent(), rows, columns);
}

}  // namespace

std::int64_t BlockCyclic::local_rows(int rank) const {
    return rank < grid_rows * grid_columns ? local_extent(rows, row_block, rank / grid_columns, first_row, grid_rows)
                                           : 0;
}
std::int64_t BlockCyclic::local_columns(int rank) const {
    return rank < grid_rows * grid_columns
               ? local_extent(columns, column_block, rank % grid_columns, first_column, grid_columns)
               : 0;
}

template <Scalar T>
Tensor<T> from_block_cyclic(const BlockCyclic& l, std::span<const T> local, const TileGrid& grid, Communicator& ranks) {
    require_all(ranks, [&] {
        require_layout(l, ranks, static_cast<std::int64_t>(local.size()));
        require_matrix(grid, l.rows, l.columns, "from_block_cyclic");
    });
    const TileGrid blocks = blocks_of(l);
    const std::int64_t leading = l.leading == 0 ? l.local_rows(ranks.rank()) : l.leading;
    auto x = Tensor<T>::generate(
        Shape::dense(blocks),
        [&](const TileInfo& info, std::span<T> tile) {
            const T* from = local.data() + local_place(l, info, leading);
            for (std::int64_t i = 0; i < info.extents[0]; ++i)
                for (std::int64_t j = 0; j < info.extents[1]; ++j)
                    tile[static_cast<std::size_t>(i * info.extents[1] + j)] = from[i + j * leading];
        },
        0, placement_of(l, blocks, ranks));
    auto out = retile(x, grid, Distribution::even(grid, ranks.size()));
    return filter(out, std::numeric_limits<double>::min());
}

template <Scalar T>
void to_block_cyclic(const Tensor<T>& a, const BlockCyclic& l, std::span<T> local) {
    Communicator& ranks = a.communicator();
    require_all(ranks, [&] {
        require_layout(l, ranks, static_cast<std::int64_t>(local.size()));
        require_matrix(a.grid(), l.rows, l.columns, "to_block_cyclic");
    });
    const TileGrid blocks = blocks_of(l);
    const auto x = retile(a, blocks, placement_of(l, blocks, ranks).distribution);
    const std::int64_t rows = l.local_rows(ranks.rank()), columns = l.local_columns(ranks.rank());
    const std::int64_t leading = l.leading == 0 ? rows : l.leading;
    for (std::int64_t j = 0; j < columns; ++j) std::fill_n(local.data() + j * leading, rows, T{});
    x.for_each_tile(
        [&](const TileInfo& info, std::span<const T> tile) {
            T* to = local.data() + local_place(l, info, leading);
            for (std::int64_t i = 0; i < info.extents[0]; ++i)
                for (std::int64_t j = 0; j < info.extents[1]; ++j)
                    to[i + j * leading] = tile[static_cast<std::size_t>(i * info.extents[1] + j)];
        },
        0);
}

template <Scalar T>
Tensor<T> from_csr(const CsrRows<T>& mine, const TileGrid& grid, const Placement& where) {
    require_all(*where.communicator, [&] {
        require(grid.rank() == 2, "from_csr: tiles of rank {}, a matrix is needed", grid.rank());
        const std::int64_t rows = grid.tiling(0).extent(), columns = grid.tiling(1).extent();
        require(!mine.starts.empty() && mine.first_row >= 0 && mine.first_row + mine.rows() <= rows,
                "from_csr: rows {} to {} of {}", mine.first_row, mine.first_row + mine.rows(), rows);
        const auto entries = static_cast<std::int64_t>(mine.columns.size());
        require(mine.values.size() == mine.columns.size() && mine.starts.front() == 0 && mine.starts.back() == entries,
                "from_csr: starts from {} to {} for {} columns and {} values", mine.starts.front(), mine.starts.back(),
                entries, mine.values.size());
        for (std::int64_t r = 0; r < mine.rows(); ++r)
            require(mine.starts[static_cast<std::size_t>(r)] <= mine.starts[static_cast<std::size_t>(r) + 1],
                    "from_csr: row {} ends before it starts", mine.first_row + r);
        for (const std::int64_t c : mine.columns)
            require(c >= 0 && c < columns, "from_csr: column {} of {}", c, columns);
    });
    TensorBuilder<T> builder(grid, where);
    const auto row_offsets = grid.tiling(0).offsets(), column_offsets = grid.tiling(1).offsets();
    const auto tile_of = [](std::span<const std::int64_t> offsets, std::int64_t at) {
        return std::ranges::upper_bound(offsets, at) - offsets.begin() - 1;
    };
    // A tile row at a time.
    for (std::int64_t r = 0; r < mine.rows();) {
        const std::int64_t tile_row = tile_of(row_offsets, mine.first_row + r);
        const std::int64_t begin = row_offsets[static_cast<std::size_t>(tile_row)];
        const std::int64_t end = row_offsets[static_cast<std::size_t>(tile_row) + 1];
        std::map<std::int64_t, std::vector<T>> blocks;
        for (; r < mine.rows() && mine.first_row + r < end; ++r)
            for (auto e = mine.starts[static_cast<std::size_t>(r)]; e < mine.starts[static_cast<std::size_t>(r) + 1];
                 ++e) {
                const std::int64_t column = mine.columns[static_cast<std::size_t>(e)];
                const std::int64_t tile_column = tile_of(column_offsets, column);
                const std::int64_t first = column_offsets[static_cast<std::size_t>(tile_column)];
                const std::int64_t width = column_offsets[static_cast<std::size_t>(tile_column) + 1] - first;
                auto& block = blocks[tile_column];
                if (block.empty()) block.resize(static_cast<std::size_t>((end - begin) * width));
                block[static_cast<std::size_t>((mine.first_row + r - begin) * width + column - first)] +=
                    mine.values[static_cast<std::size_t>(e)];
            }
        for (const auto& [tile_column, block] : blocks) builder.add({tile_row, tile_column}, block);
    }
    return builder.finalize();
}

template <Scalar T>
CsrRows<T> to_csr(const Tensor<T>& a) {
    require(a.rank() == 2, "to_csr: a matrix is needed, this tensor has rank {}", a.rank());
    require_whole("to_csr", a.shape());
    Communicator& ranks = a.communicator();
    const Distribution by_rows(ranks.size(), {{ranks.size(), Distribution::Deal::blocked}, {}});
    const auto x = ranks.size() > 1 ? redistribute(a, by_rows) : a;
    const auto offsets = a.grid().tiling(0).offsets();
    const std::int64_t tile_rows = a.grid().tiling(0).tile_count();
    CsrRows<T> out;
    bool any = false;
    std::int64_t slot = 0;
    for (std::int64_t t = 0; t < tile_rows; ++t) {
        const std::int64_t first = slot, columns = a.grid().tiling(1).tile_count();
        while (slot < x.tile_count() && x.shape().tile(slot).value < (t + 1) * columns) ++slot;
        if (columns > 0 && ranks.size() > 1 && by_rows.owner(a.grid(), a.grid().ordinal({t, 0})) != ranks.rank())
            continue;
        if (!any) out.first_row = offsets[static_cast<std::size_t>(t)];
        any = true;
        const std::int64_t rows = offsets[static_cast<std::size_t>(t) + 1] - offsets[static_cast<std::size_t>(t)];
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t s = first; s < slot; ++s) {
                const auto begin = x.grid().tile_begin(x.shape().tile(s)),
                           extents = x.grid().tile_extents(x.shape().tile(s));
                const auto tile = x.tile(s);
                for (std::int64_t j = 0; j < extents[1]; ++j) {
                    const T e = tile[static_cast<std::size_t>(i * extents[1] + j)];
                    if (e == T{}) continue;
                    out.columns.push_back(begin[1] + j);
                    out.values.push_back(e);
                }
            }
            out.starts.push_back(static_cast<std::int64_t>(out.columns.size()));
        }
    }
    return out;
}

#define TESSERA_INSTANTIATE(T)                                                                                    \
    template Tensor<T> from_block_cyclic(const BlockCyclic&, std::span<const T>, const TileGrid&, Communicator&); \
    template void to_block_cyclic(const Tensor<T>&, const BlockCyclic&, std::span<T>);                            \
    template Tensor<T> from_csr(const CsrRows<T>&, const TileGrid&, const Placement&);                            \
    template CsrRows<T> to_csr(const Tensor<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
