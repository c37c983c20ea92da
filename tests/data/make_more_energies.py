#!/usr/bin/env python3
"""Makes more_energies.json with psi4: molecules with elements of the third row, and ions.

usage: make_more_energies.py > more_energies.json   (psi4 1.3.2, a few minutes)
"""
import json
import pathlib
import re
import subprocess
import tempfile

SETTINGS = "scf_type pk, mp2_type conv, cc_type conv, qc_module fnocc, symmetry c1, e 1e-11, d 1e-10, r 1e-9"
# name, basis, charge, frozen orbitals, atoms
CASES = [
    ("lih", "cc-pvdz", 0, 1, "Li 0 0 0|H 0 0 1.5957"),
    ("hcl", "cc-pvdz", 0, 5, "Cl 0 0 0|H 0.3 0.4 1.1727"),
    ("hcl", "def2-svp", 0, 0, "Cl 0 0 0|H 0.3 0.4 1.1727"),
    ("h2s", "def2-svp", 0, 5, "S 0 0 0.1030|H 0 0.9616 -0.8239|H 0 -0.9616 -0.8239"),
    ("sih4", "cc-pvdz", 0, 5, "Si 0 0 0|H 0.8545 0.8545 0.8545|H -0.8545 -0.8545 0.8545|H -0.8545 0.8545 -0.8545|H 0.8545 -0.8545 -0.8545"),
    ("clf", "def2-svp", 0, 6, "Cl 0 0 0|F 0 0 1.6283"),
    ("nacl", "def2-svp", 0, 10, "Na 0 0 0|Cl 0 0 2.3609"),
    ("ph4+", "def2-svp", 1, 5, "P 0 0 0|H 0.805 0.805 0.805|H -0.805 -0.805 0.805|H -0.805 0.805 -0.805|H 0.805 -0.805 -0.805"),
    ("f-", "cc-pvdz", -1, 1, "F 0 0 0"),
]
INPUT = """
memory 1 gb
set_num_threads(1)
molecule {{
{charge} 1
{atoms}
units angstrom
symmetry c1
no_reorient
no_com
}}
set {{
basis {basis}
scf_type pk
mp2_type conv
cc_type conv
qc_module fnocc
num_frozen_docc {frozen}
e_convergence 1e-11
d_convergence 1e-10
r_convergence 1e-9
}}
e = energy('ccsd(t)')
for key in ('SCF TOTAL ENERGY', 'MP2 CORRELATION ENERGY', 'CCSD CORRELATION ENERGY', '(T) CORRECTION ENERGY'):
    print_out('FOUND %s = %.12f\\n' % (key, variable(key)))
"""


def psi4(charge, atoms, basis, frozen):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "input.dat").write_text(INPUT.format(charge=charge, atoms=atoms, basis=basis, frozen=frozen))
        subprocess.run(["psi4", "-n", "1", "-s", folder, "input.dat", "output.dat"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        out = (path / "output.dat").read_text()
    found = dict(re.findall(r"FOUND (.*?) = (-?\d+\.\d+)", out))
    functions = int(re.findall(r"Number of basis functions?:\s*(\d+)", out)[0])
    scf, mp2, ccsd, t = (float(found[k]) for k in ("SCF TOTAL ENERGY", "MP2 CORRELATION ENERGY", "CCSD CORRELATION ENERGY", "(T) CORRECTION ENERGY"))
    return {"nbf": functions, "scf": scf, "mp2": mp2, "ccsd": ccsd, "t": t}


def main():
    energies = []
    for name, basis, charge, frozen, atoms in CASES:
        lines = atoms.split("|")
        xyz = f"{len(lines)}\n{name}\n" + "\n".join(lines) + "\n"
        energies.append({"name": name, "basis": basis, "charge": charge, "frozen": frozen, "xyz": xyz} | psi4(charge, "\n".join(lines), basis, frozen))
    source = f"psi4 1.3.2 by make_more_energies.py ({SETTINGS}), its own basis sets; mp2 and ccsd are correlation energies, t is the (T) correction; hartree"
    print(json.dumps({"source": source, "energies": energies}, indent=1))


main()
