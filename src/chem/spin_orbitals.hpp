#pragma once
// Orbitals of both spins in one index: tiles of alpha, then tiles of beta. A tensor over them has the tiles that
// conserve spin and no others, so contract() alone keeps spins apart, and equations are those of spin orbitals.

#include <array>
#include <functional>
#include <memory>
#include <string_view>

#include "chem/fitting.hpp"
#include "chem/orbitals.hpp"
#include "chem/uhf.hpp"

namespace tessera::chem {

struct SpinOrbitals {
    std::array<std::int64_t, 2> frozen{}, occupied{}, virtuals{};  // alpha, beta
    Tiling occupied_tiles, virtual_tiles;
    std::array<std::int64_t, 2> alpha_tiles{};  // of occupied, of virtual orbitals
    Orbitals energies;                          // diagonals of the Fock matrices; nothing else in it is set
    RealTensor fock_ov;                         // F[i][a]; zero where the reference is unrestricted
    PairIndex pairs{Tiling{}};                  // of all tiles: occupied ones, then virtual ones
    RealTensor coefficients;                    // functions x all

    const Tiling& tiles(char space) const { return space == 'o' ? occupied_tiles : virtual_tiles; }
    int spin(char space, std::int64_t tile) const { return tile >= alpha_tiles[space == 'o' ? 0 : 1] ? 1 : 0; }
    std::int64_t count(char space, int spin) const {
        return (space == 'o' ? occupied : virtuals)[static_cast<std::size_t>(spin)];
    }
    /// Of a tile among those of its space: its number among all.
    std::int64_t in_all(char space, std::int64_t tile) const {
        return space == 'o' ? tile : occupied_tiles.tile_count() + tile;
    }
    int spin_of_all(std::int64_t tile) const {
        const auto o = occupied_tiles.tile_count();
        return tile < o ? spin('o', tile) : spin('v', tile - o);
    }
};
/// Tiles of at most `tile` orbitals. There are electrons to correlate, and virtual orbitals.
SpinOrbitals make_spin_orbitals(const UhfResult& scf, std::int64_t frozen, const Tiling& functions, std::int64_t tile,
                                TensorWork& work);

/// Orbitals without spin: as if they were occupied ones of alpha. Nothing but their integrals can be had of them.
SpinOrbitals spinless_orbitals(const Matrix& coefficients, const Tiling& functions, std::int64_t tile);

/// Tiles of a tensor over spaces, as "oovv": those in which the first half has the spins of the second, in any order.
/// One index on each side: equal spins.
Shape spin_shape(const SpinOrbitals& orbitals, std::string_view spaces, const Symmetry& symmetry = {});

/// (pq|rs) over all correlated spin orbitals, by pairs p >= q of the same spin.
class SpinIntegrals {
  public:
    /// The basis integrals are given up on the way, where nobody else holds them.
    SpinIntegrals(std::shared_ptr<const AoIntegrals> ao, const SpinOrbitals& orbitals, TensorWork& work);
    SpinIntegrals(const Fitting& fitting, const SpinOrbitals& orbitals, TensorWork& work);
    /// <pq||rs> = (pr|qs) - (ps|qr) over spaces, the tiles that are stored with this symmetry.
    RealTensor antisymmetric(std::string_view spaces, const Symmetry& symmetry, int threads) const;
    /// Each (pq|rs) once, p >= q, r >= s and pq >= rs.
    void for_each(const std::function<void(std::array<std::int64_t, 4> pqrs, double value)>& visit) const;
    /// Bytes at most, while they are made.
    static double bytes(std::int64_t orbitals, std::int64_t functions);

  private:
    const SpinOrbitals& orbitals_;
    PairParts whole_;  // tiles (P|Q), P <= Q
};

}  // namespace tessera::chem
