#pragma once
// The Coulomb integrals over basis functions: tiles by groups of shells, stored once per symmetric pair of pairs.

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "chem/integrals.hpp"
#include "chem/pairs.hpp"

namespace tessera::chem {

/// Engines handed out to whichever thread needs one: tile generators are called from any thread.
template <class Of>
class EnginePool {
  public:
    explicit EnginePool(const Of& of) : of_(of) {}
    /// Calls work(engine) with an engine of its own.
    template <class Work>
    void with(Work&& work) {
        auto engine = take();
        work(*engine);
        const std::lock_guard lock(mutex_);
        free_.push_back(std::move(engine));
    }

  private:
    using Engine = typename Of::Coulomb;
    std::unique_ptr<Engine> take() {
        {
            const std::lock_guard lock(mutex_);
            if (!free_.empty()) {
                auto engine = std::move(free_.back());
                free_.pop_back();
                return engine;
            }
        }
        return std::make_unique<Engine>(of_);
    }
    const Of& of_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Engine>> free_;
};

/// Tiles of basis functions are runs of whole shells.
struct AoTiling {
    Tiling functions;
    std::vector<std::int64_t> first_shell;  // of each tile, and the end
};
/// Runs of whole atoms of about `target` functions; an atom with more than that is a tile.
AoTiling tile_atoms(const Basis& basis, std::int64_t target);
/// A tile for each run of atoms with the same cluster.
AoTiling tile_clusters(const Basis& basis, const std::vector<std::int64_t>& cluster_of_atom);
/// Runs of neighbouring tiles joined while they have no more than `target` functions.
AoTiling merge_tiles(const AoTiling& tiling, std::int64_t target);

/// (p|q), tiles p >= q only, over pairs of basis functions; without those that are negligible by their Schwarz bounds.
class AoIntegrals {
  public:
    AoIntegrals(const Integrals& integrals, AoTiling tiling, int threads);
    /// None is stored: half_unpacked() makes its tiles, and tile() has none. The integrals must outlive it.
    static AoIntegrals unstored(const Integrals& integrals, AoTiling tiling, int threads);
    /// From the values (ij|kl) of others, by pairs as Hamiltonian::two.
    AoIntegrals(const Tiling& functions, std::span<const double> values, int threads);
    /// For a DryRun: every tile is there, none is made.
    explicit AoIntegrals(AoTiling tiling, bool stored = true);
    const PairIndex& pairs() const { return pairs_; }
    /// The stored tile (p|q), or (q|p) where p < q, and its norm; empty where it is negligible.
    std::span<const double> tile(std::int64_t p, std::int64_t q) const;
    double norm(std::int64_t p, std::int64_t q) const;
    /// (p|l s) for the tiles first to last (excluded) of p, made from the stored tiles on demand; where none are
    /// stored, those of this run are made now and live as long as what is returned.
    GeneratedTensor<double> half_unpacked(std::int64_t first, std::int64_t last) const;

  private:
    AoIntegrals(AoTiling tiling, const Integrals* integrals, int threads);
    AoTiling tiling_;
    PairIndex pairs_;
    Tensor<double> tiles_;
    const Integrals* unstored_ = nullptr;  // what makes them where none are stored
    bool stored_ = true;
    int threads_ = 0;
};

}  // namespace tessera::chem
