#!/usr/bin/env python3
"""Two ranks of one thread against one rank of two threads, the same problem, in turn.

    bench/ranks.py build/tessera [PROBLEM] [--rounds N] [--output FILE]

Prints one JSON object: the times of all rounds, the fastest run of each kind, the ratio of their times (wanted: at most
1.15), and whether all checksums agree.
"""
import argparse
import json
import os
import subprocess

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("problem", nargs="?", default="blocks:60,256,0.3")
parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, in turn (default: 3)")
parser.add_argument("--output", help="also write the JSON here")
options = parser.parse_args()


def run(*launcher, threads):
    command = [*launcher, options.program, "run", options.problem, "--threads", str(threads), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
ones, twos = [], []
for _ in range(options.rounds):
    ones.append(run(threads=2))
    twos.append(run("mpirun", *root, "--bind-to", "none", "-n", "2", threads=1))
one, two = (min(runs, key=lambda r: r["seconds"]) for runs in (ones, twos))
report = {
    "problem": options.problem,
    "ratio": two["seconds"] / one["seconds"],
    "wanted": 1.15,
    "same_checksum": len({r["checksum"] for r in ones + twos}) == 1,
    "seconds": {"one_rank": [r["seconds"] for r in ones], "two_ranks": [r["seconds"] for r in twos]},
    "one_rank": one,
    "two_ranks": two,
}
text = json.dumps(report, indent=2)
print(text)
if options.output:
    with open(options.output, "w") as file:
        file.write(text + "\n")
