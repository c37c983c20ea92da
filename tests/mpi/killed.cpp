// Writes a tensor's file on ranks; one of them kills itself (signal 9) in the middle. usage:
//   mpi_killed FILE write SEED          writes the tensor of this seed
//   mpi_killed FILE kill SEED RANK N    the same; this rank dies in its N-th write of tiles, half of it written; with
//                                       N = 0 before the file gets its name
//   mpi_killed FILE check SEED          the file is the tensor of this seed
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/io/hdf5.hpp"

using namespace tessera;

namespace {

int writes_left = -1;  // until this process dies; -1: it lives
bool at_rename = false;

[[noreturn]] void die() {
    (void)::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
}

}  // namespace

// The linker puts these where the library asks the system (tests/CMakeLists.txt).
extern "C" ssize_t __real_pwritev(int file, const iovec* pieces, int count, off_t offset);
extern "C" ssize_t __wrap_pwritev(int file, const iovec* pieces, int count, off_t offset) {
    if (writes_left < 0 || --writes_left > 0) return __real_pwritev(file, pieces, count, offset);
    iovec half = pieces[0];
    half.iov_len /= 2;
    (void)__real_pwritev(file, &half, 1, offset);
    die();
}
extern "C" int __real_rename(const char* from, const char* to);
extern "C" int __wrap_rename(const char* from, const char* to) {
    if (at_rename) die();
    return __real_rename(from, to);
}

int main(int argc, char** argv) {
    if (argc < 4) return 9;
    const std::string path = argv[1], what = argv[2];
    const auto seed = static_cast<std::uint64_t>(std::atoi(argv[3]));
    Communicator& ranks = mpi_world();
    return run_ranks_or_abort(ranks, [&] {
        const TileGrid grid{Tiling::uniform(60'000, 100)};
        const auto x =
            Tensor<double>::random(Shape::dense(grid), seed, 1, {ranks, Distribution::even(grid, ranks.size())});
        if (what == "check") {
            const auto back = read_tensor<double>(path, 0, ranks);
            if (checksum(back) != checksum(x)) throw MachineError(path + " is another tensor");
            return;
        }
        if (what == "kill" && argc == 6 && ranks.rank() == std::atoi(argv[4])) {
            writes_left = std::atoi(argv[5]);
            if (writes_left == 0) at_rename = true, writes_left = -1;
        }
        write_tensor(path, x);
    });
}
