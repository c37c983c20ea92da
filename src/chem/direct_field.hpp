#pragma once
// The two-electron part of the Fock matrix from integrals that are made anew and never stored: for molecules whose
// integrals over basis functions do not fit.

#include "chem/ao_integrals.hpp"
#include "chem/fock.hpp"

namespace tessera::chem {

/// Each block of four shells is made once and added wherever it belongs. What a call does is of the change of the
/// density since the last one, so that fewer blocks matter the nearer the end is: those whose Schwarz bound times the
/// largest change of the density that they meet is negligible are left out. The same bits on any number of threads.
class DirectField final : public Field {
  public:
    /// The integrals must outlive it.
    DirectField(const Integrals& integrals, Tiling functions);
    /// For a DryRun.
    explicit DirectField(Tiling functions);
    const Tiling& functions() const override { return functions_; }
    RealTensor of(const RealTensor& density, const RealTensor* orbitals, TensorWork& work) override;

    /// Blocks of four shells made in the last call, of all that there are.
    std::int64_t made() const { return made_; }
    std::int64_t all() const;

  private:
    struct Pair {
        std::int64_t i, j;
        double bound;
    };
    Matrix of_change(const Matrix& change, int threads);

    const Integrals* integrals_ = nullptr;
    Tiling functions_;
    std::vector<Pair> pairs_;  // of shells i >= j, the largest bound first
    Matrix density_, field_;   // of the last call
    std::int64_t made_ = 0;
};

}  // namespace tessera::chem
