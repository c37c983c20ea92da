#pragma once
// (T) of spin orbitals, cut into bricks: ranges of i >= j >= k and a >= b >= c, each of one spin, and the terms of the
// fused kernel for each.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "chem/uccsd.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::chem {

/// A range of orbitals of one spin.
struct SpinRange {
    int spin = 0;
    std::int64_t begin = 0, extent = 0;
};

/// As the kernel orders them: k, j, i, c, b, a; alpha before beta.
struct SpinBrick {
    std::array<SpinRange, 6> ranges;
    double orders = 0;  // of both triples, that all give its energy
    double unique = 0;  // elements i > j > k, a > b > c in it
    kernels::BlockExtents extents() const;
};

/// Orbitals in a range at most, by how many of the three indices have its spin: one, two, three. An index that is alone
/// with its spin has no order to keep. Large ranges do more than they have to, and do it faster.
struct BrickSizes {
    std::array<std::int64_t, 3> occupied{}, virtuals{};
    bool even = true;  // ranges of occupied orbitals as even as they can be; else whole ones, and the rest
};
constexpr BrickSizes kCoreBricks{{32, 6, 6}, {64, 8, 8}, true};
constexpr BrickSizes kDeviceBricks{{64, 8, 8}, {256, 24, 40}, false};  // the kernel's tiles there are of 4 and 8
/// Every triple with every triple in exactly one brick, up to its order.
std::vector<SpinBrick> spin_bricks(const SpinOrbitals& orbitals, const BrickSizes& sizes);

/// What the eighteen terms of a brick, and its disconnected ones, are made of: arrays of the amplitudes and integrals,
/// by the spins of their indices.
class SpinTerms {
  public:
    /// Refers to the orbitals.
    SpinTerms(const AntisymmetricIntegrals& v, const SpinOrbitals& orbitals, const Amplitudes& t, int threads);
    ~SpinTerms();
    SpinTerms(const SpinTerms&) = delete;
    SpinTerms& operator=(const SpinTerms&) = delete;

    void of(const SpinBrick& brick, std::vector<kernels::FusedTerm>& terms,
            std::vector<kernels::FusedTerm>& singles) const;
    /// Weights, scale and orbital energies; its singles are the caller's.
    kernels::EnergyEpilogue epilogue(const SpinBrick& brick, std::span<const kernels::FusedTerm> singles) const;
    /// All memory that terms and epilogues point into.
    std::vector<std::span<const double>> arrays() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Threads and ranks take bricks; the same bits on any number of either.
TriplesResult spin_triples_on_cores(const SpinTerms& terms, std::span<const SpinBrick> bricks, Communicator& ranks,
                                    int threads, const TriplesProgress& progress);

/// Operations on elements that count: each triple with each triple once.
double counted_flops(const SpinBrick& brick, std::span<const kernels::FusedTerm> terms);

}  // namespace tessera::chem
