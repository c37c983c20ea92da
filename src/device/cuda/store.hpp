#pragma once
// Memory of tensors that live on a device comes from a pool of their own: given back and taken again without the
// driver. What the pool keeps for later counts as free.

#include <cstdint>

namespace tessera::kernels::cuda {

/// Bytes that the pool of this device holds and nobody uses; 0 where there is none yet.
std::int64_t kept_pool_bytes(int device);
/// Gives them back to the driver.
void trim_pool(int device);

}  // namespace tessera::kernels::cuda
