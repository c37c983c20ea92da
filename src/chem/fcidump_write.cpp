#include "chem/fcidump_write.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "chem/linear_algebra.hpp"
#include "io/file.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kTile = 32;
constexpr double kZero = 1e-15;           // what is smaller has no line
constexpr std::size_t kBuffer = 1 << 20;  // bytes

}  // namespace

void write_fcidump(const std::string& path, const OrbitalsToWrite& what, Field& field,
                   std::shared_ptr<const AoIntegrals> ao, TensorWork& work) {
    AtomicFile file(path);
    const Tiling& functions = field.functions();
    const auto all = what.coefficients.cols(), frozen = static_cast<Eigen::Index>(what.frozen), n = all - frozen;
    const Matrix orbitals = what.coefficients.rightCols(n);
    Matrix h = what.core_hamiltonian;
    double constant = what.constant;
    if (frozen > 0) {
        const RealTensor c = to_tensor(what.coefficients.leftCols(frozen), functions, even_tiling(frozen, kTile));
        const RealTensor density = work.product("mi,ni->mn", c, c), bare = to_tensor(h, functions, functions);
        const RealTensor with = add(1.0, bare, 1.0, field.of(density, &c, work));
        constant += dot(density, add(1.0, bare, 1.0, with));
        h = to_matrix(with);
    }
    const Matrix one = between(orbitals, h, orbitals);
    const SpinOrbitals spinless = spinless_orbitals(orbitals, functions, kTile);
    const SpinIntegrals two(std::move(ao), spinless, work);

    fmt::memory_buffer text;
    std::int64_t written = 0;
    const auto flush = [&] {
        file.write_at(written, text.data(), static_cast<std::int64_t>(text.size()));
        written += static_cast<std::int64_t>(text.size());
        text.clear();
    };
    const auto line = [&](double value, std::int64_t p, std::int64_t q, std::int64_t r, std::int64_t s) {
        fmt::format_to(std::back_inserter(text), "{:25.16E} {:4} {:4} {:4} {:4}\n", value, p, q, r, s);
        if (text.size() > kBuffer) flush();
    };
    fmt::format_to(std::back_inserter(text), " &FCI NORB={},NELEC={},MS2={},\n  ORBSYM=", n,
                   what.electrons - 2 * what.frozen, what.unpaired);
    for (Eigen::Index p = 0; p < n; ++p) fmt::format_to(std::back_inserter(text), "1,");
    fmt::format_to(std::back_inserter(text), "\n  ISYM=1,\n &END\n");
    two.for_each([&](std::array<std::int64_t, 4> at, double value) {
        if (std::abs(value) > kZero) line(value, at[0] + 1, at[1] + 1, at[2] + 1, at[3] + 1);
    });
    for (Eigen::Index p = 0; p < n; ++p)
        for (Eigen::Index q = 0; q <= p; ++q)
            if (std::abs(one(p, q)) > kZero) line(one(p, q), p + 1, q + 1, 0, 0);
    line(constant, 0, 0, 0, 0);
    flush();
    file.commit();
}

}  // namespace tessera::chem
