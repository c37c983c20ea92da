#pragma once
// The product of two dense arrays of any strides into a third, on the threads of this process: no plan, no tiles, no
// copy of an operand.
//
// The sum of each element of C walks the tiles of k in order and k within each, cut into fixed segments of tiles that a
// fixed tree joins: the order that a plan has for tensors in these tiles. How C is cut into blocks changes no bit.

#include <array>
#include <cstdint>

#include "tessera/base/scalar.hpp"
#include "tessera/index/index_vector.hpp"

namespace tessera {

/// An index of a product: its extent, and how far it steps in A, B and C (in elements; 0 where it is not an index).
struct ArrayLabel {
    std::int64_t extent = 1;
    std::array<std::int64_t, 3> stride{};
};

struct ArrayLabels {
    int count = 0;
    std::array<ArrayLabel, kMaxRank> label{};
    std::int64_t extent() const {
        std::int64_t n = 1;
        for (int i = 0; i < count; ++i) n *= label[i].extent;
        return n;
    }
};

template <Scalar T>
struct ArrayProduct {
    ArrayLabels m, n, k, batch;  // k slowest first, which is the order of summation; the others in any order
    std::array<std::int64_t, kMaxRank> k_tile{};  // elements of a tile, by label of k
    const T* a = nullptr;
    const T* b = nullptr;
    T* c = nullptr;
    T alpha = 1, beta = 0;
    bool conjugate_a = false, conjugate_b = false;
};

/// Bytes of partial sums, blocks and copies that multiply() needs besides the arrays.
template <Scalar T>
std::int64_t scratch_bytes(const ArrayProduct<T>& product, int threads);

/// C = alpha A B + beta C. False: the result holds NaN or infinity.
template <Scalar T>
bool multiply(const ArrayProduct<T>& product, int threads);

}  // namespace tessera
