#pragma once
// Memory of tiles that are no longer used is kept for the next tensor: contractions in a loop then need no fresh pages.
// Used and kept together are never more than the most that was used at once.

#include <cstdint>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// Bytes kept for later.
std::int64_t kept_memory();
/// Gives them back to the system, for a program that goes on with something else.
void release_memory() noexcept;

}  // namespace tessera
