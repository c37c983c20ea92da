#pragma once
// What is done to a result tile after its last product, the same on every back end.

#include "execute/cpu/execute.hpp"

namespace tessera {

/// C = alpha C + beta old; returns the norm. A tile that is not finite is the operands' fault: UserError.
template <Scalar T>
double finish_tile(const Plan& plan, std::int64_t slot, T* c, const TileSink<T>& sink,
                   const ExecuteOptions<T>& options);

}  // namespace tessera
