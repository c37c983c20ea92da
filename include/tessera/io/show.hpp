#pragma once
// A stored tensor for a person to read.

#include <string>

#include "tessera/base/api.hpp"
#include "tessera/io/hdf5.hpp"

namespace TESSERA_API tessera {

/// Tilings, density, norms and bytes, a few lines of at most 100 columns.
std::string describe_text(const TensorFileInfo& info);

}  // namespace tessera
