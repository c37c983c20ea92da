"""Molecules and energies of psi4 1.3.2, for the scripts beside this one that store references."""
import pathlib
import re
import subprocess
import tempfile

ANGSTROM = 0.52917721067  # a bohr, as share/ and src/chem have it
ROOT = pathlib.Path(__file__).resolve().parents[2]
INPUT = """
memory 2 gb
set_num_threads(1)
molecule {{
{charge} {multiplicity}
{atoms}
units angstrom
symmetry c1
no_reorient
no_com
}}
set {{
{settings}
}}
e = energy('{method}')
for key in {keys}:
    print_out('FOUND %s = %.12f\\n' % (key, variable(key)))
"""
KEYS = {"scf": "SCF TOTAL ENERGY", "mp2": "MP2 CORRELATION ENERGY", "ccsd": "CCSD CORRELATION ENERGY", "t": "(T) CORRECTION ENERGY"}


def xyz(name, atoms):
    """Text of an xyz file; atoms are separated by |."""
    lines = atoms.split("|")
    return f"{len(lines)}\n{name}\n" + "\n".join(lines) + "\n"


def placed(atoms):
    """In bohr, as PySCF takes them."""
    return [(w[0], [float(x) / ANGSTROM for x in w[1:]]) for w in (a.split() for a in atoms.split("|"))]


def psi4(method, settings, atoms, keys, charge=0, multiplicity=1, files=None):
    """Energies (keys: names as in KEYS, or name to psi4's variable) and the number of basis functions. settings: a dict
    of psi4's options; files: name to text, beside the input."""
    keys = keys if isinstance(keys, dict) else {k: KEYS[k] for k in keys}
    text = INPUT.format(charge=charge, multiplicity=multiplicity, atoms=atoms.replace("|", "\n"), method=method,
                        settings="\n".join(f"{k} {v}" for k, v in settings.items()), keys=repr(tuple(keys.values())))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        for name, content in (files or {}).items():
            (path / name).write_text(content)
        (path / "input.dat").write_text(text)
        done = subprocess.run(["psi4", "-n", "1", "-s", folder, "input.dat", "output.dat"], cwd=folder, capture_output=True, text=True)
        out = (path / "output.dat").read_text() if (path / "output.dat").exists() else ""
    if done.returncode != 0:
        raise SystemExit(f"psi4 failed:\n{done.stderr[-2000:]}{out[-3000:]}")
    found = dict(re.findall(r"FOUND (.*?) = (-?\d+\.\d+)", out))
    functions = re.findall(r"Number of basis functions?:\s*(\d+)", out)
    return {k: float(found[v]) for k, v in keys.items()}, int(functions[0]) if functions else None
