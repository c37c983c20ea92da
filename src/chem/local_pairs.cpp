#include "chem/local_pairs.hpp"

#include <algorithm>

#include "chem/clustering.hpp"
#include "chem/localise.hpp"

namespace tessera::chem {

namespace {

/// Core and valence apart: a rotation of two blocks.
Localised localise(const Orbitals& orbitals, const std::array<Matrix, 3>& dipole) {
    const auto core = orbitals.core, n = orbitals.occupied_count();
    Localised out;
    out.rotation = Matrix::Zero(n, n);
    const auto add = [&](std::int64_t first, std::int64_t count) {
        if (count == 0) return;
        const auto part = foster_boys(orbitals.occupied_matrix.middleCols(first, count), dipole);
        out.rotation.block(first, first, count, count) = part.rotation;
        out.centres.insert(out.centres.end(), part.centres.begin(), part.centres.end());
    };
    add(0, core);
    add(core, n - core);
    return out;
}

/// Columns of the rotation grouped by where their orbitals are.
RealTensor clustered_rotation(const Localised& orbitals, const Tiling& canonical, std::int64_t tile) {
    const auto n = static_cast<std::int64_t>(orbitals.centres.size());
    const auto group = cluster(orbitals.centres, (n + tile - 1) / tile);
    std::vector<std::int64_t> order, sizes;
    const auto groups = *std::max_element(group.begin(), group.end()) + 1;
    for (std::int64_t g = 0; g < groups; ++g) {
        const auto before = order.size();
        for (std::int64_t i = 0; i < n; ++i)
            if (group[i] == g) order.push_back(i);
        sizes.push_back(static_cast<std::int64_t>(order.size() - before));
    }
    Matrix sorted(n, n);
    for (std::int64_t i = 0; i < n; ++i) sorted.col(i) = orbitals.rotation.col(order[i]);
    return to_tensor(sorted, canonical, Tiling::from_sizes(sizes));
}

}  // namespace

LocalPairs::LocalPairs(const Integrals& integrals, const Orbitals& orbitals, std::int64_t tile)
    : rotation_(clustered_rotation(localise(orbitals, integrals.dipole()), orbitals.occupied.grid().tiling(1), tile)) {}

RealTensor LocalPairs::to_local(const RealTensor& x, TensorWork& work) const {
    return work.product("kjab,jl->klab", work.product("ik,ijab->kjab", rotation_, x), rotation_);
}

RealTensor LocalPairs::to_canonical(const RealTensor& x, TensorWork& work) const {
    return work.product("ilab,jl->ijab", work.product("ik,klab->ilab", rotation_, x), rotation_);
}

}  // namespace tessera::chem
