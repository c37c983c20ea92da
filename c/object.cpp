// Errors, communicators, and what arguments of C mean.

#include "object.hpp"

#include <new>

#include "tessera/comm/world.hpp"

namespace tessera::c {

namespace {

struct LastFailure {
    std::string text;
    std::int64_t smallest = 0;
};
thread_local LastFailure last;

int noted(int code, const char* text, std::int64_t smallest = 0) noexcept {
    last.smallest = smallest;
    try {
        last.text = text;
    } catch (...) {
        last.text.clear();
    }
    return code;
}

}  // namespace

int failed() noexcept {
    try {
        throw;
    } catch (const BudgetError& e) {
        return noted(TESSERA_MACHINE_CANNOT, e.what(), e.smallest_bytes());
    } catch (const Error& e) {
        return noted(e.exit_code(), e.what());
    } catch (const std::bad_alloc&) {
        return noted(TESSERA_MACHINE_CANNOT, "there is no memory left");
    } catch (const std::exception& e) {
        return noted(TESSERA_BUG, e.what());
    } catch (...) {
        return noted(TESSERA_BUG, "an exception of no known type");
    }
}

TileGrid grid_of(const tessera_grid* grid) {
    given(grid, "grid");
    if (grid->rank < 0 || grid->rank > kMaxRank)
        refuse("grid: rank " + std::to_string(grid->rank) + " is not between 0 and " + std::to_string(kMaxRank));
    std::vector<Tiling> tilings;
    for (int d = 0; d < grid->rank; ++d) {
        const auto tiles = given(grid->tiles, "grid: tiles")[d];
        if (tiles < 0) refuse("grid: index " + std::to_string(d) + " has " + std::to_string(tiles) + " tiles");
        const auto* sizes = given(grid->sizes, "grid: sizes")[d];
        if (tiles > 0) given(sizes, "grid: sizes of an index");
        tilings.push_back(Tiling::from_sizes({sizes, static_cast<std::size_t>(tiles)}));
    }
    return TileGrid(std::move(tilings));
}

Communicator& ranks_of(tessera_comm comm) { return comm ? *object(comm, "comm").ranks : self_communicator(); }

Distribution distribution_of(int ranks, const TileGrid& grid, const std::int32_t* const* maps,
                             const std::int32_t* sides) {
    if (!maps) return Distribution::even(grid, ranks);
    std::vector<std::vector<std::int32_t>> lists;
    for (int d = 0; d < grid.rank(); ++d) {
        const auto* map = given(maps[d], "maps of an index");
        lists.emplace_back(map, map + grid.tiling(d).tile_count());
    }
    return Distribution::from_maps(
        ranks, std::move(lists),
        sides ? std::vector<std::int32_t>(sides, sides + grid.rank()) : std::vector<std::int32_t>());
}

Placement placement_of(const tessera_placement* placement, const TileGrid& grid) {
    if (!placement) return {};
    Communicator& ranks = ranks_of(placement->comm);
    return {ranks, distribution_of(ranks.size(), grid, placement->maps, placement->sides)};
}

IndexVector coordinates_of(const TileGrid& grid, const std::int64_t* coordinates) {
    if (grid.rank() == 0) return {};
    const IndexVector out(std::span(given(coordinates, "coordinates"), static_cast<std::size_t>(grid.rank())));
    const auto counts = grid.tile_counts();
    for (int d = 0; d < grid.rank(); ++d)
        if (out[d] < 0 || out[d] >= counts[d])
            refuse("tile " + to_string(out) + " is outside of the grid of " + to_string(counts) + " tiles");
    return out;
}

}  // namespace tessera::c

using namespace tessera;
using namespace tessera::c;

const char* tessera_message(void) { return last.text.c_str(); }
int64_t tessera_smallest_memory(void) { return last.smallest; }
const char* tessera_version(void) { return TESSERA_VERSION; }

int tessera_comm_from_mpi(int fortran_handle, tessera_comm* comm) {
    return guarded([&] {
        given(comm, "comm");
        auto made = std::make_unique<tessera_comm_object>();
        made->own = mpi_communicator_from_handle(fortran_handle);
        made->ranks = made->own.get();
        give(comm, std::move(made));
    });
}

int tessera_comm_world(tessera_comm* comm) {
    return guarded([&] {
        given(comm, "comm");
        auto made = std::make_unique<tessera_comm_object>();
        made->ranks = &mpi_world();
        give(comm, std::move(made));
    });
}

int tessera_comm_rank(tessera_comm comm, int* rank) {
    return guarded([&] { *given(rank, "rank") = ranks_of(comm).rank(); });
}
int tessera_comm_size(tessera_comm comm, int* size) {
    return guarded([&] { *given(size, "size") = ranks_of(comm).size(); });
}
int tessera_comm_destroy(tessera_comm comm) {
    return guarded([&] {
        if (comm) delete &object(comm, "comm");
    });
}
