#pragma once
// What can be said of an output file before the work that fills it.

#include <string>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// UserError unless a file can be put at this path: no such folder, a folder or device stands there, the system forbids
/// it or the file system takes no files (/proc). It tries with a temporary file, and leaves none.
void require_writable(const std::string& path);

}  // namespace tessera
