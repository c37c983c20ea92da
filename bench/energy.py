#!/usr/bin/env python3
"""Energies of the same molecules by tessera and, where it is installed, by psi4: time, memory, agreement.

usage: energy.py [--program build/tessera] [--threads N] [--case c2h6|c4h10] [--no-peer]
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = {"c2h6": ("cc-pvdz", True), "c4h10": ("def2-svp", True)}
CONVERGE = 1e-7  # energy change; residuals ten times that

INPUT = """
memory 3 gb
set_num_threads({threads})
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
scf_type pk
mp2_type conv
cc_type conv
qc_module fnocc
freeze_core {freeze}
e_convergence {e}
d_convergence {e}
r_convergence {r}
}}
energy('ccsd(t)')
"""


def psi4(name, basis, frozen, threads):
    atoms = "\n".join((ROOT / f"share/molecules/{name}.xyz").read_text().splitlines()[2:])
    text = INPUT.format(threads=threads, atoms=atoms, basis=basis, freeze="true" if frozen else "false", e=CONVERGE, r=10 * CONVERGE)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "input.dat").write_text(text)
        start = time.time()
        subprocess.run(["psi4", "-n", str(threads), "input.dat", "output.dat"], cwd=folder, check=True, env=os.environ | {"PSI_SCRATCH": folder, "OMP_NUM_THREADS": str(threads)})
        seconds = time.time() - start
        out = (path / "output.dat").read_text()
    total = float(re.findall(r"CCSD\(T\) total energy\s*[:=]?\s*(-?\d+\.\d+)", out)[-1])
    return {"seconds": seconds, "total": total}


def tessera(program, name, basis, frozen, threads):
    command = [program, "energy", str(ROOT / f"share/molecules/{name}.xyz"), "--basis", basis, "--method", "ccsd(t)", "--converge", str(CONVERGE), "--threads", str(threads), "--json"]
    if frozen:
        command.append("--frozen-core")
    start = time.time()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    out = json.loads(done.stdout)
    return {"seconds": time.time() - start, "total": out["total"], "share_in_contractions": out["share_in_contractions"], "peak_bytes": out["peak_bytes"], "time": out["time"], "iterations": out["iterations"]}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", default=str(ROOT / "build/tessera"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--case", choices=CASES, action="append")
    p.add_argument("--no-peer", action="store_true")
    a = p.parse_args()
    cases = []
    for name in a.case or CASES:
        basis, frozen = CASES[name]
        case = {"molecule": name, "basis": basis, "frozen_core": frozen, "threads": a.threads, "tessera": tessera(a.program, name, basis, frozen, a.threads)}
        if not a.no_peer and shutil.which("psi4"):
            case["psi4"] = psi4(name, basis, frozen, a.threads)
            case["times_psi4"] = case["tessera"]["seconds"] / case["psi4"]["seconds"]
            case["difference"] = case["tessera"]["total"] - case["psi4"]["total"]
        cases.append(case)
    print(json.dumps({"bench": "energy", "cases": cases}, indent=1))


main()
