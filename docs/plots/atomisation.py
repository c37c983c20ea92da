#!/usr/bin/env python3
"""Prints a table of atomisation energies by CCSD(T): atoms from UHF, molecules from RHF, cores frozen.

usage: atomisation.py     (two minutes; build/tessera is what computes)

The last column is by cc-pvdz and cc-pvtz: Hartree-Fock of cc-pvtz, and correlation energies that approach their limit with the
inverse cube of the cardinal number.
"""
from energies import energy

ATOMS = {"H": 2, "C": 3, "N": 4, "O": 3}  # multiplicities
# Distances of the experiment. What it has, in kJ/mol: atomisation at 0 K by heats of formation and heat contents (CODATA key
# values, 1989), energy of the zero point, and spin-orbit coupling of the atoms (C 0.35, O 0.93), all added.
MOLECULES = [
    ("N2", "N 0 0 0|N 0 0 1.0977", 941.64 + 14.07),
    ("H2O", "O 0 0 0|H 0.7570 0.5860 0|H -0.7570 0.5860 0", 917.79 + 55.48 + 0.93),
    ("CO", "C 0 0 0|O 0 0 1.1283", 1071.80 + 12.94 + 0.35 + 0.93),
]
KJ = 2625.4996


def of_molecule(atoms, of_atoms, basis):
    """Hartree-Fock and correlation part."""
    molecule = energy(atoms, "--basis", basis, "--frozen-core")
    parts = [of_atoms[a.split()[0]] for a in atoms.split("|")]
    whole = KJ * (sum(p["total"] for p in parts) - molecule["total"])
    scf = KJ * (sum(p["reference_energy"] for p in parts) - molecule["reference_energy"])
    return scf, whole - scf


def main():
    rows = {name: [] for name, *_ in MOLECULES}
    for basis in ("cc-pvdz", "cc-pvtz"):
        of_atoms = {a: energy(f"{a} 0 0 0", "--basis", basis, "--frozen-core", "--reference", "uhf", "--stability", "follow",
                              "--multiplicity", m) for a, m in ATOMS.items()}
        for name, atoms, _ in MOLECULES:
            rows[name].append(of_molecule(atoms, of_atoms, basis))
    print("| kJ/mol | cc-pvdz | cc-pvtz | from both | experiment |\n|---|---|---|---|---|")
    for name, _, literature in MOLECULES:
        (scf2, c2), (scf3, c3) = rows[name]
        both = scf3 + (27 * c3 - 8 * c2) / 19
        print(f"| {name} | {scf2 + c2:.1f} | {scf3 + c3:.1f} | {both:.1f} | {literature:.1f} |")


main()
