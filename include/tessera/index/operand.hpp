#pragma once
// The three tensors of a contraction.

#include <cstdint>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

enum class Operand : std::uint8_t { a, b, c };

/// One value for each of them.
template <class T>
struct PerOperand {
    T a{}, b{}, c{};
    constexpr T& operator[](Operand o) { return o == Operand::a ? a : o == Operand::b ? b : c; }
    constexpr const T& operator[](Operand o) const { return o == Operand::a ? a : o == Operand::b ? b : c; }
    bool operator==(const PerOperand&) const = default;
};

}  // namespace tessera
