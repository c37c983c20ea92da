#pragma once
// Dense arrays in NumPy's .npy files: float32, float64, complex64, complex128, little-endian.

#include <complex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/index/index_vector.hpp"
#include "tessera/io/hdf5.hpp"

namespace TESSERA_API tessera {

template <Scalar T>
struct NpyArray {
    IndexVector extents;
    std::vector<T> data;  // row-major
};

/// An array whose scalar type is known only when the file is open.
using AnyNpyArray =
    std::variant<NpyArray<float>, NpyArray<double>, NpyArray<std::complex<float>>, NpyArray<std::complex<double>>>;

/// Header versions 1, 2 and 3; a Fortran-ordered array is reordered. UserError, naming what the file has, for anything
/// else: other element types, big-endian, rank above kMaxRank, truncated, trailing bytes. NaN is passed through.
AnyNpyArray read_npy(const std::string& path);

/// Row-major elements as version 1.0, put in the place of an old file in one step.
template <Scalar T>
TESSERA_API void write_npy(const std::string& path, const IndexVector& extents, std::span<const T> data);

/// The same as tensors dealt to ranks: rank 0 reads or writes and passes tiles on in batches, so that no rank holds
/// more than its share and a buffer (a Fortran-ordered array is held whole by rank 0). Collective; every rank throws
/// rank 0's error. Tiles of zeros are not stored.
using ChooseTilings = std::function<TileGrid(const IndexVector& extents)>;
AnyTensor read_npy_tensor(const std::string& path, const ChooseTilings& tilings,
                          Communicator& ranks = self_communicator(), const ChooseDistribution& choose = nullptr);
template <Scalar T>
TESSERA_API void write_npy(const std::string& path, const Tensor<T>& tensor);

}  // namespace tessera
