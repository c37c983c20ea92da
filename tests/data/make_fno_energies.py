#!/usr/bin/env python3
"""Makes fno_energies.json: CCSD(T) over frozen natural orbitals, by PySCF (closed and open shells) and psi4 (closed).

usage: make_fno_energies.py > fno_energies.json   (PySCF in the Python that runs this, psi4 1.3.2; a minute)
"""
import json

from reference_programs import KEYS, placed, psi4, xyz

H2O = "O 0 0 0.1173|H 0 0.7572 -0.4692|H 0 -0.7572 -0.4692"
CH3 = "C 0 0 0|H 0 1.0790 0|H 0.934441 -0.5395 0|H -0.934441 -0.5395 0"
NH2 = "N 0 0 0.1411|H 0 0.8039 -0.4938|H 0 -0.8039 -0.4938"
# name, basis, multiplicity, frozen orbitals, threshold, atoms
CASES = [
    ("h2o", "cc-pvdz", 1, 1, 1e-3, H2O),
    ("h2o", "def2-svp", 1, 0, 1e-4, H2O),
    ("n2", "cc-pvdz", 1, 2, 1e-3, "N 0 0 0|N 0 0 1.0977"),
    ("ch3", "cc-pvdz", 2, 1, 1e-3, CH3),
    ("nh2", "cc-pvdz", 2, 1, 5e-4, NH2),
    ("o2", "def2-svp", 3, 0, 2e-3, "O 0 0 0|O 0 0 1.2075"),
]
SETTINGS = {"scf_type": "pk", "mp2_type": "conv", "cc_type": "conv", "qc_module": "fnocc", "e_convergence": "1e-11",
            "d_convergence": "1e-10", "r_convergence": "1e-9"}


def by_pyscf(basis, multiplicity, frozen, threshold, atoms):
    from pyscf import cc, gto, mp, scf
    mol = gto.M(atom=placed(atoms), unit="Bohr", basis=basis, spin=multiplicity - 1, verbose=0)
    mf = scf.UHF(mol) if multiplicity > 1 else scf.RHF(mol)
    mf.conv_tol, mf.conv_tol_grad = 1e-12, 1e-9
    mf.kernel()
    full = (mp.UMP2 if multiplicity > 1 else mp.MP2)(mf, frozen=frozen or None).run()
    ccsd = cc.FNOCCSD(mf, thresh=threshold, frozen=frozen or None)
    ccsd.conv_tol, ccsd.conv_tol_normt, ccsd.max_cycle = 1e-11, 1e-9, 200
    ccsd.kernel()
    assert ccsd.converged
    kept = [int(n) - int(o) for n, o in zip(ccsd.nmo, ccsd.nocc)] if multiplicity > 1 else [int(ccsd.nmo - ccsd.nocc)] * 2
    return {"scf": mf.e_tot, "mp2": float(full.e_corr), "kept": kept, "correction": float(ccsd.delta_emp2),
            "ccsd": float(ccsd.e_corr), "t": float(ccsd.ccsd_t())}


def main():
    import pyscf
    energies = []
    for name, basis, multiplicity, frozen, threshold, atoms in CASES:
        case = {"name": name, "basis": basis, "multiplicity": multiplicity, "frozen": frozen, "threshold": threshold,
                "xyz": xyz(name, atoms), "pyscf": by_pyscf(basis, multiplicity, frozen, threshold, atoms)}
        if multiplicity == 1:
            case["psi4"] = psi4("fno-ccsd(t)", {"basis": basis, "num_frozen_docc": frozen, "nat_orbs": "true",
                                                "occ_tolerance": threshold, **SETTINGS}, atoms,
                                {"total": "CCSD(T) TOTAL ENERGY", "mp2": KEYS["mp2"]})[0]
        energies.append(case)
    source = (f"PySCF {pyscf.__version__} (FNOCCSD) and psi4 1.3.2 (fno-ccsd(t), whose total has the correction of MP2) by "
              "make_fno_energies.py, their own basis sets; mp2 is of all orbitals, ccsd and t of those that are kept; hartree")
    print(json.dumps({"source": source, "energies": energies}, indent=1))


if __name__ == "__main__":
    main()
