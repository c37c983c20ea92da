#!/usr/bin/env python3
"""Density matrices of a model insulator of growing size: is the time linear?

    bench/purify.py build/tessera [--model 32,32,0.4] [--most 200000] [--filter F] [--output FILE]

Runs `tessera run purify:N,MODEL` for N from 6,250 on, twice as many each time, and prints one JSON object: the time of
each, and the exponent of the time between the smallest and the largest (wanted: at most 1.15).
"""
import argparse
import json
import math
import subprocess

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("--model", default="32,32,0.4", help="tile, bandwidth, gap (default: 32,32,0.4)")
parser.add_argument("--most", type=int, default=200_000, help="states of the largest (default: 200,000)")
parser.add_argument("--filter", default="1e-6")
parser.add_argument("--output", help="also write the JSON here")
options = parser.parse_args()

runs = []
states = 6250
while states <= options.most:
    best = None
    for _ in range(3 if states < 50_000 else 1):
        done = subprocess.run([options.program, "run", f"purify:{states},{options.model}", "--filter", options.filter,
                               "--json"], stdout=subprocess.PIPE, text=True, check=True)
        out = json.loads(done.stdout)
        if best is None or out["seconds"] < best["seconds"]:
            best = out
    del best["history"]
    runs.append(best)
    states *= 2
first, last = runs[0], runs[-1]
report = {
    "model": options.model,
    "filter": float(options.filter),
    "exponent": math.log(last["seconds"] / first["seconds"]) / math.log(last["states"] / first["states"]),
    "wanted": 1.15,
    "planning": max(r["time"]["plan"] / r["seconds"] for r in runs),
    "runs": runs,
}
text = json.dumps(report, indent=1)
print(text)
if options.output:
    with open(options.output, "w") as file:
        file.write(text + "\n")
