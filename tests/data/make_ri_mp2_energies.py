#!/usr/bin/env python3
"""Makes ri_mp2_energies.json: RHF and MP2 with fitted integrals of alkanes, by psi4 (its dfmp2 module).

usage: make_ri_mp2_energies.py > ri_mp2_energies.json   (psi4 1.3.2)

The auxiliary sets are those of share/basis: jkfit makes the Fock matrices, rifit the rest.
"""
import json
import pathlib
import re
import subprocess
import tempfile

from make_df_energies import ROOT, gbs

SETTINGS = "scf_type df, mp2_type df, symmetry c1, e 1e-10, d 1e-9"
# molecule, basis, jkfit, rifit, frozen orbitals
CASES = [
    ("c4h10", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 4),
    ("c4h10", "cc-pvdz", "cc-pvtz-jkfit", "cc-pvdz-rifit", 0),
    ("c8h18", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 8),
]
INPUT = """
memory 2 gb
set_num_threads(1)
molecule {{
0 1
{atoms}
units angstrom
symmetry c1
no_reorient
no_com
}}
set {{
basis {basis}
df_basis_scf ours-{jkfit}
df_basis_mp2 ours-{rifit}
scf_type df
mp2_type df
num_frozen_docc {frozen}
e_convergence 1e-10
d_convergence 1e-9
}}
energy('mp2')
for key in ('SCF TOTAL ENERGY', 'MP2 CORRELATION ENERGY'):
    print_out('FOUND %s = %.12f\\n' % (key, variable(key)))
"""


def psi4(molecule, basis, jkfit, rifit, frozen):
    atoms = "\n".join((ROOT / f"share/molecules/{molecule}.xyz").read_text().splitlines()[2:])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        for name in {jkfit, rifit}:
            (path / f"ours-{name}.gbs").write_text(gbs(name))
        (path / "input.dat").write_text(INPUT.format(atoms=atoms, basis=basis, jkfit=jkfit, rifit=rifit, frozen=frozen))
        done = subprocess.run(["psi4", "-n", "1", "-s", folder, "input.dat", "output.dat"], cwd=folder, capture_output=True, text=True)
        out = (path / "output.dat").read_text() if (path / "output.dat").exists() else ""
        if done.returncode != 0:
            raise SystemExit(f"psi4 failed:\n{done.stderr[-2000:]}{out[-3000:]}")
    found = dict(re.findall(r"FOUND (.*?) = (-?\d+\.\d+)", out))
    return {"scf": float(found["SCF TOTAL ENERGY"]), "mp2": float(found["MP2 CORRELATION ENERGY"])}


def main():
    energies = [{"molecule": m, "basis": b, "jkfit": j, "rifit": r, "frozen": f, "psi4": psi4(m, b, j, r, f)} for m, b, j, r, f in CASES]
    source = f"psi4 1.3.2 ({SETTINGS}) by make_ri_mp2_energies.py; mp2 is the correlation energy; hartree"
    print(json.dumps({"source": source, "energies": energies}, indent=1))


if __name__ == "__main__":
    main()
