#include "chem/orbitals.hpp"

namespace tessera::chem {

Orbitals make_orbitals(const RhfResult& scf, std::int64_t frozen, const Tiling& functions, std::int64_t tile) {
    Orbitals x;
    x.frozen = frozen;
    const auto all = scf.coefficients.cols(), o = scf.occupied - frozen, v = all - scf.occupied;
    x.occupied_matrix = scf.coefficients.middleCols(frozen, o);
    x.virtual_matrix = scf.coefficients.rightCols(v);
    for (auto i = frozen; i < scf.occupied; ++i) x.occupied_energies.push_back(scf.orbital_energies(i));
    for (auto a = scf.occupied; a < all; ++a) x.virtual_energies.push_back(scf.orbital_energies(a));
    if (o > 0) x.occupied = to_tensor(x.occupied_matrix, functions, even_tiling(o, tile));
    if (v > 0) x.virtuals = to_tensor(x.virtual_matrix, functions, even_tiling(v, tile));
    return x;
}

MoIntegrals transform(std::unique_ptr<AoIntegrals> ao, const Orbitals& orbitals, Transform what, TensorWork& work) {
    const RealTensor &o = orbitals.occupied, &v = orbitals.virtuals;
    const PairIndex pairs = ao->pairs();
    MoIntegrals out;

    // First pair: (p|ls) to (p|ij), (p|ia), (p|ab). p stays a packed pair of functions.
    RealTensor p_oo, p_ov, p_vv;
    {
        const auto integrals = ao->half_unpacked();
        RealTensor half = work.lean_product("pls,si->pli", integrals, o);
        p_ov = work.product("pli,la->pia", half, v);
        if (what != Transform::mp2) {
            p_oo = work.product("pli,lj->pij", half, o);
            half = work.lean_product("pls,sa->pla", integrals, v);
            ao.reset();
            p_vv = work.product("pla,lb->pab", half, v);
        }
    }
    // Second pair, one class after the other so that little is held at a time.
    {
        const auto made = unpacked(p_ov, pairs);
        const RealTensor half = work.lean_product("mnjb,mi->injb", made, o);
        out.oovv = work.product("injb,na->ijab", half, v);
    }
    p_ov = {};
    if (what == Transform::mp2) return out;
    {
        const auto made = unpacked(p_oo, pairs);
        const RealTensor half = work.lean_product("mnki,ml->lnki", made, o);
        out.oooo = work.product("lnki,nj->kilj", half, o);
        out.ooov = work.product("lnki,nc->kilc", half, v);
    }
    p_oo = {};
    const auto made = unpacked(p_vv, pairs);
    {
        const RealTensor half = work.lean_product("mnac,mk->knac", made, o);
        out.o_o_vv = work.product("knac,ni->kiac", half, o);
        out.ovvv = work.product("knad,nc->kcad", half, v);
    }
    if (what == Transform::ccsd) return out;
    RealTensor half = work.lean_product("mnbd,ma->anbd", made, v);
    p_vv = {};
    out.vvvv = work.product("anbd,nc->cdab", half, v);
    return out;
}

}  // namespace tessera::chem
