// Tensors assembled block by block.

#include <algorithm>
#include <cstring>
#include <mutex>

#include "object.hpp"

using namespace tessera;
using namespace tessera::c;

namespace {

template <class Work>
int visit(tessera_builder builder, const Work& work) {
    return guarded([&] { std::visit(work, object(builder, "builder").any); });
}

template <Scalar T>
struct Block {
    IndexVector tile;
    std::span<const T> elements;
};

template <Scalar T>
Block<T> block_of(const TensorBuilder<T>& builder, const std::int64_t* coordinates, const void* block) {
    const auto& grid = builder.grid();
    const auto tile = coordinates_of(grid, coordinates);
    return {tile,
            {static_cast<const T*>(given(block, "block")),
             static_cast<std::size_t>(grid.tile_elements(grid.ordinal(tile)))}};
}

}  // namespace

int tessera_builder_create(int type, const tessera_grid* grid, const tessera_placement* placement, int64_t memory,
                           tessera_builder* builder) {
    return guarded([&] {
        given(builder, "builder");
        const auto tiles = grid_of(grid);
        const auto where = placement_of(placement, tiles);
        with_type(type, [&](auto zero) {
            give(builder,
                 std::make_unique<tessera_builder_object>(TensorBuilder<decltype(zero)>(tiles, where, memory)));
        });
    });
}

int tessera_builder_create_like(tessera_tensor tensor, int64_t memory, tessera_builder* builder) {
    return guarded([&] {
        given(builder, "builder");
        std::visit(
            [&]<class T>(const Tensor<T>& t) {
                give(builder,
                     std::make_unique<tessera_builder_object>(TensorBuilder<T>(t.grid(), t.placement(), memory)));
            },
            any(tensor, "tensor"));
    });
}

int tessera_builder_destroy(tessera_builder builder) {
    return guarded([&] {
        if (builder) delete &object(builder, "builder");
    });
}

int tessera_reserve(tessera_builder builder, const int64_t* coordinates) {
    return visit(builder, [&](auto& b) { b.reserve(coordinates_of(b.grid(), coordinates)); });
}

int tessera_add(tessera_builder builder, const int64_t* coordinates, const void* block) {
    return visit(builder, [&](auto& b) {
        const auto [tile, elements] = block_of(b, coordinates, block);
        b.add(tile, elements);
    });
}

int tessera_add_keyed(tessera_builder builder, const int64_t* coordinates, const void* block, int64_t key) {
    return visit(builder, [&](auto& b) {
        const auto [tile, elements] = block_of(b, coordinates, block);
        b.add(tile, elements, key);
    });
}

int tessera_put(tessera_builder builder, const int64_t* coordinates, const void* block) {
    return visit(builder, [&](auto& b) {
        const auto [tile, elements] = block_of(b, coordinates, block);
        b.put(tile, elements);
        const std::lock_guard lock(builder->mutex);
        builder->put.insert(b.grid().ordinal(tile).value);
    });
}

int tessera_finalize(tessera_builder builder, int threads, tessera_tensor* tensor) {
    return visit(builder, [&](auto& b) {
        given(tensor, "tensor");
        give(tensor, b.finalize(threads));
        builder->put.clear();
    });
}

int tessera_finalize_into(tessera_builder builder, int threads, tessera_tensor tensor) {
    return visit(builder, [&]<class T>(TensorBuilder<T>& b) {
        auto& into = of_type<T>(tensor, "tensor");
        if (!(into.grid() == b.grid()) || !(into.placement() == b.placement()))
            refuse("the tensor has " + to_string(into.grid()) + ", " + to_string(into.distribution()) +
                   ", and the builder " + to_string(b.grid()) + ", " + to_string(b.placement().distribution));
        // A tile that some rank has put counts for nothing of what was there.
        const std::vector<std::int64_t> mine(builder->put.begin(), builder->put.end());
        std::set<std::int64_t> put;
        for (const auto& bytes : b.placement().communicator->all_gather(std::as_bytes(std::span(mine)))) {
            std::vector<std::int64_t> theirs(bytes.size() / sizeof(std::int64_t));
            if (!bytes.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
            put.insert(theirs.begin(), theirs.end());
        }
        const auto fresh = b.finalize(threads);
        builder->put.clear();
        if (fresh.tile_count() == 0) return;
        if (put.empty()) {
            into = add(T(1), into, T(1), fresh);
            return;
        }
        Tensor<T> kept = into;
        kept.update_tiles([&](const TileInfo& info, std::span<T> elements) {
            if (put.contains(into.grid().ordinal(info.coordinates).value)) std::ranges::fill(elements, T(0));
        });
        into = add(T(1), kept, T(1), fresh);
    });
}
