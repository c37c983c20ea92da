// Dressed integrals of CCSD from stored ones: the products with t1, each where it is cheapest.
#include "chem/integral_source.hpp"
#include "chem/orbitals.hpp"

namespace tessera::chem {

DressedFock StoredSource::dress(const RealTensor& t1, TensorWork& w) {
    t1_ = t1;
    DressedFock f;
    // 2 (kj|lc) - (lj|kc)
    const RealTensor ooov_summed = add(2.0, v_.ooov, -1.0, w.permuted("ljkc->kjlc", v_.ooov));
    f.kc = w.product("klcd,ld->kc", spin_summed(v_.oovv, w), t1);
    f.kj = w.product("kjlc,lc->kj", ooov_summed, t1);
    f.bc = w.product("ldbc,ld->bc", v_.ovvv, t1, 2);
    w.add_product("lcbd,ld->bc", v_.ovvv, t1, f.bc, -1);
    f.ia = w.product("ilac,lc->ia", v_.oovv, t1, 2);
    w.add_product("liac,lc->ia", v_.o_o_vv, t1, f.ia, -1);
    ooov_ = v_.ooov;
    w.add_product("klec,ie->kilc", v_.oovv, t1, ooov_);
    return f;
}

DressedSums StoredSource::sums(const RealTensor& u, TensorWork& w) const {
    DressedSums g;
    g.kj = w.product("ljcd,lkcd->kj", u, v_.oovv);
    g.bc = w.product("klbd,klcd->bc", u, v_.oovv);
    g.ia = w.product("kicd,kcad->ia", u, v_.ovvv);
    w.add_product("klac,kilc->ia", u, v_.ooov, g.ia, -1);
    w.add_product("la,li->ia", t1_, g.kj, g.ia, -1);
    w.add_product("id,ad->ia", t1_, g.bc, g.ia, -1);
    return g;
}

RealTensor StoredSource::ki_ac(TensorWork& w) const {
    RealTensor c = w.permuted("kiac->ikac", v_.o_o_vv);
    w.add_product("kdac,id->ikac", v_.ovvv, t1_, c);
    w.add_product("kilc,la->ikac", ooov_, t1_, c, -1);
    return c;
}

RealTensor StoredSource::ai_kc(TensorWork& w) const {
    RealTensor d = v_.oovv;
    w.add_product("kcad,id->ikac", v_.ovvv, t1_, d);
    w.add_product("likc,la->ikac", ooov_, t1_, d, -1);
    return d;
}

void StoredSource::add_ladders(const Amplitudes& t, RealTensor& x, TensorWork& w) const {
    const RealTensor &t1 = t.t1, &t2 = t.t2, tau = make_tau(t, w);
    // pairs(k,l,i,j) is W, tau_kl(k,l,i,j) its product of doubles with t1 t1.
    const RealTensor tau_kl = w.product("klcd,ijcd->klij", v_.oovv, tau);
    RealTensor pairs = w.permuted("kilj->klij", v_.oooo);
    w.add_product("ljkc,ic->klij", v_.ooov, t1, pairs);
    w.add_product("kild,jd->klij", v_.ooov, t1, pairs);
    axpy(1.0, tau_kl, pairs);
    axpy(0.5, v_.oovv, x);
    axpy(0.5, abcd_->apply(tau, t1, w), x);
    if (abcd_->dressed()) {
        // That term has t1 t1 tau_kl already.
        w.add_product("klij,klab->ijab", pairs, t2, x, 0.5);
        const RealTensor half = w.product("klij,ka->alij", add(1.0, pairs, -1.0, tau_kl), t1);
        w.add_product("alij,lb->ijab", half, t1, x, 0.5);
    } else {
        w.add_product("klij,klab->ijab", pairs, tau, x, 0.5);
    }
    w.add_product("jbad,id->ijab", v_.ovvv, t1, x);
    RealTensor hole = w.permuted("kijb->kbij", v_.ooov);
    w.add_product("kjcb,ic->kbij", v_.oovv, t1, hole);
    w.add_product("kibd,jd->kbij", v_.o_o_vv, t1, hole);
    if (!abcd_->dressed()) w.add_product("kcbd,ijcd->kbij", v_.ovvv, tau, hole);
    w.add_product("ka,kbij->ijab", t1, hole, x, -1);
}

}  // namespace tessera::chem
