"""Energies of files that PySCF and TREXIO write, and questions in QCSchema, by the command line."""
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

pyscf = pytest.importorskip("pyscf")
from pyscf import ao2mo, cc, gto, mp, scf  # noqa: E402
from pyscf.tools import fcidump  # noqa: E402

PROGRAM = os.environ.get("TESSERA_PROGRAM", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="TESSERA_PROGRAM does not say where the program is")
MOLECULES = {
    "h2o": ("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", "cc-pvdz"),
    "hf": ("H 0 0 0; F 0 0 0.92", "6-31g"),
    "n2": ("N 0 0 0; N 0 0 1.1", "6-31g"),
    "lih": ("Li 0 0 0; H 0 0 1.6", "cc-pvdz"),
    "ch4": ("C 0 0 0; H 0.63 0.63 0.63; H -0.63 -0.63 0.63; H 0.63 -0.63 -0.63; H -0.63 0.63 -0.63", "6-31g"),
}


def run(*words, code=0, given=None):
    done = subprocess.run([PROGRAM, "energy", *map(str, words)], capture_output=True, text=True, timeout=300, input=given)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr


@pytest.fixture(scope="module", params=sorted(MOLECULES))
def solved(request):
    atoms, basis = MOLECULES[request.param]
    mf = scf.RHF(gto.M(atom=atoms, basis=basis, verbose=0)).run(conv_tol=1e-13)
    mycc = cc.CCSD(mf).set(conv_tol=1e-12, conv_tol_normt=1e-9).run()
    return {"mf": mf, "rhf": mf.e_tot, "mp2": mp.MP2(mf).run().e_corr, "ccsd": mycc.e_corr, "triples": mycc.ccsd_t()}


def integrals(mf):
    c = mf.mo_coeff
    return c.T @ mf.get_hcore() @ c, ao2mo.restore(8, ao2mo.kernel(mf.mol, c), c.shape[1])


def same(out, expected):
    for what in ("rhf", "mp2", "ccsd", "triples"):
        assert abs(out[what] - expected[what]) < 1e-9, what


def test_fcidump(solved, tmp_path):
    fcidump.from_scf(solved["mf"], str(tmp_path / "x.fcidump"), tol=1e-18, float_format=" %.17g")
    same(run("--fcidump", tmp_path / "x.fcidump", "--converge", "1e-11", "--json", "--quiet"), solved)


def write_trexio(path, mf, change=lambda values: values, spins=None, core=True):
    trexio = pytest.importorskip("trexio")
    mol, n = mf.mol, mf.mo_coeff.shape[1]
    one, two = integrals(mf)
    places, values = [], []
    k = 0
    for x in range(n * (n + 1) // 2):  # pairs p >= q
        p = int((np.sqrt(8 * x + 1) - 1) / 2)
        q = x - p * (p + 1) // 2
        for y in range(x + 1):
            r = int((np.sqrt(8 * y + 1) - 1) / 2)
            s = y - r * (r + 1) // 2
            places.append((p, r, q, s))  # (pq|rs) is <pr|qs>
            values.append(two[k])
            k += 1
    up, down = spins or (mol.nelectron // 2,) * 2
    with trexio.File(str(path), "w", trexio.TREXIO_HDF5) as file:
        trexio.write_electron_num(file, up + down)
        trexio.write_electron_up_num(file, up)
        trexio.write_electron_dn_num(file, down)
        trexio.write_nucleus_num(file, mol.natm)
        trexio.write_nucleus_charge(file, mol.atom_charges().astype(float))
        trexio.write_nucleus_coord(file, mol.atom_coords())
        if core:
            trexio.write_nucleus_repulsion(file, mol.energy_nuc())
        trexio.write_mo_num(file, n)
        trexio.write_mo_type(file, "RHF")
        if core:
            trexio.write_mo_1e_int_core_hamiltonian(file, one)
        else:
            c = mf.mo_coeff
            trexio.write_mo_1e_int_kinetic(file, c.T @ mol.intor("int1e_kin") @ c)
            trexio.write_mo_1e_int_potential_n_e(file, c.T @ mol.intor("int1e_nuc") @ c)
        for first in range(0, len(values), 5000):  # in pieces, as programs that stream do
            some = slice(first, first + 5000)
            trexio.write_mo_2e_int_eri(file, first, len(values[some]), np.ascontiguousarray(places[some], np.int32).ravel(),
                                       np.array(change(values)[some]))
    return path


def test_trexio(solved, tmp_path):
    path = write_trexio(tmp_path / "x.h5", solved["mf"])
    same(run("--trexio", path, "--converge", "1e-11", "--json", "--quiet"), solved)


def test_trexio_in_parts(tmp_path):
    mf = scf.RHF(gto.M(atom=MOLECULES["hf"][0], basis="6-31g", verbose=0)).run(conv_tol=1e-13)
    whole = run("--trexio", write_trexio(tmp_path / "x.h5", mf), "--method", "mp2", "--json", "--quiet")
    parts = run("--trexio", write_trexio(tmp_path / "y.h5", mf, core=False), "--method", "mp2", "--json", "--quiet")
    assert whole["integrals"] == "trexio" and abs(whole["total"] - parts["total"]) < 1e-9


def test_trexio_of_no_use(tmp_path):
    h5py = pytest.importorskip("h5py")
    mf = scf.RHF(gto.M(atom="H 0 0 0; H 0 0 0.7", basis="6-31g", verbose=0)).run()

    def damaged(change):
        path = tmp_path / "x.h5"
        path.unlink(missing_ok=True)
        write_trexio(path, mf)
        with h5py.File(path, "r+") as file:
            change(file)
        return run("--trexio", path, "--quiet", code=2)

    def put(name, value):
        return lambda file: (file.pop(name), file.create_dataset(name, data=value))

    eri = "mo_2e_int/mo_2e_int_eri"
    for change, message in (
        (lambda f: f["electron"].attrs.__setitem__("electron_dn_num", 2), "only closed shells"),
        (lambda f: f["electron"].attrs.clear(), "no electron_num"),
        (lambda f: f["mo"].attrs.clear(), "mo/mo_num is 0"),
        (lambda f: f["mo"].attrs.__setitem__("mo_num", 3), "has extents 4 x 4, must have 3 x 3"),
        (lambda f: f["mo"].attrs.__setitem__("mo_num", 10**12), "mo/mo_num is 1000000000000"),
        (lambda f: f.pop(eri + "_values"), "no integrals mo_2e_int_eri"),
        (put(eri + "_values", np.zeros(3)), "3 values and"),
        (put(eri + "_indices", np.full(4 * 55, 9, "u1")), "orbital 9, there are 4"),
        (put(eri + "_values", np.full(55, np.nan)), "is nan"),
        (put(eri + "_values", np.zeros(55, "i4")), "holds no reals"),
        (put("mo_1e_int/mo_1e_int_core_hamiltonian", np.arange(16.0).reshape(4, 4)), "must be symmetric"),
        (lambda f: f["mo"].create_dataset("mo_spin", data=[0, 1, 0, 1]), "only restricted"),
        (lambda f: f["mo"].create_dataset("mo_coefficient_im", data=np.zeros((4, 4))), "only real"),
    ):
        assert message in damaged(change), message
    twice = write_trexio(tmp_path / "twice.h5", mf)
    with h5py.File(twice, "r+") as file:
        at = file[eri + "_indices"][:].reshape(-1, 4)
        at[1] = at[0]
        file[eri + "_indices"][:] = at.ravel()
    assert "before" in run("--trexio", twice, "--quiet", code=2)
    assert "folder" in run("--trexio", tmp_path, "--quiet", code=2)
    (tmp_path / "text.h5").write_text("text")
    assert "not an HDF5 file" in run("--trexio", tmp_path / "text.h5", "--quiet", code=2)
    assert "--basis" in run("--trexio", twice, "--basis", "sto-3g", "--quiet", code=2)


def question(version=1, **more):
    molecule = {"symbols": ["O", "H", "H"], "geometry": [0, 0, 0.2217, 0, 1.4309, -0.8867, 0, -1.4309, -0.8867]}
    model = {"method": "ccsd(t)", "basis": "sto-3g"}
    if version == 1:
        return {"schema_name": "qcschema_input", "schema_version": 1, "molecule": molecule, "driver": "energy", "model": model,
                "keywords": {"frozen_core": True, "converge": 1e-10}, "id": "7", **more}
    return {"schema_name": "qcschema_atomic_input", "schema_version": 2, "molecule": molecule, "id": "7",
            "specification": {"driver": "energy", "model": model, "keywords": {"frozen_core": True, "converge": 1e-10}, **more}}


@pytest.mark.parametrize("version", [1, 2])
def test_qcschema(tmp_path, version):
    asked = question(version)
    (tmp_path / "in.json").write_text(json.dumps(asked))
    out = run("--qcschema", tmp_path / "in.json", "--threads", "1")
    atoms = np.reshape(asked["molecule"]["geometry"], (3, 3))
    mf = scf.RHF(gto.M(atom=list(zip("OHH", atoms.tolist())), unit="bohr", basis="sto-3g", verbose=0)).run(conv_tol=1e-12)
    mycc = cc.CCSD(mf, frozen=1).set(conv_tol=1e-11, conv_tol_normt=1e-8).run()
    total = mycc.e_tot + mycc.ccsd_t()
    found = out["properties"]
    assert out["success"] is True and out["id"] == "7" and abs(out["return_result"] - total) < 1e-8
    assert abs(found["scf_total_energy"] - mf.e_tot) < 1e-8 and abs(found["ccsd_total_energy"] - mycc.e_tot) < 1e-8
    assert found["calcinfo_nalpha"] == 5 and found["calcinfo_nbasis"] == 7 and found["return_energy"] == out["return_result"]
    assert out["provenance"]["creator"] == "Tessera"
    models = pytest.importorskip("qcelemental").models
    (models.v1.AtomicResult if version == 1 else models.v2.AtomicResult)(**out)
    assert run("--qcschema", "-", "--threads", "1", given=json.dumps(asked))["return_result"] == out["return_result"]


def test_questions_that_have_no_answer():
    def changed(**more):
        return json.dumps({**question(), **more})

    molecule = question()["molecule"]
    for given, message, kind, code in (
        ("", "no JSON", "input_error", 2),
        ("[1]", "no JSON object", "input_error", 2),
        ("{", "no JSON", "input_error", 2),
        (changed(driver="gradient"), 'driver is "gradient"', "input_error", 2),
        (changed(schema_version=9), "schema_version is 9", "input_error", 2),
        (changed(model={"method": "b3lyp", "basis": "sto-3g"}), "b3lyp", "input_error", 2),
        (changed(model={"method": "mp2"}), "no model.basis", "input_error", 2),
        (changed(model={"method": "mp2", "basis": {"name": "x"}}), "model.basis is", "input_error", 2),
        (changed(model={"method": "mp2", "basis": "no-such"}), "no-such", "input_error", 2),
        (changed(keywords={"frozen_cores": True}), "frozen_cores", "input_error", 2),
        (changed(keywords={"converge": "tight"}), "converge", "input_error", 2),
        (changed(keywords={"max_iterations": 2.5}), "max_iterations", "input_error", 2),
        (changed(keywords={"max_iterations": 2}), "did not converge", "convergence_error", 4),
        (changed(molecule={**molecule, "geometry": [0, 0]}), "2 numbers for 3 atoms", "input_error", 2),
        (changed(molecule={**molecule, "geometry": ["x"] * 9}), "geometry", "input_error", 2),
        (changed(molecule={**molecule, "symbols": ["O", "H", "Qq"]}), "Qq", "input_error", 2),
        (changed(molecule={**molecule, "real": [True, True, False]}), "ghosts", "input_error", 2),
        (changed(molecule={**molecule, "molecular_multiplicity": 3}), "closed shells", "input_error", 2),
        (changed(molecule={**molecule, "molecular_charge": 0.5}), "whole number", "input_error", 2),
    ):
        out = run("--qcschema", "-", "--quiet", code=code, given=given)
        assert out["success"] is False and out["error"]["error_type"] == kind, message
        assert message in out["error"]["error_message"], out["error"]
    out = run("--qcschema", "-", "--quiet", "--memory", "1KiB", code=3, given=changed())
    assert out["error"]["error_type"] == "resource_error"
    assert "--method" in run("--qcschema", "-", "--method", "mp2", code=2, given="{}")
    for option in ("--fcidump", "--trexio", "--qcschema"):
        assert "'' is no name of a file" in run(option, "", code=2)


def test_qcengine_harness(monkeypatch, tmp_path):
    qcengine = pytest.importorskip("qcengine")
    monkeypatch.chdir(tmp_path)  # other programs that it asks for their versions write files
    monkeypatch.setenv("PATH", f"{pathlib.Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parents[2] / "examples" / "python"))
    import qcengine_tessera

    qcengine_tessera.register()
    assert "tessera" in qcengine.list_available_programs()
    asked = question()
    result = qcengine.compute(asked, "tessera", raise_error=True, task_config={"ncores": 1, "memory": 2})
    assert result.success and result.return_result == pytest.approx(run("--qcschema", "-", given=json.dumps(asked))["return_result"])
    failed = qcengine.compute({**asked, "model": {"method": "b3lyp", "basis": "sto-3g"}}, "tessera")
    assert not failed.success and "b3lyp" in failed.error.error_message
