#pragma once
// What can be said of an output file before the work that fills it.

#include <string>

namespace tessera {

/// Throws unless a file can be put at this path: UserError where the path is wrong (no such folder, a folder or device
/// stands there), MachineError where the system forbids it. Changes nothing on disk.
void require_writable(const std::string& path);

}  // namespace tessera
