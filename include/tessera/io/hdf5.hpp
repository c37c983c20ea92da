#pragma once
// Block-sparse tensors in HDF5 files. The layout, readable with h5py, is in docs/FILE_FORMAT.md.

#include <complex>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/shape/shape.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// What a file says of its tensor, without its tiles.
struct TensorFileInfo {
    std::string path;
    int version = 0;     // of the file format
    std::string writer;  // the program that wrote it, if it says so
    ScalarKind scalar = ScalarKind::f64;
    Shape shape{};                          // tilings, nonzero tiles, norms
    std::optional<std::uint64_t> checksum;  // of the tensor; other programs may leave it out
    std::int64_t tile_bytes = 0;            // elements of all stored tiles
    std::int64_t file_bytes = 0;
};

/// A tensor whose scalar type is known only when the file is open.
using AnyTensor =
    std::variant<Tensor<float>, Tensor<double>, Tensor<std::complex<float>>, Tensor<std::complex<double>>>;

/// Writes a new file and puts it in the place of an old one in one step: a write that fails or is killed leaves the old
/// file. Equal tensors make equal files, on any number of ranks: each writes its own tiles (collective; if one fails,
/// every rank throws its error). Where a rank does not see the folder, the tiles pass rank 0 in batches of 16 MiB.
/// MachineError where the disk is full or the folder may not be written.
template <Scalar T>
TESSERA_API void write_tensor(const std::string& path, const Tensor<T>& tensor);
void write_tensor(const std::string& path, const AnyTensor& tensor);

/// Everything but the tiles, checked. UserError for a file that is missing, foreign, truncated, corrupted or newer.
TensorFileInfo describe(const std::string& path);

/// How to deal a tensor that is being read to ranks; nothing means Distribution::even.
using ChooseDistribution = std::function<Distribution(const Shape&)>;

/// The whole tensor; elements, norms and checksum are verified. The file must hold this scalar type. With several ranks
/// each reads its own tiles; where one does not see the file, rank 0 passes them on in batches (collective; every rank
/// throws the first one's error).
template <Scalar T>
TESSERA_API Tensor<T> read_tensor(const std::string& path, int threads = 0, Communicator& ranks = self_communicator(),
                                  const ChooseDistribution& choose = nullptr);
AnyTensor read_any(const std::string& path, int threads = 0, Communicator& ranks = self_communicator(),
                   const ChooseDistribution& choose = nullptr);

/// For programs that use HDF5 through Tessera only, before anything else: no clean-up by HDF5 when the process ends.
/// Tessera closes its files at once; HDF5 1.10 would print about memory it lost over corrupted ones.
void hdf5_without_exit_handler();

}  // namespace tessera
