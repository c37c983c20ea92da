#pragma once
// How a tile of any rank is seen as a matrix: each matrix dimension is a group of tensor indices.

#include <array>
#include <cstdint>

namespace tessera::kernels {

inline constexpr int kMaxAxes = 16;

struct Axis {
    std::int64_t extent = 1;
    std::int64_t stride = 0;  // in elements
};

/// A group of tensor indices walked as one matrix dimension: slowest first, the last one fastest.
/// Adjacent axes that walk memory as one are fused by the maker, so a plain matrix has one axis per group.
/// No axes at all: extent 1.
struct Axes {
    int count = 0;
    std::array<Axis, kMaxAxes> axis{};

    std::int64_t extent() const {
        std::int64_t n = 1;
        for (int i = 0; i < count; ++i) n *= axis[i].extent;
        return n;
    }
    /// Offset in elements of position p of the group (slow: divides).
    std::int64_t offset(std::int64_t p) const {
        std::int64_t at = 0;
        for (int i = count - 1; i >= 0; --i) {
            at += p % axis[i].extent * axis[i].stride;
            p /= axis[i].extent;
        }
        return at;
    }
    void push_back(Axis a) { axis[count++] = a; }
};

struct MatrixLayout {
    Axes rows, cols;
};

}  // namespace tessera::kernels
