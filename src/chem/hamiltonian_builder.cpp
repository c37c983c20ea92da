#include "chem/hamiltonian_builder.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/units.hpp"

namespace tessera::chem {

namespace {

constexpr double kSame = 1e-8;  // of a number that is given twice

std::int64_t pair_of(std::int64_t p, std::int64_t q) {
    const auto high = std::max(p, q), low = std::min(p, q);
    return high * (high + 1) / 2 + low;
}

std::optional<double> put(double& to, bool known, double value) {
    if (known && !(std::abs(to - value) <= kSame * std::max(1.0, std::abs(value)))) return to;
    to = value;
    return std::nullopt;
}

}  // namespace

HamiltonianBuilder::HamiltonianBuilder(const std::string& name, std::int64_t orbitals, std::int64_t electrons,
                                       const char* said, std::int64_t memory) {
    const auto n = orbitals;
    require(electrons % 2 == 0 && electrons >= 2 && electrons <= 2 * n,
            "{}: {}{}: an even number of electrons from 2 to {} is needed for {} orbitals", name, said, electrons,
            2 * n, n);
    const auto pairs = n * (n + 1) / 2, all = pairs * (pairs + 1) / 2;
    if (all > memory / 9)
        throw BudgetError(fmt::format("{}: the integrals over {} orbitals take {}, more than the {} there are", name, n,
                                      format_bytes(9 * all), format_bytes(memory)),
                          memory, 9 * all);
    out_.name = name;
    out_.orbitals = n;
    out_.electrons = electrons;
    out_.one.assign(static_cast<std::size_t>(n * n), 0.0);
    out_.two.assign(static_cast<std::size_t>(all), 0.0);
    known_two_.resize(out_.two.size());
    known_one_.resize(out_.one.size());
}

std::optional<double> HamiltonianBuilder::two(std::int64_t p, std::int64_t q, std::int64_t r, std::int64_t s,
                                              double value) {
    const auto place = static_cast<std::size_t>(pair_of(pair_of(p, q), pair_of(r, s)));
    const auto other = put(out_.two[place], known_two_[place], value);
    known_two_[place] = true;
    return other;
}

std::optional<double> HamiltonianBuilder::one(std::int64_t p, std::int64_t q, double value) {
    const auto there = static_cast<std::size_t>(p * out_.orbitals + q),
               back = static_cast<std::size_t>(q * out_.orbitals + p);
    const auto other = put(out_.one[there], known_one_[there], value);
    out_.one[back] = out_.one[there];
    known_one_[there] = known_one_[back] = true;
    return other;
}

std::optional<double> HamiltonianBuilder::constant(double value) {
    const auto other = put(out_.constant, known_constant_, value);
    known_constant_ = true;
    return other;
}

}  // namespace tessera::chem
