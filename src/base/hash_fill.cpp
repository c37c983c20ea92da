#include "base/hash_fill.hpp"

#include <cmath>

#include "base/hash.hpp"

namespace tessera {

void hash_fill_with(Isa isa, std::uint64_t state, double scale, std::span<double> out) {
    const double factor = scale * 0x1p-52;
    const auto count = static_cast<std::int64_t>(out.size());
    std::int64_t done = 0;
    if (isa == Isa::avx512) done = hash_fill_avx512(state, factor, out.data(), count);
    if (isa == Isa::avx2) done = hash_fill_avx2(state, factor, out.data(), count);
    for (std::int64_t e = done; e < count; ++e)
        out[e] = to_signed_odd(combine(state, static_cast<std::uint64_t>(e))) * factor;
}

template <Scalar T>
void hash_fill(std::uint64_t state, double scale, std::span<T> out) {
    using Real = RealOf<T>;
    if constexpr (std::same_as<T, double>) {
        hash_fill_with(detected_isa(), state, scale, out);
    } else if constexpr (std::same_as<T, std::complex<double>>) {
        // std::complex is laid out as double[2] (the standard says so), hence the numbers 2e and 2e + 1.
        hash_fill_with(detected_isa(), state, scale, {reinterpret_cast<double*>(out.data()), 2 * out.size()});
    } else {
        const double factor = scale * 0x1p-52;
        auto* values = reinterpret_cast<Real*>(out.data());
        const std::size_t count = out.size() * (is_complex<T> ? 2 : 1);
        for (std::size_t e = 0; e < count; ++e)
            values[e] = static_cast<Real>(to_signed_odd(combine(state, e)) * factor);
    }
}

template <Scalar T>
double hash_scale(double norm, std::int64_t elements) {
    return elements == 0 ? 0.0 : norm / std::sqrt(static_cast<double>(elements) * (is_complex<T> ? 2.0 : 1.0));
}

template void hash_fill<float>(std::uint64_t, double, std::span<float>);
template void hash_fill<double>(std::uint64_t, double, std::span<double>);
template void hash_fill<std::complex<float>>(std::uint64_t, double, std::span<std::complex<float>>);
template void hash_fill<std::complex<double>>(std::uint64_t, double, std::span<std::complex<double>>);
template double hash_scale<float>(double, std::int64_t);
template double hash_scale<double>(double, std::int64_t);
template double hash_scale<std::complex<float>>(double, std::int64_t);
template double hash_scale<std::complex<double>>(double, std::int64_t);

}  // namespace tessera
