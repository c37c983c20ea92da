#include "base/parallel.hpp"

#include <omp.h>

#include <algorithm>

namespace tessera {

int resolve_threads(int threads) { return threads > 0 ? threads : std::max(1, omp_get_num_procs()); }

}  // namespace tessera
