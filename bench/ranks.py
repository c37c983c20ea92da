#!/usr/bin/env python3
"""Two ranks of one thread against one rank of two threads, the same problem, one after the other.

    bench/ranks.py build/tessera [PROBLEM] [--output FILE]

Prints one JSON object: both runs, the ratio of their times (wanted: at most 1.15), and whether the checksums agree.
"""
import argparse
import json
import os
import subprocess

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("problem", nargs="?", default="blocks:60,256,0.3")
parser.add_argument("--output", help="also write the JSON here")
options = parser.parse_args()


def run(*launcher, threads):
    command = [*launcher, options.program, "run", options.problem, "--threads", str(threads), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
one = run(threads=2)
two = run("mpirun", *root, "--bind-to", "none", "-n", "2", threads=1)
report = {
    "problem": options.problem,
    "ratio": two["seconds"] / one["seconds"],
    "wanted": 1.15,
    "same_checksum": one["checksum"] == two["checksum"],
    "one_rank": one,
    "two_ranks": two,
}
text = json.dumps(report, indent=2)
print(text)
if options.output:
    with open(options.output, "w") as file:
        file.write(text + "\n")
