#!/usr/bin/env python3
"""Energies of the same molecules by tessera and, where it is installed, by psi4: time, memory, agreement.

usage: energy.py [--program build/tessera] [--threads N] [--case c2h6|c4h10|c6h14] [--integrals df] [--no-peer] [--output FILE]
       energy.py --references [--case MOLECULE] [--basis NAME] [--core frozen|all] [--abcd stored|direct] [--output FILE]

The second form compares RHF, MP2, CCSD and (T) energies with tests/data/reference_energies.json, butane's four cases where
none is named; exit status 1 where one is off by more than 1e-8 (RHF) or 1e-7 hartree. With --output, cases that the file
has already stay there: a case a run.

One run of each, one after the other. Both write the same convergence: energy change and residual. The load of the
machine before each run is recorded: a figure from a busy machine can be told from one of a quiet machine.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/data"))
from make_df_energies import gbs  # noqa: E402
CASES = {"c2h6": ("cc-pvdz", True), "c4h10": ("def2-svp", True), "c6h14": ("def2-svp", True)}
CONVERGE = 1e-7  # energy change; residuals ten times that
ALLOWED = {"scf": 1e-8, "mp2": 1e-7, "ccsd": 1e-7, "t": 1e-7}  # hartree

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
{kind}
qc_module fnocc
freeze_core {freeze}
e_convergence {e}
d_convergence {e}
r_convergence {r}
}}
energy('ccsd(t)')
"""


# The same auxiliary sets as ours.
KINDS = {"conventional": "scf_type pk\nmp2_type conv\ncc_type conv",
         "df": "scf_type df\nmp2_type df\ncc_type df\ndf_basis_scf ours-{jkfit}\ndf_basis_mp2 ours-{rifit}\ndf_basis_cc ours-{rifit}"}


def timed(command, **how):
    """Runs it; wall and processor seconds, and the load of the machine before."""
    load, before, start = os.getloadavg()[0], os.times(), time.time()
    done = subprocess.run(command, capture_output=True, text=True, **how)
    seconds, after = time.time() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return done, {"seconds": seconds, "cpu_seconds": cpu, "load_before": load}


def commit():
    """The commit of this tree, marked where the tree has changes."""
    try:
        return subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def psi4(name, basis, frozen, threads, kind, ours):
    atoms = "\n".join((ROOT / f"share/molecules/{name}.xyz").read_text().splitlines()[2:])
    sets = {x: ours[x]["name"] for x in ("jkfit", "rifit") if x in ours}  # in files of ours: psi4 has not all of them
    text = INPUT.format(kind=KINDS[kind].format(**sets), threads=threads, atoms=atoms, basis=basis, freeze="true" if frozen else "false", e=CONVERGE, r=10 * CONVERGE)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "input.dat").write_text(text)
        for x in set(sets.values()):
            (path / f"ours-{x}.gbs").write_text(gbs(x))
        # One team of threads: psi4 sets its own.
        environment = os.environ | {"PSI_SCRATCH": folder}
        done, spent = timed(["psi4", "-n", str(threads), "input.dat", "output.dat"], cwd=folder, env=environment)
        out = (path / "output.dat").read_text() if (path / "output.dat").exists() else ""
        if done.returncode != 0:
            raise SystemExit(f"psi4 failed on {name}:\n{done.stderr[-2000:]}{out[-2000:]}")
    total = float(re.findall(r"CCSD\(T\) total energy\s*[:=]?\s*(-?\d+\.\d+)", out)[-1])
    return spent | {"total": total}


def run_tessera(program, name, basis, frozen, threads, converge, *more):
    command = [program, "energy", str(ROOT / f"share/molecules/{name}.xyz"), "--basis", basis, "--method", "ccsd(t)", "--converge", str(converge), "--threads", str(threads), "--json", *more]
    if frozen:
        command.append("--frozen-core")
    done, spent = timed(command)
    if done.returncode != 0:
        raise SystemExit(f"tessera failed on {name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout), spent


def tessera(program, name, basis, frozen, threads, kind):
    out, spent = run_tessera(program, name, basis, frozen, threads, CONVERGE, "--integrals", kind)
    return spent | {x: out[x] for x in ("jkfit", "rifit") if x in out} | {"total": out["total"], "share_in_contractions": out["share_in_contractions"], "peak_bytes": out["peak_bytes"], "time": out["time"], "flops": out["flops"], "iterations": out["iterations"]}


def references(a):
    """Differences of our energies from the references, in hartree; whether all are small enough."""
    known = json.loads((ROOT / "tests/data/reference_energies.json").read_text())["energies"]
    cases = []
    for name in a.case or ["c4h10"]:
        for basis in a.basis or ["def2-svp", "cc-pvdz"]:
            for core in a.core or ["frozen", "all"]:
                expected = known[name][f"{basis}/{'fc' if core == 'frozen' else 'ae'}"]
                out, spent = run_tessera(a.program, name, basis, core == "frozen", a.threads, 1e-8, "--abcd", a.abcd)
                ours = {"scf": out["rhf"], "mp2": out["mp2"], "ccsd": out["ccsd"], "t": out["triples"]}
                off = {x: ours[x] - expected[x] for x in ALLOWED}
                right = all(abs(off[x]) <= ALLOWED[x] for x in ALLOWED)
                cases.append({"molecule": name, "basis": basis, "frozen_core": core == "frozen", "abcd": a.abcd, "threads": a.threads,
                              "commit": commit(), "differences": off, "right": right, "iterations": out["iterations"],
                              "peak_bytes": out["peak_bytes"], "memory_estimate": out["memory_estimate"]} | spent)
    return cases


def main():
    known = json.loads((ROOT / "tests/data/reference_energies.json").read_text())["energies"]
    p = argparse.ArgumentParser()
    p.add_argument("--program", default=str(ROOT / "build/tessera"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--case", choices=sorted(known.keys() | CASES.keys()), action="append")
    p.add_argument("--integrals", choices=KINDS, default="conventional", help="of the timed cases")
    p.add_argument("--no-peer", action="store_true")
    p.add_argument("--references", action="store_true", help="compare with the reference energies instead")
    p.add_argument("--basis", choices=["def2-svp", "cc-pvdz"], action="append", help="with --references: this one only")
    p.add_argument("--core", choices=["frozen", "all"], action="append", help="with --references: this only")
    p.add_argument("--abcd", choices=["stored", "direct"], default="stored", help="with --references")
    p.add_argument("--output", help="also write the result to this file")
    a = p.parse_args()
    if a.references:
        cases = references(a)
        right = all(x["right"] for x in cases)
        if a.output and pathlib.Path(a.output).exists():
            def key(x):
                return x["molecule"], x["basis"], x["frozen_core"], x["abcd"]
            before = json.loads(pathlib.Path(a.output).read_text())["cases"]
            cases = sorted([x for x in before if key(x) not in map(key, cases)] + cases, key=key)
        result = {"bench": "energy references", "allowed": ALLOWED, "cores": os.cpu_count(), "cases": cases}
    else:
        right, result = True, {"bench": "energy", "commit": commit(), "cores": os.cpu_count(), "cases": timings(p, a)}
    text = json.dumps(result, indent=1)
    print(text)
    if a.output:
        pathlib.Path(a.output).write_text(text + "\n")
    raise SystemExit(0 if right else 1)


def timings(p, a):
    cases = []
    for name in a.case or ["c2h6", "c4h10"]:
        if name not in CASES:
            p.error(f"--case {name}: only with --references; timed are {', '.join(CASES)}")
        basis, frozen = CASES[name]
        case = {"molecule": name, "basis": basis, "frozen_core": frozen, "integrals": a.integrals, "threads": a.threads, "tessera": tessera(a.program, name, basis, frozen, a.threads, a.integrals)}
        if not a.no_peer and shutil.which("psi4"):
            case["psi4"] = psi4(name, basis, frozen, a.threads, a.integrals, case["tessera"])
            case["times_psi4"] = case["tessera"]["seconds"] / case["psi4"]["seconds"]
            case["times_psi4_cpu"] = case["tessera"]["cpu_seconds"] / case["psi4"]["cpu_seconds"]
            case["difference"] = case["tessera"]["total"] - case["psi4"]["total"]
        cases.append(case)
    return cases


if __name__ == "__main__":
    main()
