#!/usr/bin/env python3
"""Plots results of bench/purify.py: time and nonzero tiles by the number of states, as PNG and SVG.

usage: purify_scaling.py OUTPUT-WITHOUT-SUFFIX TITLE RESULT.json
needs: python3-matplotlib (documentation only)
"""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main():
    output, title, path = sys.argv[1:]
    result = json.load(open(path))
    states = [r["states"] for r in result["runs"]]
    seconds = [r["seconds"] for r in result["runs"]]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    left.loglog(states, seconds, "o-", color="C0", label=f"measured: exponent {result['exponent']:.2f}")
    left.loglog(states, [seconds[0] * n / states[0] for n in states], "--", color="grey", label="linear")
    left.set(xlabel="states", ylabel="seconds")
    left.legend()
    right.semilogx(states, [100 * r["density"] for r in result["runs"]], "o-", color="C1", label="D")
    right.set(xlabel="states", ylabel="elements in nonzero tiles of D / %", yscale="log")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(output + ".png", dpi=120)
    figure.savefig(output + ".svg", metadata={"Date": None})


main()
