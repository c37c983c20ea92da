#!/usr/bin/env python3
"""Plots results of `tessera bench transpose --json` by rank, as PNG and SVG.

usage: transpose_by_rank.py OUTPUT-WITHOUT-SUFFIX TITLE RANDOM.json [REVERSE.json]
needs: python3-matplotlib (documentation only)
"""
import json
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def by_rank(path, key):
    groups = {}
    for case in json.load(open(path))["cases"]:
        if key in case:
            groups.setdefault(case["rank"], []).append(case[key])
    ranks = sorted(groups)
    mean = [math.exp(sum(map(math.log, groups[r])) / len(groups[r])) for r in ranks]
    return ranks, mean, [min(groups[r]) for r in ranks], [max(groups[r]) for r in ranks]


def main():
    output, title, *files = sys.argv[1:]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for path, label, colour in zip(files, ("random permutations", "reverse permutations"), ("C0", "C1")):
        ranks, mean, low, high = by_rank(path, "of_copy")
        at = [str(r) for r in ranks]
        left.plot(at, mean, "o-", color=colour, label=label)
        left.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        ranks, mean, low, high = by_rank(path, "over_scatter")
        if ranks:
            right.plot(at, mean, "o-", color=colour, label=label)
    left.axhline(1, color="grey", linewidth=0.8)
    left.set(xlabel="rank", ylabel="rate over the rate of a copy", ylim=(0, None))
    left.legend()
    right.set(xlabel="rank", ylabel="rate over the scatter loop", ylim=(0, None))
    figure.suptitle(title + " (geometric mean; band: worst to best case)")
    figure.tight_layout()
    figure.savefig(output + ".png", dpi=120)
    figure.savefig(output + ".svg", metadata={"Date": None})


main()
