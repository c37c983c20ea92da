#pragma once
// The two-electron part of the Fock matrix: contractions of the density with the Coulomb integrals, or with fitted
// ones.

#include <optional>

#include "chem/ao_integrals.hpp"
#include "chem/fitting.hpp"
#include "chem/tensor_work.hpp"

namespace tessera::chem {

/// Bytes of integrals over pairs that are made at a time, and that are kept from one iteration to the next.
constexpr std::int64_t kFockBlock = 16 << 20, kFockKept = 64 << 20;

/// 2 J - K
class Field {
  public:
    virtual ~Field() = default;
    virtual const Tiling& functions() const = 0;
    /// Of a symmetric density (functions x functions) with trace (number of electrons) / 2. `orbitals` (functions x
    /// some): it is the sum of their squares; null where that is not known.
    virtual RealTensor of(const RealTensor& density, const RealTensor* orbitals, TensorWork& work) = 0;
    /// Makes numbers the same on the ranks that share it, which go on by them.
    virtual void agree(std::span<double>) const {}
    /// The same of left(m,i) right(n,i) + right(m,i) left(n,i), which need not be positive.
    virtual RealTensor of_pair(const RealTensor& left, const RealTensor& right, TensorWork& work);
    /// J alone, of a symmetric density; of integrals that are stored.
    virtual RealTensor coulomb(const RealTensor& density, TensorWork& work);
};

/// With G(ml,ns) = 2 (ml|ns) - 1/2 [(mn|ls) + (ms|ln)] over pairs of basis functions
/// m >= l, n >= s it is one product of a matrix with a vector. G is symmetric: tiles P >= Q are made from the stored
/// integrals, in blocks, of which the first ones stay. The integrals must outlive it.
class TwoElectron final : public Field {
  public:
    explicit TwoElectron(const AoIntegrals& integrals, std::int64_t block = kFockBlock, std::int64_t kept = kFockKept);
    const Tiling& functions() const override { return integrals_.pairs().single(); }
    RealTensor of(const RealTensor& density, const RealTensor* orbitals, TensorWork& work) override;
    RealTensor coulomb(const RealTensor& density, TensorWork& work) override;

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

/// How many slices the auxiliary functions are cut into where ranks share them: what each slice adds to J and K is
/// summed in their order, so the number of ranks changes no bit.
constexpr int kFieldSlices = 12;

/// Whose slices of the auxiliary functions.
struct FieldShare {
    int slices = 1, ranks = 1, rank = 0;
    Communicator* communicator = nullptr;  // of these ranks, where there are several
};

/// J and K from B(Q|mn), which is stored by pairs m >= n; of a rank's own slices of Q. Then `of` is collective, and
/// `work` is not shared with other ranks.
class FittedField final : public Field {
  public:
    FittedField(const Fitting& fitting, TensorWork& work, const FieldShare& share = {});
    const Tiling& functions() const override { return pairs_.single(); }
    RealTensor of(const RealTensor& density, const RealTensor* orbitals, TensorWork& work) override;
    RealTensor of_pair(const RealTensor& left, const RealTensor& right, TensorWork& work) override;
    RealTensor coulomb(const RealTensor& density, TensorWork& work) override;
    /// Of the density left(m,i) right(n,i), which need not be symmetric; it is where `left` is.
    RealTensor of_product(const RealTensor& left, const RealTensor& right, TensorWork& work);
    /// From here on with B(Q|mn) for all m and n, twice the memory and no unpacking: on this device, which does the
    /// work for orbitals of the host too, or on the host.
    void unpack(std::optional<int> device, int threads);
    /// The tiles of functions that it works with: what comes in them is not laid anew.
    const Tiling& tiles() const { return whole_.rank() > 0 ? whole_.grid().tiling(1) : functions(); }
    void agree(std::span<double> numbers) const override;

  private:
    RealTensor of_whole(const RealTensor& left, const RealTensor& right, TensorWork& work);
    RealTensor of_slice(const PairParts& slice, const RealTensor& left, const RealTensor& right,
                        const RealTensor& packed, TensorWork& work) const;
    RealTensor summed(const std::vector<RealTensor>& mine) const;
    PairIndex pairs_;
    FieldShare share_;
    std::vector<PairParts> slices_;  // of this rank, ascending: share_.rank, share_.rank + share_.ranks, ...
    RealTensor whole_;               // after unpack()
};

}  // namespace tessera::chem
