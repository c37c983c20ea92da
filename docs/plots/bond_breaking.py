#!/usr/bin/env python3
"""Plots how hydrogen fluoride comes apart in cc-pvdz, from closed and from unrestricted orbitals, as PNG and SVG.

usage: bond_breaking.py OUTPUT-WITHOUT-SUFFIX     (two minutes; build/tessera is what computes)
needs: python3-matplotlib (documentation only)
"""
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from energies import energy

COMMON = ("--basis", "cc-pvdz", "--frozen-core")
UHF = ("--reference", "uhf", "--stability", "follow", "--level-shift", "0.3")  # far apart it wants the shift
METHODS = [("RHF", "rhf", (), "C0--"), ("UHF", "rhf", UHF, "C1--"), ("RHF-CCSD(T)", "ccsd(t)", (), "C0-"), ("UHF-CCSD(T)", "ccsd(t)", UHF, "C1-")]


def main():
    distances = [0.7, 0.8, 0.9, 0.95, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0]
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for label, method, options, style in METHODS:
        apart = sum(energy(f"{a} 0 0 0", "--method", method, *COMMON, *UHF)["total"] for a in ("H", "F"))
        found = [(r, energy(f"F 0 0 0|H 0 0 {r}", "--method", method, *COMMON, *options)) for r in distances]
        curve = [(r, 627.5095 * (e["total"] - apart)) for r, e in found if e]
        axes.plot(*zip(*curve), style, label=label)
        print(f"{label}: depth {-min(e for _, e in curve):.1f} kcal/mol, at {curve[-1][0]} Angstrom {curve[-1][1]:.1f}", flush=True)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="distance / Angstrom", ylabel="energy beyond that of the atoms / kcal/mol", ylim=(-150, 190))
    axes.legend()
    figure.suptitle("HF in cc-pvdz: closed and unrestricted orbitals")
    figure.tight_layout()
    figure.savefig(sys.argv[1] + ".png", dpi=120)
    figure.savefig(sys.argv[1] + ".svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
