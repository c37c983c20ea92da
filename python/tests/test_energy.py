"""Energies of small molecules."""
import pathlib
import pickle

import pytest

import tessera as ts

pytestmark = pytest.mark.skipif(not hasattr(ts._core, "energy"), reason="this build has no energies")
H2 = [("H", (0, 0, 0)), ("H", (0, 0, 0.74))]


def test_an_energy_of_a_file_and_of_atoms(tmp_path):
    path = tmp_path / "h2.xyz"
    path.write_text("2\n\nH 0 0 0\nH 0 0 0.74\n")
    a, b = ts.energy(path, "sto-3g", "ccsd"), ts.energy(str(path), "sto-3g", "ccsd")
    assert a.total == b.total == float(a) == a.rhf + a.ccsd
    assert ts.energy(H2, "sto-3g", "ccsd").total == pytest.approx(a.total, abs=1e-10)
    bohr = 0.74 / 0.52917721067
    assert ts.energy([("h", (0, 0, 0)), ("1", (0, bohr, 0))], "sto-3g", "ccsd", unit="bohr").total == pytest.approx(
        a.total, abs=1e-9)
    # Two electrons in two orbitals: CCSD is exact. Szabo and Ostlund's figures are for 1.4 bohr.
    exact = ts.energy([("H", (0, 0, 0)), ("H", (0, 0, 1.4))], "sto-3g", "ccsd(t)", unit="bohr")
    assert exact.rhf == pytest.approx(-1.1167, abs=1e-4) and exact.total == pytest.approx(-1.1373, abs=1e-4)
    assert exact.triples == pytest.approx(0, abs=1e-10) and exact.virtuals == exact.occupied == 1


def test_water_is_what_the_program_computes():
    share = pathlib.Path(__file__).parents[2] / "share" / "molecules" / "h2o.xyz"
    if not share.exists():
        pytest.skip("the package is away from its source")
    lines = []
    e = ts.energy(share, "sto-3g", "ccsd(t)", frozen_core=True, log=lines.append)
    assert e.frozen == 1 and e.triples < 0 and e.total == pytest.approx(e.rhf + e.ccsd + e.triples) and lines
    df = ts.energy(share, "def2-svp", "mp2", integrals="df")
    assert df.mp2 == pytest.approx(ts.energy(share, "def2-svp", "mp2").mp2, abs=1e-3)
    assert ts.energy(share, "sto-3g", "rhf", threads=1).rhf == ts.energy(share, "sto-3g", "rhf", threads=2).rhf


def test_open_shells_and_natural_orbitals():
    oxygen = [("O", (0, 0, 0))]
    uhf = ts.energy(oxygen, "def2-svp", reference="uhf", multiplicity=3)
    assert uhf.s_squared == pytest.approx(2, abs=0.02) and uhf.hessian > -1e-5 and uhf.fno_correction is None
    assert uhf.ccsd_dipole is None and uhf.dipole == pytest.approx([0, 0, 0], abs=1e-8)
    assert uhf.rhf + uhf.ccsd + uhf.triples == pytest.approx(uhf.total)
    rohf = ts.energy(oxygen, "def2-svp", "ccsd", reference="rohf", multiplicity=3, dipole=True)
    assert rohf.rhf > uhf.rhf and rohf.ccsd_dipole == pytest.approx([0, 0, 0], abs=1e-6) and rohf.hessian is None
    few = ts.energy(oxygen, "def2-svp", reference="uhf", multiplicity=3, fno=1e-2)
    assert few.fno_correction < 0 and few.virtuals < uhf.virtuals
    assert ts.energy(oxygen, "def2-svp", reference="uhf", multiplicity=3, fno=0.0).total == pytest.approx(uhf.total, abs=1e-7)
    assert ts.energy(H2, "sto-3g", "ccsd").s_squared is None


def test_what_does_not_converge_is_said():
    with pytest.raises(ts.NotConverged) as error:
        ts.energy([("O", (0, 0, 0)), ("O", (0, 0, 1.2))], "sto-3g", "ccsd", max_iterations=2)
    assert error.value.iterations == 2 and error.value.where in ("scf", "ccsd")
    again = pickle.loads(pickle.dumps(error.value))
    assert again.where == error.value.where and str(again) == str(error.value)


@pytest.mark.parametrize("call, message", [
    (lambda: ts.energy("none.xyz"), "none.xyz"),
    (lambda: ts.energy([("Xx", (0, 0, 0))]), "no element 'Xx'"),
    (lambda: ts.energy([("H", (0, 0))]), "molecule:"),
    (lambda: ts.energy(3), "molecule:"),
    (lambda: ts.energy([]), "atom"),
    (lambda: ts.energy([("H", (0, 0, 0))]), "electron"),
    (lambda: ts.energy(H2, "no-such-basis"), "no-such-basis"),
    (lambda: ts.energy(H2, method="ccsdt"), "ccsdt"),
    (lambda: ts.energy(H2, unit="nm"), "unit 'nm'"),
    (lambda: ts.energy("x.xyz", unit="bohr"), "angstrom"),
    (lambda: ts.energy(H2, integrals="exact"), "integrals 'exact'"),
    (lambda: ts.energy(H2, abcd="both"), "abcd 'both'"),
    (lambda: ts.energy(H2, reference="ghf"), "unknown reference 'ghf'"),
    (lambda: ts.energy(H2, reference="uhf", multiplicity=2), "multiplicity 2"),
    (lambda: ts.energy(H2, multiplicity=3), "multiplicity 3: reference rhf has 1"),
    (lambda: ts.energy(H2, stability="follow"), "of reference uhf, not rhf"),
    (lambda: ts.energy(H2, reference="uhf", stability="maybe"), "stability 'maybe'"),
    (lambda: ts.energy(H2, level_shift=0.1), "level shift 0.1"),
    (lambda: ts.energy(H2, multiplicity="two"), "multiplicity"),
    (lambda: ts.energy(H2, fno=3), "fno 3"),
    (lambda: ts.energy(H2, fno="few"), "fno"),
    (lambda: ts.energy(H2, converge="tight"), "converge"),
    (lambda: ts.energy(H2, charge=0.5), "charge 0.5"),
    (lambda: ts.energy(H2, memory="1kB"), "memory|budget"),
])
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ts.Error, match=message):
        call()
