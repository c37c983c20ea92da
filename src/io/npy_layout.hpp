#pragma once
// What stands before the elements of a .npy file.

#include <cstdint>
#include <string>

#include "io/file.hpp"
#include "tessera/io/npy.hpp"

namespace tessera {

struct NpyLayout {
    ScalarKind kind = ScalarKind::f64;
    bool fortran_order = false;
    IndexVector extents;
    std::int64_t count = 0, at = 0;  // elements, and where in the file they begin
};

/// Checked: the file is as long as its header says. UserError otherwise, without the file's name.
NpyLayout read_npy_layout(const InputFile& in);

/// The bytes before the elements.
std::string npy_start(ScalarKind kind, const IndexVector& extents);

}  // namespace tessera
