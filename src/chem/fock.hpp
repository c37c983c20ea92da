#pragma once
// The two-electron part of the Fock matrix: one contraction of the density with the Coulomb integrals.

#include "chem/ao_integrals.hpp"
#include "chem/tensor_work.hpp"

namespace tessera::chem {

/// Bytes of integrals over pairs that are made at a time, and that are kept from one iteration to the next.
constexpr std::int64_t kFockBlock = 16 << 20, kFockKept = 64 << 20;

/// 2 J - K of symmetric densities. With G(ml,ns) = 2 (ml|ns) - 1/2 [(mn|ls) + (ms|ln)] over pairs of basis functions
/// m >= l, n >= s it is one product of a matrix with a vector. G is symmetric: tiles P >= Q are made from the stored
/// integrals, in blocks, of which the first ones stay. The integrals must outlive it.
class TwoElectron {
  public:
    explicit TwoElectron(const AoIntegrals& integrals, std::int64_t block = kFockBlock, std::int64_t kept = kFockKept);
    /// Of a density (functions x functions) with trace (number of electrons) / 2.
    RealTensor of(const RealTensor& density, TensorWork& work);

  private:
    struct Block {
        std::int64_t first, last;  // tiles P
        bool keep;
        RealTensor tiles;
    };
    RealTensor make(const Block& block, int threads) const;
    const AoIntegrals& integrals_;
    std::vector<Block> blocks_;
};

}  // namespace tessera::chem
