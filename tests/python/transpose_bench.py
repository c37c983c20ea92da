#!/usr/bin/env python3
"""The transpose benchmark on small tensors: volumes as asked for, and results joined from several runs."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
    return done


class TransposeBench(unittest.TestCase):
    def test_every_rank_comes_near_the_volume(self):
        # Rank 15 lies between 2^15 and 3^15 here; no power of one extent is near.
        out = json.loads(run("--volume", 1e6, "--rank", 2, 8, 15, "--samples", 1, "--repeats", 1, "--json").stdout)
        for case in out["cases"]:
            self.assertLess(abs(case["elements"] / 1e6 - 1), 0.2, case["extents"])
        self.assertEqual(out["summary"]["total"], 3 * 3 * 2)

    def test_pieces_join_to_the_cases_of_one_run(self):
        cases = lambda results: sorted((c["volume"], c["rank"], c["ratio"], c["extents"], c["permutation"]) for c in results["cases"])
        common = ["--volume", 1e6, "--samples", 2, "--repeats", 1]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "joined.json"
            for rank in (3, 4):
                run(*common, "--rank", rank, "--join", "--output", file)
            joined = json.loads(file.read_text())
            whole = json.loads(run(*common, "--rank", 3, 4, "--json").stdout)
            self.assertEqual(cases(joined), cases(whole))
            self.assertEqual(joined["summary"]["total"], len(whole["cases"]))
            self.assertEqual([r["rank"] for r in joined["summary"]["by_rank"]], [3, 4])
            # A shape counts once.
            before = file.read_bytes()
            self.assertIn("rank 4", run(*common, "--rank", 4, "--join", "--output", file, code=2).stderr)
            self.assertEqual(before, file.read_bytes())
            # Other settings are refused, and the file stays.
            self.assertIn("seed", run(*common, "--rank", 5, "--seed", 9, "--join", "--output", file, code=2).stderr)
            self.assertEqual(before, file.read_bytes())

    def test_ranges_and_settings(self):
        self.assertIn("given twice", run("--volume", 1e6, "--rank", 3, 3, code=2).stderr)
        for volume in (3, 5e9):
            self.assertIn("volume", run("--volume", volume, code=2).stderr)
        out = json.loads(run("--volume", 1e6, "--rank", 8, "--samples", 1, "--alpha", 2, "--beta", 0.5, "--json").stdout)
        self.assertEqual((out["alpha"], out["beta"]), (2, 0.5))
        for case in out["cases"]:
            self.assertGreater(case["plan_microseconds"], case["cached_plan_microseconds"] / 10)
        self.assertLessEqual(out["median_plan_microseconds"], out["worst_plan_microseconds"])


if __name__ == "__main__":
    unittest.main()
