#!/usr/bin/env python3
"""Makes df_energies.json: fitted energies by psi4 (fnocc) and, where jkfit and rifit are one set, by PySCF.

usage: make_df_energies.py [CASE ...] > df_energies.json   (psi4 1.3.2; PySCF 2.14.0 in the Python that runs this)

All take their auxiliary sets from share/basis. psi4 makes every Fock matrix with jkfit, that of CCSD too, and the rest
with rifit; PySCF's CCSD takes one set for all.
"""
import json
import sys

from reference_programs import ROOT, psi4, xyz

SETTINGS = "scf_type df, mp2_type df, cc_type df, qc_module fnocc, symmetry c1, e 1e-10, d 1e-9, r 1e-8"
H2O = "O 0 0 0.1173|H 0 0.7572 -0.4692|H 0 -0.7572 -0.4692"
CH4 = "C 0 0 0|H 0.6276 0.6276 0.6276|H -0.6276 -0.6276 0.6276|H -0.6276 0.6276 -0.6276|H 0.6276 -0.6276 -0.6276"
H2S = "S 0 0 0.1030|H 0 0.9616 -0.8239|H 0 -0.9616 -0.8239"
C2H6 = (ROOT / "share/molecules/c2h6.xyz").read_text().splitlines()
# name, basis, jkfit, rifit, frozen orbitals, atoms
CASES = [
    ("h2o", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 1, H2O),
    ("h2o", "cc-pvdz", "cc-pvtz-jkfit", "cc-pvdz-rifit", 0, H2O),
    ("h2o", "sto-3g", "def2-svp-rifit", "def2-svp-rifit", 1, H2O),
    ("ch4", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 1, CH4),
    ("c2h6", "cc-pvdz", "cc-pvtz-jkfit", "cc-pvdz-rifit", 2, "|".join(C2H6[2:])),
    ("n2", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 2, "N 0 0 0|N 0 0 1.0977"),
    ("hcl", "cc-pvdz", "cc-pvtz-jkfit", "cc-pvdz-rifit", 5, "Cl 0 0 0|H 0.3 0.4 1.1727"),
    ("h2s", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 5, H2S),
    ("nh3", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 0, "N 0 0 0.1149|H 0 0.9393 -0.2680|H 0.8135 -0.4697 -0.2680|H -0.8135 -0.4697 -0.2680"),
    ("clf", "def2-svp", "def2-universal-jkfit", "def2-svp-rifit", 6, "Cl 0 0 0|F 0 0 1.6283"),
    ("h2o", "def2-svp", "def2-universal-jkfit", "def2-universal-jkfit", 1, H2O),
    ("ch4", "cc-pvdz", "cc-pvdz-rifit", "cc-pvdz-rifit", 1, CH4),
]
def gbs(name):
    """Ours as psi4 reads it: numbers with points and exponents, and a name that it does not know."""
    def line(text):
        w = text.split()
        return "  ".join(f"{float(x):.12E}" for x in w) if len(w) == 2 and not w[0].isalpha() else text
    return "spherical\n" + "\n".join(line(x) for x in (ROOT / f"share/basis/{name}.g94").read_text().splitlines() if not x.startswith("!")) + "\n"


def by_psi4(basis, jkfit, rifit, frozen, atoms):
    settings = {"basis": basis, "df_basis_scf": f"ours-{jkfit}", "df_basis_mp2": f"ours-{rifit}", "df_basis_cc": f"ours-{rifit}",
                "scf_type": "df", "mp2_type": "df", "cc_type": "df", "qc_module": "fnocc", "num_frozen_docc": frozen,
                "e_convergence": "1e-10", "d_convergence": "1e-9", "r_convergence": "1e-8"}
    files = {f"ours-{name}.gbs": gbs(name) for name in {jkfit, rifit}}
    return psi4("ccsd(t)", settings, atoms, ("scf", "mp2", "ccsd", "t"), files=files)[0]


def shells(name, element):
    """Of an element in one of our files, as PySCF has them."""
    lines = [x for x in (ROOT / f"share/basis/{name}.g94").read_text().splitlines() if x.strip() and not x.startswith("!")]
    out, n = [], next(i for i, x in enumerate(lines) if x.split() == [element, "0"]) + 1
    while not lines[n].startswith("*"):
        letters, count = lines[n].split()[0].upper(), int(lines[n].split()[1])
        rows = [[float(x.upper().replace("D", "E")) for x in line.split()] for line in lines[n + 1:n + 1 + count]]
        out += [["SPDFGH".index(l), *([r[0], r[1 + k]] for r in rows)] for k, l in enumerate(letters)]
        n += 1 + count
    return out


def pyscf(basis, fit, frozen, atoms):
    from pyscf import cc, gto, scf
    def load(name):
        return {a: shells(name, a) for a in {x.split()[0] for x in atoms.split("|")}}
    m = gto.M(atom=atoms.replace("|", "\n"), basis=load(basis), verbose=0)
    mf = scf.RHF(m).density_fit(auxbasis=load(fit))
    mf.conv_tol, mf.conv_tol_grad = 1e-11, 1e-8
    mf.kernel()
    c = cc.CCSD(mf, frozen=frozen or None)
    c.conv_tol, c.conv_tol_normt, c.max_cycle = 1e-10, 1e-8, 200
    c.kernel()
    return {"scf": mf.e_tot, "mp2": c.emp2, "ccsd": c.e_corr, "t": c.ccsd_t()}


def main():
    energies = []
    for name, basis, jkfit, rifit, frozen, atoms in CASES:
        case = {"name": name, "basis": basis, "jkfit": jkfit, "rifit": rifit, "frozen": frozen, "xyz": xyz(name, atoms)}
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        if basis != "sto-3g":  # psi4's fnocc wants more virtual orbitals than occupied ones
            case["psi4"] = by_psi4(basis, jkfit, rifit, frozen, atoms)
        if jkfit == rifit:
            case["pyscf"] = pyscf(basis, jkfit, frozen, atoms)
        energies.append(case)
    source = f"psi4 1.3.2 ({SETTINGS}) and PySCF 2.14.0 by make_df_energies.py; mp2 and ccsd are correlation energies, t is the (T) correction; hartree"
    print(json.dumps({"source": source, "energies": energies}, indent=1))


if __name__ == "__main__":
    main()
