#pragma once
// Opens devices for the interpreter of plans. A back end defines it.

#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"

namespace tessera {

/// One entry per id with an arena of so many bytes, and what else fits the budget as reserve: arena + reserve <=
/// budget. budget 0: the arena and its usual reserve. Throws BackendUnavailable (no such device, driver too old) or
/// MachineError (the card is smaller than the budget, or someone else holds its memory).
std::vector<std::unique_ptr<Device>> open_devices(std::span<const int> ids, std::span<const std::int64_t> arena_bytes,
                                                  std::int64_t budget, ScalarKind kind);

}  // namespace tessera
