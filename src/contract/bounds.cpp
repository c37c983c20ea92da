#include "contract/bounds.hpp"

#include <algorithm>

namespace tessera {

namespace {

bool within(const Box& box, const Box& window) {
    const Box both = meet(box, window);
    return both.lo == box.lo && both.hi == box.hi;
}

Shape tiles_where(const Shape& x, const std::function<bool(const Box&)>& keep) {
    std::vector<std::int64_t> tiles;
    std::vector<double> norms;
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        if (!keep(box_of(x.grid(), x.tile(s)))) continue;
        tiles.push_back(x.tile(s).value);
        norms.push_back(x.norm_of(s));
    }
    return Shape::from_sorted(x.grid(), std::move(tiles), std::move(norms));
}

}  // namespace

Box window_of(const ContractionSpec& spec, int operand, const TileGrid& grid, const std::vector<IndexBounds>& bounds) {
    Box box{IndexVector::filled(grid.rank(), 0), grid.extents()};
    const auto& labels = spec.labels(operand);
    for (const auto& b : bounds)
        for (int d = 0; d < grid.rank(); ++d)
            if (labels[static_cast<std::size_t>(d)] == b.label) box.lo[d] = b.lo, box.hi[d] = b.hi;
    return box;
}

void require_bounds(const std::vector<std::string>& labels, const std::string& spec,
                    std::span<const TileGrid* const> operands, const std::vector<IndexBounds>& bounds) {
    for (auto b = bounds.begin(); b != bounds.end(); ++b) {
        const bool twice = std::any_of(bounds.begin(), b, [&](const IndexBounds& x) { return x.label == b->label; });
        require(!twice, "spec '{}': bounds of label '{}' are given twice", spec, b->label);
        bool found = false;
        for (std::size_t o = 0; o < operands.size(); ++o) {
            const auto d = labels[o].find(b->label);
            if (d == std::string::npos) continue;
            found = true;
            const auto extent = operands[o]->tiling(static_cast<int>(d)).extent();
            require(b->lo >= 0 && b->lo <= b->hi && b->hi <= extent,
                    "spec '{}': bounds {}..{} of label '{}' are not within 0..{}", spec, b->lo, b->hi, b->label,
                    extent);
        }
        require(found, "spec '{}': bounds are given of label '{}', which no operand has", spec, b->label);
    }
}

void require_bounds(const ContractionSpec& spec, std::span<const TileGrid* const> operands,
                    const std::vector<IndexBounds>& bounds) {
    std::vector<std::string> labels;
    for (int o = 0; o < spec.operand_count(); ++o) labels.push_back(spec.labels(o));
    require_bounds(labels, spec.text(), operands, bounds);
}

Shape bounded_shape(const Shape& x, const Box& window) {
    return tiles_where(x, [&](const Box& box) { return !meet(box, window).empty(); });
}

Shape cut_shape(const Shape& x, const Box& window) {
    return tiles_where(x, [&](const Box& box) { return !meet(box, window).empty() && !within(box, window); });
}

template <Scalar T>
void zero_outside(const TileInfo& info, const Box& window, std::span<T> tile) {
    const int rank = info.begin.size();
    if (rank == 0) return;
    const std::int64_t run = info.extents[rank - 1];
    const auto first = std::clamp<std::int64_t>(window.lo[rank - 1] - info.begin[rank - 1], 0, run),
               last = std::clamp<std::int64_t>(window.hi[rank - 1] - info.begin[rank - 1], first, run);
    IndexVector at = info.begin;
    for (T* row = tile.data(); row < tile.data() + tile.size(); row += run) {
        bool inside = true;
        for (int d = 0; d < rank - 1; ++d) inside &= at[d] >= window.lo[d] && at[d] < window.hi[d];
        std::fill(row, row + (inside ? first : run), T{});
        if (inside) std::fill(row + last, row + run, T{});
        for (int d = rank - 2; d >= 0; --d) {
            if (++at[d] < info.begin[d] + info.extents[d]) break;
            at[d] = info.begin[d];
        }
    }
}

template <Scalar T>
Tensor<T> bounded(const Tensor<T>& x, const Box& window, bool cut, int threads) {
    return Tensor<T>::generate(
        cut ? cut_shape(x.shape(), window) : bounded_shape(x.shape(), window),
        [&](const TileInfo& info, std::span<T> tile) {
            std::ranges::copy(x.tile(info.coordinates), tile.begin());
            zero_outside(info, window, tile);
        },
        threads, x.placement());
}

template <Scalar T>
GeneratedTensor<T> bounded(const GeneratedTensor<T>& x, const Box& window) {
    GeneratedTensor<T> out{bounded_shape(x.shape, window), x.make, x.on_device};
    if (cut_shape(x.shape, window).empty()) return out;
    out.on_device = {};  // devices make whole tiles
    if (x.make)
        out.make = [make = x.make, window](const TileInfo& info, std::span<T> tile) {
            make(info, tile);
            zero_outside(info, window, tile);
        };
    return out;
}

void bound_operands(PlanQuestion& q) {
    if (q.options.bounds.empty() || q.spec.operand_count() != 2) return;
    (void)q.spec.result_grid(q.a.shape->grid(), q.b.shape->grid());  // every label has one tiling
    const TileGrid* const grids[] = {&q.a.shape->grid(), &q.b.shape->grid()};
    require_bounds(q.spec, grids, q.options.bounds);
    for (int n : {0, 1}) {
        OperandShape& x = n == 0 ? q.a : q.b;
        const Box window = window_of(q.spec, n, x.shape->grid(), q.options.bounds);
        auto& parts = q.bounds[static_cast<std::size_t>(n)];
        parts.whole = std::make_shared<const Shape>(*x.shape);
        parts.cut = std::make_shared<const Shape>(cut_shape(*x.shape, window));
        parts.kept = std::make_shared<const Shape>(bounded_shape(*x.shape, window));
        x.shape = parts.kept.get();
        if (x.source == SourceKind::device_made && !parts.cut->empty()) x.source = SourceKind::host_made;
    }
}

#define TESSERA_INSTANTIATE(T)                                             \
    template void zero_outside(const TileInfo&, const Box&, std::span<T>); \
    template Tensor<T> bounded(const Tensor<T>&, const Box&, bool, int);   \
    template GeneratedTensor<T> bounded(const GeneratedTensor<T>&, const Box&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
