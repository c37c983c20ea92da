#!/usr/bin/env python3
"""Times UHF-CCSD(T) of radicals here and in PySCF, one after the other.

usage: open_shell.py [--tessera build/tessera] [--threads 2] [--repeats 1] [CASE ...] > results.json
       (PySCF in the Python that runs this; cases: c2h5, c3h5 in cc-pvdz, frozen core)

Both converge to 1e-7 in the energy. PySCF's time is from its integrals on, without Python's start; ours is the program's own.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = {"ch3": ("cc-pvdz", 1), "c2h5": ("cc-pvdz", 2), "c3h5": ("cc-pvdz", 3)}


def by_tessera(program, name, basis, threads):
    out = subprocess.run([program, "energy", ROOT / f"share/molecules/{name}.xyz", "--basis", basis, "--reference", "uhf",
                          "--stability", "none", "--frozen-core", "--converge", "1e-7", "--threads", str(threads), "--json",
                          "--quiet"], check=True, capture_output=True, text=True)
    r = json.loads(out.stdout)
    return {"total": r["total"], "seconds": r["seconds"], "scf_seconds": r["time"]["scf"] + r["time"]["integrals"],
            "ccsd_seconds": r["time"]["transform"] + r["time"]["ccsd"], "triples_seconds": r["time"]["triples"],
            "iterations": r["iterations"], "peak_bytes": r["peak_bytes"], "machine": r["machine"], "commit": r["commit"]}


def by_pyscf(name, basis, frozen, threads):
    from pyscf import cc, gto, lib, scf
    lib.num_threads(threads)
    lines = (ROOT / f"share/molecules/{name}.xyz").read_text().splitlines()
    start = time.time()
    mol = gto.M(atom="\n".join(lines[2:]), basis=basis, spin=1, verbose=0)
    mf = scf.UHF(mol)
    mf.conv_tol = 1e-7
    mf.kernel()
    after_scf = time.time()
    ccsd = cc.UCCSD(mf, frozen=frozen)
    ccsd.conv_tol, ccsd.conv_tol_normt = 1e-7, 1e-6
    ccsd.kernel()
    after_ccsd = time.time()
    t = ccsd.ccsd_t()
    end = time.time()
    assert mf.converged and ccsd.converged
    return {"total": float(ccsd.e_tot + t), "seconds": end - start, "scf_seconds": after_scf - start,
            "ccsd_seconds": after_ccsd - after_scf, "triples_seconds": end - after_ccsd}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=["c2h5", "c3h5"])
    parser.add_argument("--tessera", default=str(ROOT / "build/tessera"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    o = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(o.threads)
    import pyscf
    rows = []
    for name in o.cases:
        basis, frozen = CASES[name]
        ours = min((by_tessera(o.tessera, name, basis, o.threads) for _ in range(o.repeats)), key=lambda r: r["seconds"])
        theirs = min((by_pyscf(name, basis, frozen, o.threads) for _ in range(o.repeats)), key=lambda r: r["seconds"])
        if abs(ours["total"] - theirs["total"]) > 1e-5:
            sys.exit(f"{name}: total energies {ours['total']:.9f} and {theirs['total']:.9f}")
        rows.append({"case": f"{name} {basis}", "tessera": ours, "pyscf": theirs,
                     "times_as_fast": {k: theirs[k] / ours[k] for k in ("seconds", "ccsd_seconds", "triples_seconds")}})
        print(name, {k: round(v, 2) for k, v in rows[-1]["times_as_fast"].items()}, file=sys.stderr)
    print(json.dumps({"pyscf": pyscf.__version__, "threads": o.threads, "cases": rows}, indent=1))


main()
