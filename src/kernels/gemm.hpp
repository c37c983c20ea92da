#pragma once
// The tile product: chains of matrix products summed into one C tile, for any layout of the tiles.
//
// The sum is one sequence of fused multiply-adds per element of C, in ascending link and ascending k, starting from
// what C holds:  for link: for k: c = fma(a(m,k), b(k,n), c).  (Complex: re = fma(ar,br,re); re = fma(-ai,bi,re);
// im = fma(ar,bi,im); im = fma(ai,br,im), in that order.)  Blocking, packing, instruction set and where a chain is cut
// into calls therefore never change a bit of the result; ref/ is the same loop written plainly.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/layout.hpp"
#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"

namespace TESSERA_API tessera {
namespace kernels {

/// One product A(m,k) B(k,n). The layouts give m, k and n; a_layout->cols and b_layout->rows walk k in the same order.
template <Scalar T>
struct ChainLink {
    const T* a = nullptr;
    const T* b = nullptr;
    const MatrixLayout* a_layout = nullptr;
    const MatrixLayout* b_layout = nullptr;
    /// How tiles of a tensor with symmetry are seen. The product counts factor times, a power of two or minus one,
    /// which is exact; each conjugation comes on top of GemmFlags's.
    double factor = 1;
    bool conjugate_a = false, conjugate_b = false;
};

/// C += sum of its links.
template <Scalar T>
struct Chain {
    T* c = nullptr;
    const MatrixLayout* c_layout = nullptr;
    std::span<const ChainLink<T>> links;
    bool overwrite = false;      // C starts as zero and is not read
    bool* not_finite = nullptr;  // set where what is stored holds NaN or infinity; null: nobody looks
};

struct GemmFlags {
    bool conjugate_a = false;
    bool conjugate_b = false;
    bool in_cache = false;  // all tiles together are so small that none is fetched ahead
};

/// Scratch of one thread: packed panels. Reused from call to call; never larger than gemm_workspace_bytes().
class GemmWorkspace {
  public:
    GemmWorkspace();
    ~GemmWorkspace();
    GemmWorkspace(GemmWorkspace&&) noexcept;
    GemmWorkspace& operator=(GemmWorkspace&&) noexcept;
    struct Impl;
    Impl& impl() { return *impl_; }

  private:
    std::unique_ptr<Impl> impl_;
};
std::int64_t gemm_workspace_bytes();

/// Runs the chains on the calling thread, with the best instruction set of this processor. Chains that share tiles
/// and stand next to each other may share packed panels. No two chains of a call may write the same element.
template <Scalar T>
TESSERA_API void multiply_chains(std::span<const Chain<T>> chains, GemmFlags flags, GemmWorkspace& workspace);

/// sums[c] += a[c][p * step_a] * b[c][p * step_b] for ascending p < k, for kDots independent sums.
inline constexpr int kDots = 8;
template <Scalar T>
void add_dots(const T* const (&a)[kDots], const T* const (&b)[kDots], std::int64_t k, std::int64_t step_a,
              std::int64_t step_b, GemmFlags flags, T (&sums)[kDots]);

namespace ref {
template <Scalar T>
TESSERA_API void multiply_chains(std::span<const Chain<T>> chains, GemmFlags flags);
}

}  // namespace kernels
}  // namespace tessera
