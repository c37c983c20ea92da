#!/usr/bin/env python3
"""Makes more_energies.json with psi4: molecules with elements of the third row, and ions.

usage: make_more_energies.py > more_energies.json   (psi4 1.3.2, a few minutes)
"""
import json

from reference_programs import psi4, xyz

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
OPTIONS = {"scf_type": "pk", "mp2_type": "conv", "cc_type": "conv", "qc_module": "fnocc", "e_convergence": "1e-11",
           "d_convergence": "1e-10", "r_convergence": "1e-9"}


def main():
    energies = []
    for name, basis, charge, frozen, atoms in CASES:
        found, functions = psi4("ccsd(t)", {"basis": basis, "num_frozen_docc": frozen, **OPTIONS}, atoms,
                                ("scf", "mp2", "ccsd", "t"), charge)
        energies.append({"name": name, "basis": basis, "charge": charge, "frozen": frozen, "xyz": xyz(name, atoms), "nbf": functions} | found)
    source = f"psi4 1.3.2 by make_more_energies.py ({SETTINGS}), its own basis sets; mp2 and ccsd are correlation energies, t is the (T) correction; hartree"
    print(json.dumps({"source": source, "energies": energies}, indent=1))


main()
