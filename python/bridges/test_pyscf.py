"""tessera.pyscf.CCSD against PySCF's own."""
import numpy as np
import pytest

pyscf = pytest.importorskip("pyscf")

from pyscf import cc, gto, lib, scf  # noqa: E402

import tessera as ts  # noqa: E402
import tessera.pyscf  # noqa: E402

CCSD = tessera.pyscf.CCSD
MOLECULES = {
    "water": ("O 0 0 0.1; H 0 0.76 -0.47; H 0 -0.76 -0.47", "cc-pvdz", 1),
    "nitrogen": ("N 0 0 0; N 0 0 1.1", "def2-svp", 2),
    "methane": ("C 0 0 0; H 0.63 0.63 0.63; H -0.63 -0.63 0.63; H 0.63 -0.63 -0.63; H -0.63 0.63 -0.63", "6-31g*", None),
    "lithium hydride": ("Li 0 0 0; H 0 0 1.6", "cc-pvdz", [0, 18]),
    "carbon monoxide": ("C 0 0 0; O 0 0 1.13", "sto-3g", None),
}


def made(kind, mf, **settings):
    mycc = kind(mf, frozen=settings.pop("frozen", None))
    mycc.conv_tol, mycc.conv_tol_normt = 1e-11, 1e-8
    return mycc.set(**settings)


@pytest.fixture(scope="module")
def water():
    atoms, basis, _ = MOLECULES["water"]
    return scf.RHF(gto.M(atom=atoms, basis=basis, verbose=0)).run(conv_tol=1e-12)


@pytest.fixture(scope="module")
def correlation(water):
    """What PySCF finds for it."""
    return made(cc.ccsd.CCSD, water).kernel()[0]


@pytest.mark.parametrize("name", MOLECULES)
def test_energies(name):
    atoms, basis, frozen = MOLECULES[name]
    mf = scf.RHF(gto.M(atom=atoms, basis=basis, verbose=0)).run(conv_tol=1e-12)
    ours, theirs = made(CCSD, mf, frozen=frozen), made(cc.ccsd.CCSD, mf, frozen=frozen)
    for mycc in (ours, theirs):
        mycc.kernel()
    assert ours.converged and theirs.converged
    assert abs(ours.e_corr - theirs.e_corr) < 1e-9 and abs(ours.e_tot - theirs.e_tot) < 1e-9
    assert abs(ours.ccsd_t() - theirs.ccsd_t()) < 1e-9
    assert np.allclose(ours.t1, theirs.t1, atol=1e-8) and np.allclose(ours.t2, theirs.t2, atol=1e-8)
    assert type(ours.t1) is np.ndarray and ours.t2.flags.c_contiguous


def test_orbitals_that_are_not_hartree_focks():
    atoms, basis, _ = MOLECULES["water"]
    mf = scf.RHF(gto.M(atom=atoms, basis=basis, verbose=0)).run(conv_tol=1e-2)
    ours, theirs = made(CCSD, mf), made(cc.ccsd.CCSD, mf)
    for mycc in (ours, theirs):
        mycc.kernel()
    eris = theirs.ao2mo()
    assert abs(eris.fock[: ours.nocc, ours.nocc :]).max() > 1e-3
    assert abs(ours.e_corr - theirs.e_corr) < 1e-9
    assert abs(ours.ccsd_t(eris=eris) - theirs.ccsd_t(eris=eris)) < 1e-9


def test_any_fock_matrix(water):
    """One iteration with random amplitudes, a Fock matrix that is not diagonal, and shifted denominators."""
    rng = np.random.default_rng(3)
    ours, theirs = made(CCSD, water, level_shift=0.2), made(cc.ccsd.CCSD, water, level_shift=0.2)
    eris = theirs.ao2mo()
    noise = rng.random(eris.fock.shape) * 0.1
    eris.fock = eris.fock + noise + noise.T
    o, v = ours.nocc, ours.nmo - ours.nocc
    t1, t2 = rng.random((o, v)) * 0.1, rng.random((o, o, v, v)) * 0.1
    t2 += t2.transpose(1, 0, 3, 2)
    for x, y in zip(ours.update_amps(t1, t2, eris), theirs.update_amps(t1, t2, eris)):
        assert np.allclose(x, y, rtol=0, atol=1e-10 * abs(y).max())


@pytest.mark.parametrize("how", [{"direct": True}, {"max_memory": 0}, {"max_memory": 0, "direct": True},
                                 {"incore_complete": True}])
def test_where_integrals_are(water, correlation, how):
    ours = made(CCSD, water, **how)
    eris = ours.ao2mo()
    if "direct" in how and "max_memory" in how:
        assert eris.vvvv is None
    elif "max_memory" in how:
        assert not isinstance(eris.vvvv, np.ndarray)  # in a file
    assert abs(ours.kernel(eris=eris)[0] - correlation) < 1e-9


def test_integrals_without_pairs(water, correlation):
    eris = cc.rccsd.RCCSD(water).ao2mo()
    assert eris.ovvv.ndim == 4 and eris.vvvv.ndim == 4
    assert abs(made(CCSD, water).kernel(eris=eris)[0] - correlation) < 1e-9


@pytest.mark.parametrize("memory", [4000, 0])
def test_density_fitting(water, memory):
    mf = water.density_fit().run(conv_tol=1e-12)
    ours, theirs = made(CCSD, mf, max_memory=memory), made(cc.dfccsd.RCCSD, mf)
    for mycc in (ours, theirs):
        mycc.kernel()
    assert abs(ours.e_corr - theirs.e_corr) < 1e-9
    assert abs(ours.ccsd_t() - theirs.ccsd_t()) < 1e-9
    fitted = made(CCSD, water).density_fit(auxbasis="cc-pvdz-ri")
    assert abs(fitted.kernel()[0] - cc.ccsd.CCSD(water).density_fit(auxbasis="cc-pvdz-ri").kernel()[0]) < 1e-6
    with pytest.raises(ts.UserError, match="direct"):
        made(CCSD, mf, direct=True).kernel()


def test_going_on_from_a_file(water, correlation, tmp_path):
    mycc = made(CCSD, water, max_cycle=4, diis_file=str(tmp_path / "diis.h5"))
    mycc.kernel()
    assert not mycc.converged
    later = made(CCSD, water).restore_from_diis_(str(tmp_path / "diis.h5"))
    later.max_cycle = 1
    near = later.kernel(later.t1, later.t2)[0]
    assert abs(near - mycc.e_corr) < 1e-3 and abs(near - correlation) < abs(mycc.e_corr - correlation)
    later.max_cycle = 50
    later.kernel(later.t1, later.t2)
    assert later.converged and abs(later.e_corr - correlation) < 1e-9


@pytest.mark.parametrize("o, v", [(1, 1), (1, 5), (4, 1), (3, 20), (5, 33)])
def test_vectors_of_amplitudes_are_pyscfs(water, o, v):
    rng = np.random.default_rng(o)
    t1, t2 = rng.random((o, v)), rng.random((o, o, v, v))
    t2 += t2.transpose(1, 0, 3, 2)
    mycc = made(CCSD, water)
    vector = mycc.amplitudes_to_vector(t1, t2)
    assert np.array_equal(vector, cc.ccsd.amplitudes_to_vector(t1, t2))
    back = mycc.vector_to_amplitudes(vector, o + v, o)
    assert np.array_equal(back[0], t1) and np.array_equal(back[1], t2)
    turned = mycc.amplitudes_to_vector(t1, np.asfortranarray(t2), np.empty(len(vector)))
    assert np.array_equal(turned, vector)
    with pytest.raises(ts.UserError, match="fit each other"):
        mycc.vector_to_amplitudes(vector[:-1], o + v, o)


def test_scanner_callback_and_damping():
    mol = gto.M(atom="H 0 0 0; F 0 0 0.9", basis="6-31g", verbose=0)
    seen = []
    scanners = [made(kind, scf.RHF(mol).set(conv_tol=1e-11), iterative_damping=0.8).as_scanner()
                for kind in (CCSD, cc.ccsd.CCSD)]
    scanners[0].callback = lambda now: seen.append(now["istep"])
    for r in (0.9, 1.0):
        ours, theirs = [scan(gto.M(atom=f"H 0 0 0; F 0 0 {r}", basis="6-31g", verbose=0)) for scan in scanners]
        assert abs(ours - theirs) < 1e-9
    assert isinstance(scanners[0], CCSD) and len(seen) > 5


def test_the_rest_is_pyscfs(water):
    ours, theirs = made(CCSD, water), made(cc.ccsd.CCSD, water)
    for mycc in (ours, theirs):
        mycc.kernel()
    assert np.allclose(ours.make_rdm1(), theirs.make_rdm1(), atol=1e-6)
    assert abs(ours.ipccsd()[0] - theirs.ipccsd()[0]) < 1e-6
    assert ours.get_t1_diagnostic() == pytest.approx(theirs.get_t1_diagnostic(), abs=1e-8)


def test_threads_change_no_bit(water):
    eris = CCSD(water).ao2mo()
    t1, t2 = CCSD(water).get_init_guess(eris)
    t1 = t1 + 0.01
    found = []
    for n in (1, 2, 3):
        mycc = CCSD(water, threads=n)
        t = mycc.update_amps(t1, t2, eris)
        found.append((t[0].tobytes(), t[1].tobytes(), mycc.ccsd_t(*t, eris=eris)))
    assert found[0] == found[1] == found[2]


def test_what_it_does_not_do(water):
    mol = gto.M(atom="O 0 0 0; O 0 0 1.2", basis="sto-3g", spin=2, verbose=0)
    for kind, instead in ((scf.UHF, "UCCSD"), (scf.ROHF, "UCCSD"), (scf.GHF, "GCCSD")):
        with pytest.raises(ts.UserError, match=instead):
            CCSD(kind(mol))
    with pytest.raises(RuntimeError, match="DFT"):
        CCSD(pyscf.dft.RKS(water.mol))
    with pytest.raises(ts.UserError, match="rccsd"):
        CCSD(water, mo_coeff=water.mo_coeff * 1j)
    with pytest.raises(ts.UserError, match="rccsd"):
        mycc = CCSD(water)
        mycc.cc2 = True
        mycc.kernel()
    mycc = CCSD(water).run()
    eris = mycc.ao2mo()
    for wrong, message in (({"ovov": eris.ovov[:, :-1]}, "ovov|oooo|ooov|oovv"), ({"ovoo": eris.ovoo[:-1]}, "ooov"),
                           ({"ovvv": eris.ovvv[:, :, :-1]}, "ovvv"), ({"vvvv": eris.vvvv[:-1]}, "vvvv"),
                           ({"ovoo": eris.ovoo * 1j}, "ovoo is complex"), ({"fock": eris.fock[:-1, :-1]}, "fock")):
        broken = eris.__class__()
        broken.__dict__.update(eris.__dict__, **wrong)
        with pytest.raises(ts.UserError, match=message):
            mycc.update_amps(mycc.t1, mycc.t2, broken)
    with pytest.raises(ts.UserError, match="t2"):
        mycc.ccsd_t(mycc.t1, mycc.t2[:, :, :-1], eris)


def test_canonical_orbitals_are_wanted_for_triples(water):
    mycc = made(CCSD, water)
    mycc.kernel()
    eris = mycc.ao2mo()
    eris.fock = eris.fock.copy()
    eris.fock[0, 1] = eris.fock[1, 0] = 0.3
    said = []
    mycc.verbose, mycc.stdout = lib.logger.WARN, type("Out", (), {"write": said.append, "flush": lambda self: None})()
    mycc.ccsd_t(eris=eris)
    assert "canonical" in "".join(said)
