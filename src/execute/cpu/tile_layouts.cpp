#include "execute/cpu/tile_layouts.hpp"

#include <map>

namespace tessera {

namespace {

/// Axes of a tile for these labels; neighbours that walk memory as one become one.
kernels::Axes axes_of(const std::string& group, const std::string& labels, const IndexVector& extents,
                      const IndexVector& strides) {
    kernels::Axes axes;
    for (char l : group) {
        const int d = static_cast<int>(labels.find(l));
        if (extents[d] == 1) continue;
        const kernels::Axis next{extents[d], strides[d]};
        if (axes.count > 0 && axes.axis[axes.count - 1].stride == next.extent * next.stride) {
            auto& last = axes.axis[axes.count - 1];
            last = {last.extent * next.extent, next.stride};
        } else {
            axes.push_back(next);
        }
    }
    return axes;
}

}  // namespace

TileLayouts::TileLayouts(const Shape& shape, const std::string& labels, const std::string& rows,
                         const std::string& cols, const std::string& batch) {
    const auto& grid = shape.grid();
    const auto less = [](const IndexVector& x, const IndexVector& y) {
        return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
    };
    std::map<IndexVector, std::int32_t, decltype(less)> known(less);
    class_of_.reserve(static_cast<std::size_t>(shape.tile_count()));
    IndexVector previous;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const auto extents = grid.tile_extents(shape.tile(s));
        if (s > 0 && extents == previous) {
            class_of_.push_back(class_of_.back());
            continue;
        }
        previous = extents;
        const auto [it, fresh] = known.try_emplace(extents, static_cast<std::int32_t>(layouts_.size()));
        if (fresh) {
            const auto strides = row_major_strides(extents);
            layouts_.push_back({{axes_of(rows, labels, extents, strides), axes_of(cols, labels, extents, strides)},
                                axes_of(batch, labels, extents, strides)});
        }
        class_of_.push_back(it->second);
    }
}

}  // namespace tessera
