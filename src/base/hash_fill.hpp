#pragma once
// Fills arrays from splitmix64: element e is to_signed_odd(combine(state, e)) * (scale * 2^-52), whatever the
// instruction set. A complex element takes two numbers of the stream, 2e and 2e + 1; float is the rounded double.

#include <cstdint>
#include <span>

#include "tessera/base/api.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/base/scalar.hpp"

namespace tessera {

/// Uniform in (-scale, scale), real and imaginary parts each.
template <Scalar T>
void hash_fill(std::uint64_t state, double scale, std::span<T> out);

/// The scale that keeps a tile of this many elements within a Frobenius norm.
template <Scalar T>
TESSERA_API double hash_scale(double norm, std::int64_t elements);

/// As hash_fill, with an instruction set this processor has. For tests and benchmarks.
void hash_fill_with(Isa isa, std::uint64_t state, double scale, std::span<double> out);

// The vector versions fill the first multiple of their width and return how many elements that is.
std::int64_t hash_fill_avx2(std::uint64_t state, double factor, double* out, std::int64_t count);
std::int64_t hash_fill_avx512(std::uint64_t state, double factor, double* out, std::int64_t count);

}  // namespace tessera
