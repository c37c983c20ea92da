// Tensors of C: made, looked at, moved, cut.

#include <algorithm>

#include "object.hpp"
#include "tessera/tensor/slice.hpp"

using namespace tessera;
using namespace tessera::c;

namespace {

/// Calls work(tensor) with the tensor of the handle, of whatever type.
template <class Work>
int visit(tessera_tensor tensor, const Work& work) {
    return guarded([&] { std::visit(work, any(tensor, "tensor")); });
}

template <class Work>
int with_grid(tessera_tensor tensor, int index, const Work& work) {
    return visit(tensor, [&](const auto& t) {
        if (index < 0 || index >= t.rank())
            refuse("index " + std::to_string(index) + " of a tensor of rank " + std::to_string(t.rank()));
        work(t.grid().tiling(index));
    });
}

std::vector<ElementRange> ranges_of(int rank, const std::int64_t* lo, const std::int64_t* hi) {
    std::vector<ElementRange> out;
    for (int d = 0; d < rank; ++d) out.push_back({given(lo, "lo")[d], given(hi, "hi")[d]});
    return out;
}

}  // namespace

int tessera_create(int type, const tessera_grid* grid, const tessera_placement* placement, tessera_tensor* tensor) {
    return guarded([&] {
        given(tensor, "tensor");
        const auto tiles = grid_of(grid);
        const auto where = placement_of(placement, tiles);
        with_type(type, [&](auto zero) { give(tensor, Tensor<decltype(zero)>(Shape(tiles), where)); });
    });
}

int tessera_create_random(int type, const tessera_grid* grid, const tessera_placement* placement, int64_t n,
                          const int64_t* coordinates, uint64_t seed, tessera_tensor* tensor) {
    return guarded([&] {
        given(tensor, "tensor");
        const auto tiles = grid_of(grid);
        const auto where = placement_of(placement, tiles);
        if (n < 0) refuse(std::to_string(n) + " tiles");
        std::vector<IndexVector> list;
        for (std::int64_t i = 0; i < n; ++i) list.push_back(coordinates_of(tiles, coordinates + i * tiles.rank()));
        std::vector<double> norms;  // that no element is cut: those of ones
        for (const auto& at : list)
            norms.push_back(std::sqrt(static_cast<double>(tiles.tile_elements(tiles.ordinal(at)))));
        const auto shape = Shape::from_coordinates(tiles, list, norms);
        with_type(type, [&](auto zero) { give(tensor, Tensor<decltype(zero)>::random(shape, seed, 0, where)); });
    });
}

int tessera_from_dense(int type, const tessera_grid* grid, const tessera_placement* placement, const void* elements,
                       double drop, tessera_tensor* tensor) {
    return guarded([&] {
        given(tensor, "tensor");
        const auto tiles = grid_of(grid);
        const auto where = placement_of(placement, tiles);
        if (tiles.element_total() > 0) given(elements, "elements");
        with_type(type, [&](auto zero) {
            using T = decltype(zero);
            give(tensor, Tensor<T>::from_dense(
                             tiles, {static_cast<const T*>(elements), static_cast<std::size_t>(tiles.element_total())},
                             drop, where));
        });
    });
}

int tessera_to_dense(tessera_tensor tensor, void* elements) {
    return visit(tensor, [&]<class T>(const Tensor<T>& t) {
        if (t.grid().element_total() > 0) given(elements, "elements");
        const auto dense = t.to_dense();
        std::copy(dense.begin(), dense.end(), static_cast<T*>(elements));
    });
}

int tessera_copy(tessera_tensor tensor, tessera_tensor* copy) {
    return visit(tensor, [&](const auto& t) {
        given(copy, "copy");
        give(copy, std::decay_t<decltype(t)>(t));
    });
}

int tessera_destroy(tessera_tensor tensor) {
    return guarded([&] {
        if (tensor) delete &object(tensor, "tensor");
    });
}

int tessera_type(tessera_tensor tensor, int* type) {
    return guarded([&] { *given(type, "type") = static_cast<int>(any(tensor, "tensor").index()); });
}

int tessera_rank(tessera_tensor tensor, int* rank) {
    return visit(tensor, [&](const auto& t) { *given(rank, "rank") = t.rank(); });
}

int tessera_tiles_along(tessera_tensor tensor, int index, int64_t* tiles) {
    return with_grid(tensor, index, [&](const Tiling& tiling) { *given(tiles, "tiles") = tiling.tile_count(); });
}

int tessera_tile_sizes(tessera_tensor tensor, int index, int64_t* sizes) {
    return with_grid(tensor, index, [&](const Tiling& tiling) {
        const auto all = tiling.sizes();
        std::copy(all.begin(), all.end(), given(sizes, "sizes"));
    });
}

int tessera_tile_count(tessera_tensor tensor, int64_t* tiles) {
    return visit(tensor, [&](const auto& t) { *given(tiles, "tiles") = t.tile_count(); });
}

int tessera_element_count(tessera_tensor tensor, int64_t* elements) {
    return visit(tensor, [&](const auto& t) { *given(elements, "elements") = t.shape().elements(); });
}

int tessera_owner(tessera_tensor tensor, const int64_t* coordinates, int* rank) {
    return visit(tensor, [&](const auto& t) {
        const auto& grid = t.grid();
        *given(rank, "rank") = t.distribution().owner(grid, grid.ordinal(coordinates_of(grid, coordinates)));
    });
}

int tessera_tile(tessera_tensor tensor, int64_t slot, int64_t* coordinates, int64_t* extents, double* norm,
                 const void** elements) {
    return visit(tensor, [&](const auto& t) {
        if (slot < 0 || slot >= t.tile_count())
            refuse("slot " + std::to_string(slot) + " of a tensor of " + std::to_string(t.tile_count()) + " tiles");
        const auto tile = t.shape().tile(slot);
        if (coordinates) {
            const auto at = t.grid().coordinates(tile);
            std::copy(at.begin(), at.end(), coordinates);
        }
        if (extents) {
            const auto sizes = t.grid().tile_extents(tile);
            std::copy(sizes.begin(), sizes.end(), extents);
        }
        if (norm) *norm = t.shape().norm_of(slot);
        if (elements) *elements = t.is_local(slot) ? t.tile(slot).data() : nullptr;
    });
}

int tessera_find_tile(tessera_tensor tensor, const int64_t* coordinates, int64_t* slot) {
    return visit(tensor, [&](const auto& t) {
        given(slot, "slot");
        *slot = t.shape().find(t.grid().ordinal(coordinates_of(t.grid(), coordinates))).value_or(-1);
    });
}

int tessera_for_each_tile(tessera_tensor tensor, tessera_visit visitor, void* context, int threads) {
    return visit(tensor, [&](const auto& t) {
        given(visitor, "visit");
        t.for_each_tile(
            [&](const TileInfo& info, auto elements) {
                visitor(context, info.coordinates.begin(), info.extents.begin(), elements.data());
            },
            threads);
    });
}

int tessera_update_tiles(tessera_tensor tensor, tessera_change change, void* context, int threads) {
    return visit(tensor, [&]<class T>(Tensor<T>& t) {
        given(change, "change");
        t.update_tiles(
            [&](const TileInfo& info, std::span<T> elements) {
                change(context, info.coordinates.begin(), info.extents.begin(), elements.data());
            },
            threads);
    });
}

int tessera_redistribute(tessera_tensor x, const int32_t* const* maps, const int32_t* sides, tessera_tensor* y) {
    return visit(x, [&](const auto& t) {
        given(y, "y");
        give(y, redistribute(t, distribution_of(t.communicator().size(), t.grid(), maps, sides)));
    });
}

int tessera_permute(tessera_tensor x, const int* order, tessera_tensor* y) {
    return visit(x, [&](const auto& t) {
        given(y, "y");
        if (t.rank() > 0) given(order, "order");
        give(y, permute(t, Permutation(std::span<const int>(order, static_cast<std::size_t>(t.rank())))));
    });
}

int tessera_retile(tessera_tensor x, const tessera_grid* grid, tessera_tensor* y) {
    return visit(x, [&](const auto& t) {
        given(y, "y");
        give(y, retile(t, grid_of(grid)));
    });
}

int tessera_slice(tessera_tensor x, const int64_t* lo, const int64_t* hi, tessera_tensor* y) {
    return visit(x, [&](const auto& t) {
        given(y, "y");
        const auto ranges = ranges_of(t.rank(), lo, hi);
        give(y, slice(t, std::span<const ElementRange>(ranges)));
    });
}

int tessera_assign_slice(tessera_tensor x, const int64_t* lo, const int64_t* hi, tessera_tensor y) {
    return visit(x, [&]<class T>(Tensor<T>& t) {
        const auto ranges = ranges_of(t.rank(), lo, hi);
        assign_slice(t, std::span<const ElementRange>(ranges), of_type<T>(y, "y"));
    });
}
