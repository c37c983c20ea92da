// Writes sample tensors for tests/python/read_with_h5py.py and reads the ones that it made.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/npy.hpp"

namespace tessera {
namespace {

template <Scalar T>
void write_samples(const std::string& folder, int rank) {
    std::vector<Tiling> tilings;
    for (int d = 0; d < rank; ++d) tilings.push_back(d % 2 ? Tiling{3, 1} : Tiling{2, 5, 1});
    const TileGrid grid(tilings);
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); o += 2) entries.push_back({TileOrdinal{o}, 1.5});
    const auto tensor = Tensor<T>::random(Shape(grid, entries), 11);
    const auto stem = fmt::format("{}/{}-{}", folder, name(ScalarTraits<T>::kind), rank);
    write_tensor(stem + ".h5", tensor);
    const auto dense = tensor.to_dense();
    write_npy<T>(stem + ".npy", grid.extents(), dense);
}

/// The dense elements of a tensor file, as .npy; and its checksum on stdout.
void to_npy(const std::string& from, const std::string& to) {
    std::visit(
        [&]<class T>(const Tensor<T>& t) {
            const auto dense = t.to_dense();
            write_npy<T>(to, t.grid().extents(), dense);
            fmt::print("{:016x}\n", checksum(t));
        },
        read_any(from));
}

/// Reads a .npy file and writes what was read.
void copy_npy(const std::string& from, const std::string& to) {
    std::visit([&]<class T>(const NpyArray<T>& a) { write_npy<T>(to, a.extents, a.data); }, read_npy(from));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
    using namespace tessera;
    try {
        hdf5_without_exit_handler();
        const std::string command = argc > 1 ? argv[1] : "";
        if (command == "samples" && argc == 3) {
            for (int rank = 0; rank <= 4; ++rank) {
                write_samples<float>(argv[2], rank);
                write_samples<double>(argv[2], rank);
                write_samples<std::complex<float>>(argv[2], rank);
                write_samples<std::complex<double>>(argv[2], rank);
            }
        } else if (command == "to-npy" && argc == 4) {
            to_npy(argv[2], argv[3]);
        } else if (command == "copy-npy" && argc == 4) {
            copy_npy(argv[2], argv[3]);
        } else {
            std::fputs("usage: io_probe samples FOLDER | to-npy IN.h5 OUT.npy | copy-npy IN.npy OUT.npy\n", stderr);
            return 2;
        }
        return 0;
    } catch (const Error& e) {
        fmt::print(stderr, "{}\n", e.what());
        return e.exit_code();
    }
}
