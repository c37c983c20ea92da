// Fails on one rank (or all) in a chosen way while the others wait for it. usage: mpi_failure HOW RANK
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/tensor/tensor.hpp"

int main(int argc, char** argv) {
    using namespace tessera;
    if (argc != 3) return 9;
    const std::string how = argv[1];
    const int chosen = std::atoi(argv[2]);  // -1: all
    Communicator& ranks = mpi_world();
    const bool mine = chosen < 0 || ranks.rank() == chosen;
    if (how == "exit") {  // a program that just ends, without saying so to the others
        if (mine) return 5;
        ranks.barrier();
        return 0;
    }
    return run_ranks_or_abort(ranks, [&] {
        if (how == "generator") {
            const TileGrid grid{Tiling::uniform(64, 4)};
            Tensor<double>::generate(Shape::dense(grid),
                                     [&](const TileInfo& info, std::span<double>) {
                                         if (mine && info.tile.value >= 8)
                                             throw UserError("no integrals for this tile");
                                     },
                                     1, {ranks, Distribution::even(grid, ranks.size())});
        } else if (how == "memory") {
            if (mine) throw std::bad_alloc();
        } else if (how == "bug") {
            if (mine) throw InternalError("internal: it cannot be");
        } else if (how == "machine") {
            if (mine) throw MachineError("no disk");
        } else if (how == "receive") {  // others wait for a message that never comes
            if (mine) throw UserError("nothing to send");
            char byte = 0;
            const auto transfer = ranks.receive(chosen, 1, std::vector<MessagePiece>{{&byte, 1}});
            while (!transfer->done()) {
            }
        }
        ranks.barrier();
    });
}
