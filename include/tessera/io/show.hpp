#pragma once
// A stored tensor for a person to read.

#include <string>

#include "tessera/io/hdf5.hpp"

namespace tessera {

/// Tilings, density, norms and bytes, a few lines of at most 100 columns.
std::string describe_text(const TensorFileInfo& info);

}  // namespace tessera
