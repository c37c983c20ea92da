#!/usr/bin/env python3
"""Makes ri_mp2_energies.json: RHF and MP2 with fitted integrals of alkanes, by psi4 (its dfmp2 module).

usage: make_ri_mp2_energies.py > ri_mp2_energies.json   (psi4 1.3.2)

The auxiliary sets are those of share/basis: jkfit makes the Fock matrices, rifit the rest.
"""
import json

from make_df_energies import gbs
from reference_programs import ROOT, psi4

SETTINGS = "scf_type df, mp2_type df, symmetry c1, e 1e-10, d 1e-9"
# molecule, basis, jkfit, rifit, frozen orbitals
CASES = [
    ("c4h10", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 4),
    ("c4h10", "cc-pvdz", "cc-pvtz-jkfit", "cc-pvdz-rifit", 0),
    ("c8h18", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 8),
]


def by_psi4(molecule, basis, jkfit, rifit, frozen):
    atoms = "|".join((ROOT / f"share/molecules/{molecule}.xyz").read_text().splitlines()[2:])
    settings = {"basis": basis, "df_basis_scf": f"ours-{jkfit}", "df_basis_mp2": f"ours-{rifit}", "scf_type": "df",
                "mp2_type": "df", "num_frozen_docc": frozen, "e_convergence": "1e-10", "d_convergence": "1e-9"}
    return psi4("mp2", settings, atoms, ("scf", "mp2"), files={f"ours-{name}.gbs": gbs(name) for name in {jkfit, rifit}})[0]


def main():
    energies = [{"molecule": m, "basis": b, "jkfit": j, "rifit": r, "frozen": f, "psi4": by_psi4(m, b, j, r, f)} for m, b, j, r, f in CASES]
    source = f"psi4 1.3.2 ({SETTINGS}) by make_ri_mp2_energies.py; mp2 is the correlation energy; hartree"
    print(json.dumps({"source": source, "energies": energies}, indent=1))


if __name__ == "__main__":
    main()
