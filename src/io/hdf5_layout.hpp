#pragma once
// The names and types of docs/FILE_FORMAT.md, and what reading and writing share.

#include <hdf5.h>

#include <bit>
#include <mutex>

#include "io/hdf5_handle.hpp"
#include "tessera/base/scalar.hpp"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "tile data is copied between memory and file as it is");

inline constexpr int kTensorFileVersion = 2;  // the newest; files without symmetry are of version 1
inline constexpr char kTensorFileFormat[] = "tessera-tensor";

/// HDF5 may have been built without thread safety: one of our threads is in it at a time.
inline std::mutex& h5_mutex() {
    static std::mutex mutex;
    return mutex;
}

/// How our files are opened. Without locks: writers replace files and never change them, and some cluster file systems
/// cannot lock. Through stdio: HDF5's default driver resolves the name of a link, which a file without a name has not.
inline void h5_plain_access(hid_t access) {
    H5Pset_fapl_stdio(access);
    H5Pset_file_locking(access, false, true);
}

/// The type of tiles/data: IEEE little-endian; complex as a compound {r, i}, which h5py reads as complex.
inline H5Handle h5_element_type(ScalarKind kind) {
    const bool single = kind == ScalarKind::f32 || kind == ScalarKind::c64;
    const hid_t real = single ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
    if (kind == ScalarKind::f32 || kind == ScalarKind::f64) return H5Handle(H5Tcopy(real));
    const std::size_t half = single ? 4 : 8;
    H5Handle type(H5Tcreate(H5T_COMPOUND, 2 * half));
    H5Tinsert(type, "r", 0, real);
    H5Tinsert(type, "i", half, real);
    return type;
}

}  // namespace tessera
