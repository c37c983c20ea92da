#pragma once
// Integrals over the basis functions of a molecule. The integral library stays behind this header.

#include <array>
#include <memory>
#include <vector>

#include "chem/basis.hpp"
#include "chem/matrix.hpp"

namespace tessera::chem {

/// What one thread's engine for integrals over four shells of this basis holds.
std::int64_t coulomb_engine_bytes(const Basis& basis);

class Integrals {
  public:
    explicit Integrals(Basis basis, int threads = 0);
    Integrals(const Integrals&) = delete;
    Integrals& operator=(const Integrals&) = delete;
    ~Integrals();

    const Basis& basis() const { return basis_; }
    Matrix overlap() const;
    /// Kinetic energy and attraction to the nuclei.
    Matrix core_hamiltonian(const Molecule& molecule) const;
    /// x, y, z about the origin.
    std::array<Matrix, 3> dipole() const;
    /// sqrt of the largest |(ij|ij)| for shells i, j; and of the sum of (ij|ij): a bound of a block's Frobenius norm.
    const Matrix& schwarz_largest() const { return largest_; }
    const Matrix& schwarz_norm() const { return norm_; }
    /// Whether blocks of shells with this bound, schwarz_largest of both pairs, are left out.
    static bool negligible(double bound);

    /// (ij|kl) over four shells. One thread uses one at a time.
    class Coulomb {
      public:
        explicit Coulomb(const Integrals& of);
        ~Coulomb();
        Coulomb(const Coulomb&) = delete;
        Coulomb& operator=(const Coulomb&) = delete;
        /// Row-major over the functions of i, j, k, l; null where the whole block is below 1e-13 or so. Lives until the
        /// next call.
        const double* block(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l);

      private:
        struct Engine;
        const Integrals& of_;
        std::unique_ptr<Engine> engine_;
    };

  private:
    friend class FittingIntegrals;
    struct Shells;
    Basis basis_;
    std::unique_ptr<Shells> shells_;
    Matrix largest_, norm_;
};

/// Coulomb integrals (P|kl) and (P|Q), P and Q in an auxiliary basis on the same molecule.
class FittingIntegrals {
  public:
    /// `of` must outlive it.
    FittingIntegrals(const Integrals& of, Basis auxiliary);
    FittingIntegrals(const FittingIntegrals&) = delete;
    FittingIntegrals& operator=(const FittingIntegrals&) = delete;
    ~FittingIntegrals();

    const Basis& basis() const { return of_.basis(); }
    const Basis& auxiliary() const { return auxiliary_; }
    /// (P|Q)
    Matrix metric(int threads) const;

    /// (P|kl) over shells. One thread uses one at a time.
    class Coulomb {
      public:
        explicit Coulomb(const FittingIntegrals& of);
        ~Coulomb();
        Coulomb(const Coulomb&) = delete;
        Coulomb& operator=(const Coulomb&) = delete;
        /// As Integrals::Coulomb::block.
        const double* block(std::int64_t p, std::int64_t k, std::int64_t l);

      private:
        struct Engine;
        const FittingIntegrals& of_;
        std::unique_ptr<Engine> engine_;
    };

  private:
    struct Shells;
    const Integrals& of_;
    Basis auxiliary_;
    std::unique_ptr<Shells> shells_;
    Vector largest_;  // of each shell: sqrt of the largest (P|P), by which blocks are left out
};

}  // namespace tessera::chem
