#pragma once
// The four element types, and their names in files and messages.

#include <complex>
#include <concepts>
#include <cstdint>
#include <string_view>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::complex<float>> ||
    std::same_as<T, std::complex<double>>;

enum class ScalarKind : std::uint8_t { f32, f64, c64, c128 };

template <Scalar T>
struct ScalarTraits;
template <>
struct ScalarTraits<float> {
    using Real = float;
    static constexpr ScalarKind kind = ScalarKind::f32;
    static constexpr bool complex = false;
};
template <>
struct ScalarTraits<double> {
    using Real = double;
    static constexpr ScalarKind kind = ScalarKind::f64;
    static constexpr bool complex = false;
};
template <>
struct ScalarTraits<std::complex<float>> {
    using Real = float;
    static constexpr ScalarKind kind = ScalarKind::c64;
    static constexpr bool complex = true;
};
template <>
struct ScalarTraits<std::complex<double>> {
    using Real = double;
    static constexpr ScalarKind kind = ScalarKind::c128;
    static constexpr bool complex = true;
};

template <Scalar T>
using RealOf = typename ScalarTraits<T>::Real;
template <Scalar T>
inline constexpr bool is_complex = ScalarTraits<T>::complex;

constexpr std::string_view name(ScalarKind kind) {
    switch (kind) {
        case ScalarKind::f32:
            return "float32";
        case ScalarKind::f64:
            return "float64";
        case ScalarKind::c64:
            return "complex64";
        case ScalarKind::c128:
            return "complex128";
    }
    return "unknown";
}

constexpr std::int64_t bytes_of(ScalarKind kind) {
    switch (kind) {
        case ScalarKind::f32:
            return 4;
        case ScalarKind::f64:
            return 8;
        case ScalarKind::c64:
            return 8;
        case ScalarKind::c128:
            return 16;
    }
    return 0;
}

/// Of real arithmetic, for one multiply-add of this type.
constexpr double flops_per_multiply_add(ScalarKind kind) {
    return kind == ScalarKind::c64 || kind == ScalarKind::c128 ? 8 : 2;
}
template <Scalar T>
inline constexpr double kFlopsPerMultiplyAdd = flops_per_multiply_add(ScalarTraits<T>::kind);

template <Scalar T>
constexpr T conjugate_if(T value, bool yes) {
    if constexpr (is_complex<T>) return yes ? std::conj(value) : value;
    return value;
}

}  // namespace tessera
