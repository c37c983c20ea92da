#!/usr/bin/env python3
"""Makes open_shell_energies.json: UHF, UMP2, UCCSD, UCCSD(T) by PySCF, ROHF-CCSD(T) by psi4.

usage: make_open_shell_energies.py [NAME ...] > open_shell_energies.json   (PySCF in the Python that runs this, psi4)

UHF solutions of PySCF are followed until its stability analysis finds none lower. psi4's ROHF-CCSD(T) is that of
semicanonical orbitals.
"""
import json
import sys

from reference_programs import placed, psi4, xyz

# name, multiplicity, frozen orbitals in cc-pvdz (none in def2-svp), whether psi4's ROHF is wanted, atoms
CASES = [
    ("o2", 3, 2, True, "O 0 0 0|O 0 0 1.2075"),
    ("ch3", 2, 1, True, "C 0 0 0|H 0 1.0790 0|H 0.934441 -0.5395 0|H -0.934441 -0.5395 0"),
    ("no", 2, 2, True, "N 0 0 0|O 0 0 1.1508"),
    ("nh2", 2, 1, True, "N 0 0 0.1411|H 0 0.8039 -0.4938|H 0 -0.8039 -0.4938"),
    ("n", 4, 1, False, "N 0 0 0"),
    ("o", 3, 1, False, "O 0 0 0"),
    ("c", 3, 1, False, "C 0 0 0"),
    ("oh", 2, 1, True, "O 0 0 0|H 0 0 0.9697"),
    ("c2h5", 2, 2, True, "C 0.7950 0 -0.0130|C -0.6940 0 -0.0020|H 1.3520 0.9270 0.0490|H 1.3520 -0.9270 0.0490|"
                         "H -1.1060 0.8870 0.4940|H -1.1060 -0.8870 0.4940|H -1.0940 0 -1.0310"),
    ("c3h5", 2, 3, False, "C 0 0 0.4430|C 0 1.2250 -0.1960|C 0 -1.2250 -0.1960|H 0 0 1.5330|H 0 1.2960 -1.2800|"
                          "H 0 -1.2960 -1.2800|H 0 2.1540 0.3580|H 0 -2.1540 0.3580"),
]

def by_pyscf(multiplicity, atoms, basis, frozen):
    from pyscf import cc, gto, mp, scf
    mol = gto.M(atom=placed(atoms), unit="Bohr", basis=basis, spin=multiplicity - 1, verbose=0)
    mf = scf.UHF(mol)
    mf.conv_tol, mf.conv_tol_grad = 1e-12, 1e-8
    mf.kernel()
    for _ in range(8):
        orbitals, _, stable, _ = mf.stability(return_status=True)
        if stable:
            break
        mf = mf.newton()
        mf.conv_tol, mf.conv_tol_grad = 1e-12, 1e-8
        mf.kernel(orbitals, mf.mo_occ)
    assert stable and mf.converged
    out = {"nbf": mol.nao, "scf": mf.e_tot, "s_squared": mf.spin_square()[0],
           "dipole": [float(x) for x in mf.dip_moment(unit="AU", verbose=0)]}
    mp2 = mp.UMP2(mf, frozen=frozen or None)
    out["mp2"] = mp2.kernel()[0]
    ccsd = cc.UCCSD(mf, frozen=frozen or None)
    ccsd.conv_tol, ccsd.conv_tol_normt, ccsd.max_cycle = 1e-11, 1e-8, 200
    ccsd.kernel()
    assert ccsd.converged
    out["ccsd"] = ccsd.e_corr
    out["t"] = ccsd.ccsd_t()
    if mol.natm > 1 and mol.nao < 35:  # unrelaxed, of CCSD
        ccsd.solve_lambda()
        assert ccsd.converged_lambda
        ao = sum(c @ d @ c.T for c, d in zip(mf.mo_coeff, ccsd.make_rdm1()))
        electrons = [float((r * ao).sum()) for r in mol.intor("int1e_r")]
        nuclei = mol.atom_charges() @ mol.atom_coords()
        out["ccsd_dipole"] = [float(n - e) for n, e in zip(nuclei, electrons)]
    return {k: v if isinstance(v, (int, list)) else float(v) for k, v in out.items()}


def by_psi4(multiplicity, atoms, basis, frozen):
    settings = {"reference": "rohf", "basis": basis, "scf_type": "pk", "mp2_type": "conv", "cc_type": "conv",
                "qc_module": "ccenergy", "num_frozen_docc": frozen, "e_convergence": "1e-10", "d_convergence": "1e-9",
                "r_convergence": "1e-8"}
    return psi4("ccsd(t)", settings, atoms, ("scf", "ccsd", "t"), multiplicity=multiplicity)[0]


def main():
    import pyscf
    energies = []
    for name, multiplicity, core, rohf, atoms in CASES:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        for basis, frozen in (("cc-pvdz", core), ("def2-svp", 0)):
            case = {"name": name, "basis": basis, "multiplicity": multiplicity, "frozen": frozen,
                    "xyz": xyz(name, atoms),
                    "uhf": by_pyscf(multiplicity, atoms, basis, frozen)}
            if rohf and name != "c2h5" or rohf and basis == "cc-pvdz":
                case["rohf"] = by_psi4(multiplicity, atoms, basis, frozen)
            energies.append(case)
            print(name, basis, "done", file=sys.stderr, flush=True)
    source = (f"uhf: PySCF {pyscf.__version__}, stable solutions; rohf: psi4 1.3.2 (ccenergy, semicanonical orbitals); by "
              "make_open_shell_energies.py, their own basis sets; mp2 and ccsd are correlation energies, t is the (T) "
              "correction; hartree, dipoles in e bohr")
    print(json.dumps({"source": source, "energies": energies}, indent=1))


main()
