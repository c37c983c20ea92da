#!/usr/bin/env python3
"""CCSD and (T) of PySCF, and of tessera.pyscf.CCSD over the same integrals, one after the other in one process.

usage: pyscf_cc.py [MOLECULE.xyz] [--basis NAME] [--frozen N] [--threads N] [--tight] [--only ccsd|t] [--json]

The Python running this needs pyscf and, on PYTHONPATH or installed, the tessera module. `iterations` leaves the
transformation of the integrals out, which is PySCF's in both; `kernel` has it.
"""
import argparse
import json
import os
import pathlib
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("molecule", nargs="?", default=str(pathlib.Path(__file__).parents[1] / "share/molecules/c4h10.xyz"))
parser.add_argument("--basis", default="def2-svp")
parser.add_argument("--frozen", type=int, default=4)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--tight", action="store_true", help="converge to 1e-10, to compare energies to 1e-9")
parser.add_argument("--only", choices=["ccsd", "t"])
parser.add_argument("--json", action="store_true")
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(options.threads)

from pyscf import cc, gto, lib, scf  # noqa: E402
import tessera.pyscf  # noqa: E402


def timed(work):
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


lib.num_threads(options.threads)
atoms = pathlib.Path(options.molecule).read_text().splitlines()[2:]
mol = gto.M(atom="\n".join(atoms), basis=options.basis, verbose=0, max_memory=12000)
mf = scf.RHF(mol).run(conv_tol=1e-11)
names = {"pyscf": cc.ccsd.CCSD, "tessera": tessera.pyscf.CCSD}
out = {"molecule": options.molecule, "basis": options.basis, "threads": options.threads}
eris, out["transformation"] = timed(cc.ccsd.CCSD(mf, frozen=options.frozen).ao2mo)
t1 = t2 = None
for name, kind in names.items():
    mycc = kind(mf, frozen=options.frozen)
    mycc.conv_tol, mycc.conv_tol_normt = (1e-10, 1e-8) if options.tight else (1e-8, 1e-6)
    row = out[name] = {}
    if options.only == "t":
        mycc.t1, mycc.t2 = mycc.get_init_guess(eris)
    else:
        (row["ccsd"], _, _), row["iterations"] = timed(lambda: mycc.kernel(eris=eris))
        row["cycles"] = mycc.cycles
        row["kernel"] = out["transformation"] + row["iterations"]
    if options.only != "ccsd":
        row["t"], row["triples"] = timed(lambda: mycc.ccsd_t(eris=eris))
ours, theirs = out["tessera"], out["pyscf"]
out["faster"] = {what: theirs[what] / ours[what] for what in ("iterations", "kernel", "triples") if what in ours}
out["apart"] = {what: ours[what] - theirs[what] for what in ("ccsd", "t") if what in ours}
out["nocc"], out["nmo"] = mycc.nocc, mycc.nmo
if options.json:
    print(json.dumps(out, indent=1))
else:
    print(f"{pathlib.Path(options.molecule).stem} {options.basis}: {mycc.nocc} correlated and {mycc.nmo - mycc.nocc} virtual "
          f"orbitals, {options.threads} threads; integrals transformed by PySCF in {out['transformation']:.2f} s")
    print(f"{'seconds':<28}{'pyscf.cc':>12}{'Tessera':>12}{'ratio':>8}")
    for what, text in (("iterations", "CCSD"), ("kernel", "CCSD and the transformation"), ("triples", "(T)")):
        if what in ours:
            print(f"{text:<28}{theirs[what]:>12.2f}{ours[what]:>12.2f}{theirs[what] / ours[what]:>8.2f}")
    for what, apart in out["apart"].items():
        print(f"{what} energies are {apart:.1e} hartree apart")
