#pragma once
// Host memory that plays the home of tensors on a device: what algebra does there, slowly, one thing after another.

#include <memory>
#include <vector>

#include "device/store.hpp"

namespace tessera {

/// Likewise of tiles that stay on the host beside others.
void strided_on_host(ScalarKind kind, const StridedJob& job);
void elements_on_host(ScalarKind kind, ElementOperation operation, const ElementJob& job,
                      const ElementOptions& options);
void divide_on_host(const DivideJob& job);

/// limit: bytes it has.
std::unique_ptr<DeviceStore> make_host_store(std::int64_t limit = INT64_MAX);
/// So many of them, as stand-ins of devices 0, 1, ...
std::vector<std::unique_ptr<DeviceStore>> host_stores(int count, std::int64_t limit = INT64_MAX);

}  // namespace tessera
