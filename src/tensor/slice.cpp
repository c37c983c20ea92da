#include "tessera/tensor/slice.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "comm/same_on_all.hpp"
#include "shape/require_whole.hpp"
#include "tensor/boxes.hpp"
#include "tensor/checksum.hpp"

namespace tessera {

namespace {

std::string text_of(std::span<const ElementRange> ranges) {
    std::string text;
    for (const auto& r : ranges) text += fmt::format("{}{}..{}", text.empty() ? "" : ", ", r.lo, r.hi);
    return text;
}

Box window_of(const char* operation, const TileGrid& grid, std::span<const ElementRange> ranges) {
    require(static_cast<int>(ranges.size()) == grid.rank(), "{}: {} ranges for a tensor of rank {}", operation,
            ranges.size(), grid.rank());
    Box box;
    for (int d = 0; d < grid.rank(); ++d) {
        const auto& r = ranges[static_cast<std::size_t>(d)];
        require(r.lo >= 0 && r.lo <= r.hi && r.hi <= grid.tiling(d).extent(),
                "{}: range {}..{} of index {} is not within 0..{}", operation, r.lo, r.hi, d, grid.tiling(d).extent());
        box.lo.push_back(r.lo);
        box.hi.push_back(r.hi);
    }
    return box;
}

/// Every rank must ask for the same, or they would wait for each other.
void require_same(Communicator& ranks, const char* operation, const std::string& what) {
    require_same_on_all(ranks, {{operation, what}});
}

/// Tiles of a grid, with norms to come.
Shape shape_of(const TileGrid& grid, std::vector<std::int64_t> tiles) {
    std::ranges::sort(tiles);
    tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
    std::vector<double> norms(tiles.size(), 0.0);
    return Shape::from_sorted(grid, std::move(tiles), std::move(norms));
}

template <Scalar T>
void take_norms(Tensor<T>& x) {
    x.update_tiles([](const TileInfo&, std::span<T>) {});
}

/// The grid's tiles that a window of x's nonzero tiles goes into.
std::vector<std::int64_t> tiles_of(const Shape& x, const Box& window, const IndexVector& shift, const TileGrid& grid) {
    std::vector<std::int64_t> tiles;
    for (std::int64_t s = 0; s < x.tile_count(); ++s)
        for_each_tile_in(grid, shifted(meet(box_of(x.grid(), x.tile(s)), window), shift),
                         [&](TileOrdinal tile) { tiles.push_back(tile.value); });
    return tiles;
}

Box whole(const TileGrid& grid) { return {IndexVector::filled(grid.rank(), 0), grid.extents()}; }

}  // namespace

template <Scalar T>
Tensor<T> retile(const Tensor<T>& x, const TileGrid& grid, std::optional<Distribution> where) {
    require_whole("retile", x.shape());
    require(grid.rank() == x.rank(), "retile: tilings of rank {} for a tensor of rank {}", grid.rank(), x.rank());
    for (int d = 0; d < x.rank(); ++d)
        require(grid.tiling(d).extent() == x.grid().tiling(d).extent(),
                "retile: index {} has {} elements, but the new tiles {}", d, x.grid().tiling(d).extent(),
                grid.tiling(d).extent());
    require_same(x.communicator(), "retile",
                 fmt::format("{} ({:016x}), dealt to {}", to_string(grid),
                             join_checksums(ScalarTraits<T>::kind, grid, {}), where ? to_string(*where) : "default"));
    if (!where) {
        const auto& axes = x.distribution().axes();
        bool fits = true;
        for (std::size_t d = 0; d < axes.size(); ++d)
            fits &= axes[d].deal != Distribution::Deal::mapped ||
                    static_cast<std::int64_t>(axes[d].map.size()) == grid.tiling(static_cast<int>(d)).tile_count();
        for (const auto& p : x.distribution().patches())
            for (std::size_t j = 0; j < p.indices.size(); ++j)
                fits &= p.tiles[j] == grid.tiling(p.indices[j]).tile_count();
        where = fits ? x.distribution() : Distribution::even(grid, x.communicator().size());
    }
    const auto window = whole(x.grid()), none = Box{window.lo, window.lo};
    Tensor<T> out(shape_of(grid, tiles_of(x.shape(), window, none.lo, grid)), {x.communicator(), *where});
    copy_elements(x, window, none.lo, out);
    take_norms(out);
    return out;
}

template <Scalar T>
Tensor<T> slice(const Tensor<T>& x, std::span<const ElementRange> ranges) {
    require_whole("slice", x.shape());
    const Box window = window_of("slice", x.grid(), ranges);
    require_same(x.communicator(), "slice", text_of(ranges));
    std::vector<Tiling> tilings;
    IndexVector first, count, shift;
    for (int d = 0; d < x.rank(); ++d) {
        const Tiling& tiling = x.grid().tiling(d);
        std::vector<std::int64_t> sizes;
        const bool none = window.lo[d] == window.hi[d];
        first.push_back(none ? 0 : tiling.tile_of(ElementIndex{window.lo[d]}).value);
        for (std::int64_t t = first[d]; !none && t < tiling.tile_count(); ++t) {
            const std::int64_t begin = tiling.begin(TileIndex{t}).value, end = begin + tiling.size(TileIndex{t});
            if (begin >= window.hi[d]) break;
            sizes.push_back(std::min(end, window.hi[d]) - std::max(begin, window.lo[d]));
        }
        count.push_back(static_cast<std::int64_t>(sizes.size()));
        shift.push_back(-window.lo[d]);
        tilings.push_back(Tiling::from_sizes(sizes));
    }
    const TileGrid grid(std::move(tilings));
    Tensor<T> out(shape_of(grid, tiles_of(x.shape(), window, shift, grid)),
                  {x.communicator(), x.distribution().sliced(x.grid(), first, count)});
    copy_elements(x, window, shift, out);
    take_norms(out);
    return out;
}

template <Scalar T>
void assign_slice(Tensor<T>& x, std::span<const ElementRange> ranges, const Tensor<T>& y) {
    require_whole("assign_slice", x.shape());
    require_whole("assign_slice", y.shape());
    const Box window = window_of("assign_slice", x.grid(), ranges);
    require(y.rank() == x.rank(), "assign_slice: tensors of rank {} and {}", x.rank(), y.rank());
    for (int d = 0; d < x.rank(); ++d)
        require(y.grid().tiling(d).extent() == window.hi[d] - window.lo[d],
                "assign_slice: range {}..{} of index {} is given {} elements", window.lo[d], window.hi[d], d,
                y.grid().tiling(d).extent());
    require(same_ranks(x.communicator(), y.communicator()),
            "assign_slice: tensors on different communicators, of {} and {} ranks", x.communicator().size(),
            y.communicator().size());
    require_same(x.communicator(), "assign_slice", text_of(ranges));

    // What stays of x: all but the tiles that lie within the ranges.
    std::vector<std::int64_t> tiles = tiles_of(y.shape(), whole(y.grid()), window.lo, x.grid());
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        const Box box = box_of(x.grid(), x.shape().tile(s)), inside = meet(box, window);
        if (inside.empty() || inside.lo != box.lo || inside.hi != box.hi) tiles.push_back(x.shape().tile(s).value);
    }
    Tensor<T> out(shape_of(x.grid(), std::move(tiles)), x.placement());
    out.update_tiles([&](const TileInfo& info, std::span<T> tile) {
        const auto old = x.tile(info.coordinates);
        std::ranges::copy(old, tile.begin());
        const Box box = box_of(x.grid(), info.tile), inside = meet(box, window);
        if (old.empty() || inside.empty()) return;
        const std::vector<T> zeros(static_cast<std::size_t>(inside.extents().product()));
        copy_box(zeros.data(), inside, tile.data(), box, inside);
    });
    copy_elements(y, whole(y.grid()), window.lo, out);
    take_norms(out);
    x = std::move(out);
}

#define TESSERA_INSTANTIATE(T)                                                                 \
    template Tensor<T> retile(const Tensor<T>&, const TileGrid&, std::optional<Distribution>); \
    template Tensor<T> slice(const Tensor<T>&, std::span<const ElementRange>);                 \
    template void assign_slice(Tensor<T>&, std::span<const ElementRange>, const Tensor<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
