#include "execute/finish_tile.hpp"

#include <cmath>

#include "base/check.hpp"
#include "kernels/tile_math.hpp"

namespace tessera {

template <Scalar T>
double finish_tile(const Plan& plan, std::int64_t slot, T* c, const TileSink<T>& sink,
                   const ExecuteOptions<T>& options) {
    const auto n = plan.c.grid().tile_elements(plan.c.tile(slot));
    if (options.alpha != T(1))
        for (std::int64_t e = 0; e < n; ++e) c[e] *= options.alpha;
    if (options.beta != T(0))
        if (const T* old = sink.old_tile ? sink.old_tile(slot) : nullptr)
            for (std::int64_t e = 0; e < n; ++e) c[e] += options.beta * old[e];
    const double norm = tile_norm(c, n);
    require(std::isfinite(norm), "contraction '{}': result tile {} holds NaN or infinity, or its norm does", plan.spec,
            to_string(plan.c.grid().coordinates(plan.c.tile(slot))));
    return norm;
}

#define TESSERA_INSTANTIATE(T) \
    template double finish_tile<T>(const Plan&, std::int64_t, T*, const TileSink<T>&, const ExecuteOptions<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
