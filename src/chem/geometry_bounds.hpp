#pragma once
// What the shapes of a molecule's ABCD term are made of.

#include <memory>
#include <vector>

#include "chem/orbitals.hpp"
#include "problems/abcd_shapes.hpp"
#include "tessera/chem/geometry.hpp"

namespace tessera::chem {

/// Bounds of MP2's amplitudes: of each Laplace point, sqrt (ic|ic) over tiles of i and c, where i is a localised
/// occupied orbital and c an atomic one projected onto the virtual space.
struct AmplitudeBounds {
    std::vector<double> weights;
    std::vector<Table> factors;
    double norm(std::int64_t i, std::int64_t j, std::int64_t c, std::int64_t d) const {
        double sum = 0;
        for (std::size_t k = 0; k < weights.size(); ++k) sum += weights[k] * factors[k](i, c) * factors[k](j, d);
        return sum;
    }
};

struct GeometryBounds {
    Molecule molecule;  // atoms in the order of their clusters
    std::unique_ptr<Integrals> integrals;
    AoTiling ao;
    Orbitals orbitals;  // without those of the cores
    Matrix rotation;    // (canonical, localised), columns cluster by cluster
    Tiling occupied;
    Table schwarz{0, 0};  // sqrt (ca|ca): |(ca|db)| <= schwarz(C, A) schwarz(D, B)
    AmplitudeBounds amplitudes;
};
GeometryBounds geometry_bounds(const Molecule& molecule, const GeometryOptions& options);

}  // namespace tessera::chem
