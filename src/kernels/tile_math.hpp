#pragma once
// Reductions and maps over the elements of one tile, in an order that never depends on the machine.

#include <cstddef>
#include <cstdint>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"

namespace TESSERA_API tessera {

/// Sum of |x|^2 in double: by sixteen interleaved partial sums in each chunk of kSquaresChunk reals, chunk after chunk,
/// so that whoever has a chunk can sum it. May overflow to infinity for huge elements.
inline constexpr std::int64_t kSquaresChunk = 4096;
template <Scalar T>
TESSERA_API double sum_of_squares(const T* x, std::int64_t n);
/// Whether the root of such a sum is a norm to all digits: no square overflowed or underflowed.
constexpr bool is_safe_sum(double sum) { return sum > 1e-280 && sum < 1e280; }
/// Frobenius norm; right even where the squares overflow or underflow. NaN if any element is NaN or infinite.
template <Scalar T>
TESSERA_API double tile_norm(const T* x, std::int64_t n);
/// Sum of conj(x) y.
template <Scalar T>
TESSERA_API T tile_dot(const T* x, const T* y, std::int64_t n);
/// z = x y + z (or + 0), element by element: each as a tile product of one link and one k makes it (gemm.hpp).
struct ElementFlags {
    bool overwrite = false;  // z is not read
    bool conjugate_x = false, conjugate_y = false;
};
template <Scalar T>
TESSERA_API void multiply_elements(const T* x, const T* y, T* z, std::int64_t n, ElementFlags flags);
template <Scalar T>
TESSERA_API double tile_max_abs(const T* x, std::int64_t n);
/// As memcpy, but what is written stays out of the caches.
void copy_past_caches(void* to, const void* from, std::size_t bytes);
/// Hash of the bytes of n elements, continuing from `state`.
std::uint64_t hash_bytes(std::uint64_t state, const void* data, std::int64_t bytes);

}  // namespace tessera
