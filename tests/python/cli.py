#!/usr/bin/env python3
"""The command line as scripts use it: exit codes, JSON fields, nothing lost on bad input; einsum against NumPy."""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments, code=0, cwd=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
    return done


class Bench(unittest.TestCase):
    def test_the_old_spelling_is_taken_with_a_warning(self):
        done = run("bench", "grouped", "--device", 99, "--repetitions", 3, code=3)
        for word in ("warning: --device is called --devices now", "warning: --repetitions is called --repeats now"):
            self.assertIn(word, done.stderr)
        self.assertNotIn("--repetitions", run("bench", "sparse", "--help").stdout)
        for arguments, word in [
            (["sparse", "--repetitions", "x"], "--repeats"),
            (["sparse", "--repetitions", 0], "--repeats"),
            (["transpose", "--device", "x"], "--devices: 'x' is no device: one number from 0 on, or none"),
            (["transpose", "--devices", "0,0"], "--devices: '0,0' is no device: one number from 0 on, or none"),
            (["transpose", "--devices", 0, "--device", 0], "--device: the old name of --devices, which is given too"),
        ]:
            self.assertIn(word, run("bench", *arguments, code=2).stderr)
        run("bench", "transpose", "--volume", "1e6", "--rank", 8, "--samples", 1, "--quiet", "--devices", "none")
        self.assertIn("say which with --devices", run("bench", "grouped", "--devices", "none", code=2).stderr)

    def test_without_its_program_bench_says_how_to_build_it(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "tessera"
            shutil.copy(PROGRAM, alone)
            done = subprocess.run([alone, "bench", "sparse"], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (3, "", 1), done.stderr)
            self.assertIn("make bench", done.stderr)

    def test_transpose(self):
        out = json.loads(run("bench", "transpose", "--volume", "1e6", "--samples", 1, "--json", "--quiet", "--peers").stdout)
        self.assertEqual(len(out["cases"]), 8 * 3 * 2)
        for field in ("geomean_of_copy", "worst_of_copy", "geomean_over_scatter"):
            self.assertGreater(out[field], 0)
            self.assertTrue(all(rank[field] > 0 for rank in out["by_rank"]))
        for case in out["cases"]:
            self.assertGreater(min(case["of_copy"], case["over_scatter"]), 0)
        self.assertTrue("geomean_over_numpy" in out or "peer_missing" in out)
        text = run("bench", "transpose", "--volume", "1e6", "--rank", 8, "--samples", 1, "--quiet").stdout
        self.assertIn("of copy", text)
        self.assertRegex(text, r"planning [0-9.]+ microseconds, at worst [0-9.]+; from the cache [0-9.]+")
        for field in ("median_plan_microseconds", "worst_plan_microseconds", "median_cached_plan_microseconds"):
            self.assertGreater(out[field], 0)
        for option, value, bound in (("--volume", 4, "1000000"), ("--volume", 999999, "1000000"), ("--volume", "5e9", "4000000000"), ("--rank", 1, "2"), ("--rank", 17, "16")):
            error = run("bench", "transpose", option, value, code=2).stderr
            for word in (option, str(value), bound):
                self.assertIn(word, error)

    def test_contractions(self):
        out = json.loads(run("bench", "contractions", "--spec", "ki,kj->ij", "--repeats", 1, "--json", "--quiet").stdout)
        self.assertEqual([c["spec"] for c in out["cases"]], ["ki,kj->ij"])
        case = out["cases"][0]
        self.assertEqual((case["flops"], case["bytes_read"], case["bytes_written"]), (2 * 600 * 600 * 2000, 16 * 600 * 2000, 8 * 600 * 600))
        self.assertGreater(min(case["floor_seconds"], case["of_floor"], case["of_floor_fresh"], out["read_gbs"], out["store_gbs"], out["copy_gbs"]), 0)

    def test_run_and_threads(self):
        out = json.loads(run("bench", "run", "blocks:4,32,0.5", "--repeats", 2, "--json", "--quiet").stdout)
        self.assertEqual([c["problem"] for c in out["cases"]], ["blocks:4,32,0.5"])
        self.assertGreater(min(out["cases"][0]["gflops"], out["cases"][0]["of_products"]), 0)
        self.assertIn("must be 1", run("bench", "threads", "--counts", "2,1", code=2).stderr)

    def test_triples(self):
        out = json.loads(run("bench", "triples", "--size", "A", "--variant", "fused", "--variant", "energy", "--json", "--quiet").stdout)
        self.assertEqual([(c["size"], c["variant"]) for c in out["cases"]], [("A", "fused"), ("A", "energy")])
        for case in out["cases"]:
            self.assertGreater(min(case["gflops"], case["fraction_of_gemm"]), 0)
            self.assertLess(case["max_relative_error"], 1e-12)


class Run(unittest.TestCase):
    FIELDS = """spec flops products seconds gflops gemm_gflops fraction_of_gemm density bytes peak_bytes made_tiles
                checked checksum algorithm ranks devices threads""".split()

    def test_json_is_alone_on_stdout_and_has_the_fields(self):
        done = run("run", "blocks:8,24,0.4", "--json", "--explain")
        out = json.loads(done.stdout)
        for field in self.FIELDS:
            self.assertIn(field, out)
        for field in "a b c moved_host_to_device moved_device_to_host moved_device_to_device sent".split():
            self.assertIn(field, out["bytes"])
        self.assertIn("plan for mk,kn->mn", done.stderr)
        self.assertGreater(out["checked"]["tiles"], 0)
        self.assertLess(out["checked"]["max_relative_error"], 1e-12)

    def test_bits_do_not_depend_on_threads_or_memory(self):
        sums, generated = set(), set()
        for threads in (1, 2, 3):
            for memory in ("", "90MiB"):
                extra = ["--memory", memory] if memory else []
                out = json.loads(run("run", "alkane:6:v1:min", "--threads", threads, "--json", "--check", 1, *extra).stdout)
                sums.add(out["checksum"])
                generated.add(out["made_tiles"])
                if memory:
                    self.assertLessEqual(out["peak_bytes"]["host"], 90 << 20)
        self.assertEqual(len(sums), 1)
        self.assertEqual(len(generated), 1)

    def test_a_budget_too_small_names_the_smallest_that_works(self):
        message = run("run", "alkane:6:v1:min", "--memory", "1MiB", code=3).stderr
        self.assertIn("1.00 MiB", message)
        smallest = int(message.rsplit("(", 1)[1].split()[0])
        run("run", "alkane:6:v1:min", "--memory", smallest, "--quiet")
        run("run", "alkane:6:v1:min", "--memory", smallest - 1, code=3)

    def test_density_matrices(self):
        out = json.loads(run("run", "purify:300", "--json").stdout)
        self.assertLess(abs(out["energy"] - out["dense"]["energy"]), out["energy_error"])
        self.assertEqual((out["converged"], out["electrons"], round(out["trace"])), (True, 150, 150))
        self.assertLess(out["error"], 1e-4)
        self.assertGreater(out["lumo"], out["homo"])
        same = json.loads(run("run", "purify:300,32,16,1", "--threads", 1, "--json", "--quiet").stdout)
        self.assertEqual(same["checksum"], out["checksum"])
        self.assertIn("off by", run("run", "purify:300", "--filter", 0).stdout)
        # Tiles without which D is another one: nothing can be said. Without any there is no D.
        loose = json.loads(run("run", "purify:300,16,200,1e-6,7", "--filter", 0.2, "--json", "--check", 0).stdout)
        self.assertEqual((loose["error"], loose["energy_error"]), (None, None))
        done = run("run", "purify:300", "--filter", 100, "--json", code=4)
        stopped = json.loads(done.stdout)
        self.assertEqual((stopped["converged"], stopped["stopped"]["in"]), (False, "purify"))
        self.assertGreater(len(stopped["history"]), 1)
        for arguments, word in [
            (["purify:1"], "n is 1, must be 2.."),
            (["purify:10,4"], "purify takes 1, 4 or 5 numbers"),
            (["purify:10,4,2,3"], "gap is 3, must be"),
            (["purify:10,4,2,x"], "gap is 'x', which is not a number"),
            (["purify:10,4,10,1"], "bandwidth is 10, must be 0..9"),
            (["purify:100", "--beta", 1], "--beta: is of contractions"),
        ]:
            self.assertIn(word, run("run", *arguments, code=2).stderr)
        self.assertIn("is no contraction", run("plan", "purify:100", code=2).stderr)

    def test_bad_input(self):
        for arguments, code, word in [
            (["run", "alkan:3:v1"], 2, "alkan"),
            (["run", "alkane:0:v1"], 2, "0"),
            (["run", "blocks:4,8,1.5"], 2, "1.5"),
            (["run", "dense:4,4,4,-1"], 2, "-1"),
            (["run", "blocks:4,8,0.5", "--algorithm", "magic"], 2, "magic"),
            (["run", "blocks:4,8,0.5", "--memory", "lots"], 2, "lots"),
            (["run", "blocks:4,8,0.5", "--threads", "0"], 2, "threads"),
            (["run", "blocks:4,8,0.5", "--grid", "2x2"], 2, "2x2"),
            (["run", "blocks:4,8,0.5", "--filter", "nan"], 2, "nan"),
            (["run", "blocks:4,8,0.5", "--devices", "0"], 3, "--devices 0"),
            (["run", "blocks:4,8,0.5", "--devices", "foo"], 2, "foo"),
            (["run", "blocks:4,8,0.5", "--devices", "9999"], 3, "--devices 9999"),
            (["run", "blocks:4,8,0.5", "--devices", "10000"], 3, "--devices 10000"),
            (["run", "blocks:4,8,0.5", "--devices", "0,99999999999999"], 3, "--devices 0,99999999999999"),
            (["bench", "grouped", "--devices", "-1"], 2, "'-1' is no device: one number from 0 on, or none"),
            (["run", "blocks:4,8,0.5", "--devices", "none", "--trace", "x.json"], 2, "--trace"),
            (["run", "blocks:4,8,0.5", "--memory", "100B"], 3, "smallest"),
            (["bench", "triples", "--size", "Z"], 2, "Z"),
            (["bench", "grouped"], 2, "--devices"),
            (["run"], 2, "problem"),
            (["fly"], 2, "'fly'"),
            (["bench", "fly"], 2, "'fly'"),
            (["show", "no\nsuch.h5"], 2, "no\\nsuch.h5"),
            ([], 2, "subcommand"),
        ]:
            done = run(*arguments, code=code)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_full_disk_behind_stdout_is_noticed(self):
        for arguments in (["info"], ["info", "--json"], ["run", "blocks:4,8,0.5"], ["show", "blocks:4,8,0.5"], ["--help"], ["--version"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(done.returncode, 3, arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_without_openblas_only_the_rate_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("libopenblas.so.0", "libblas.so.3"):
                (pathlib.Path(folder) / name).write_text("no library")
            environment = {**os.environ, "LD_LIBRARY_PATH": folder}
            go = lambda *words: subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=300, env=environment, check=True).stdout
            self.assertIn("GEMM rate unknown: OpenBLAS is not installed\n", go("run", "blocks:4,8,0.5"))
            out = json.loads(go("run", "blocks:4,8,0.5", "--json"))
            self.assertEqual((out["gemm_gflops"], out["fraction_of_gemm"]), (None, None))
            info = json.loads(go("info", "--measure", "--json"))
            self.assertEqual((info["blas"], info["gemm_gflops"]), (None, None))
            self.assertIn("rate unknown: OpenBLAS is not installed\n", go("info", "--measure"))
            here = json.loads(go("simulate", "blocks:4,8,0.5", "--machine", "this", "--json"))
            self.assertGreater(here["seconds"], 0)

    def test_a_small_address_space_ends_in_a_message_or_a_result(self):
        # OpenBLAS would wait for ever for memory that it cannot have: it is not opened.
        for megabytes, code in ((150, 3), (300, 0), (600, 0), (1 << 20, 0)):
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            done = subprocess.run([PROGRAM, "run", "blocks:4,8,0.5", "--threads", "2"], capture_output=True, text=True, timeout=60, preexec_fn=limit)
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            else:
                self.assertEqual("GEMM rate unknown: the limit on the address space" in done.stdout, megabytes < 1000, done.stdout)

    def test_threads_without_room_for_their_stacks_are_refused(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
        done = subprocess.run([PROGRAM, "run", "blocks:4,8,0.5", "--threads", "400"], capture_output=True, text=True, timeout=60, preexec_fn=limit)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("600 MiB on the address space", done.stderr)
        self.assertIn("400 threads", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_help_has_an_example(self):
        for command in (["info"], ["contract"], ["run"], ["plan"], ["simulate"], ["show"], ["energy"], ["bench"], ["bench", "dense"], ["bench", "grouped"], ["bench", "sparse"], ["bench", "transpose"], ["bench", "triples"]):
            self.assertIn("Example: tessera " + command[0], run(*command, "--help").stdout)
        run("--version")
        info = json.loads(run("info", "--json").stdout)
        self.assertIn("cpu", info)


class PlanAndSimulate(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())

    def test_plan_has_the_fields_and_text_fits(self):
        arguments = ["plan", "alkane:16:v2:min", "--machine", "summit", "--ranks", 4]
        out = json.loads(run(*arguments, "--json").stdout)
        for field in """spec flops products density bytes peak_bytes balance candidates made_tiles algorithm ranks threads
                        machine problem plan_seconds validate_seconds""".split():
            self.assertIn(field, out)
        self.assertEqual(len(out["peak_bytes"]["ranks"]), 4)
        self.assertEqual(len(out["peak_bytes"]["devices"]), 12)
        self.assertEqual(sum(c["chosen"] for c in out["candidates"]), 1)
        for c in out["candidates"]:
            for field in "algorithm bytes_sent seconds_predicted chosen reason".split():
                self.assertIn(field, c)
        text = run(*arguments).stdout
        self.assertIn("validated", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_columns_dealt_by_place_need_few_messages_and_make_b_once(self):
        problem = ["alkane:65:v1", "--machine", "summit", "--ranks", 36]
        out = json.loads(run("plan", *problem, "--json").stdout)
        self.assertEqual((out["algorithm"], out["grid"]), ("stationary_b", [1, 36]))
        self.assertLessEqual(out["bytes"]["sent"], 150e9)
        self.assertLessEqual(out["made_tiles"], 305000)
        self.assertLessEqual(next(c["seconds_predicted"] for c in out["candidates"] if c["chosen"]), 4.5)
        small = ["alkane:16:v2:min", "--machine", "summit", "--ranks", 6, "--algorithm", "stationary_b", "--grid", "1x6", "--json"]
        place, mirrored = (json.loads(run("plan", *small, "--deal", d).stdout) for d in ("place", "mirrored"))
        self.assertLess(place["bytes"]["sent"], 0.7 * mirrored["bytes"]["sent"])
        self.assertEqual(place["flops"], mirrored["flops"])
        self.assertIn("by place", place["reason"])
        self.assertIn("'magic'", run("plan", *problem, "--deal", "magic", code=2).stderr)
        self.assertIn("of stationary_b", run("plan", *problem, "--algorithm", "split_k", "--deal", "place", code=2).stderr)

    def test_tune_finds_a_tiling_that_is_no_worse_than_the_known_ones(self):
        machine = ["--machine", "summit", "--ranks", 4, "--trials", 12]
        out = json.loads(run("tune", "alkane:20:min", *machine, "--json").stdout)
        seconds = {t["problem"]: t["seconds"] for t in out["trials"] if "seconds" in t}
        self.assertEqual(len(out["trials"]), 12)
        self.assertEqual(out["seconds"], min(seconds.values()))
        self.assertEqual(seconds[out["best"]], out["seconds"])
        for version in ("v1", "v2", "v3"):
            self.assertGreaterEqual(seconds[f"alkane:20:{version}:min"], out["seconds"])
        self.assertAlmostEqual(out["gain"], seconds[out["known"]] / out["seconds"])
        best = json.loads(run("simulate", out["best"], *machine[:4], "--json").stdout)
        self.assertEqual(best["seconds"], out["seconds"])
        self.assertGreaterEqual(best["balance"]["time"], 1)
        front = [t for t in out["trials"] if t["pareto"]]
        self.assertIn(out["best"], [t["problem"] for t in front])
        text = run("tune", "dense:4000,4000,4000", "--machine", "laptop", "--trials", 5).stdout
        self.assertIn("best ", text)
        for problem, word in [("alkane:65:v1", "without a tiling"), ("alkane:x", "'x'"), ("dense:1,2", "M,N,K"), ("blocks:3", "blocks:3")]:
            self.assertIn(word, run("tune", problem, *machine, code=2).stderr)
        self.assertIn("smallest", run("tune", "dense:4000,4000,4000", "--machine", "laptop", "--memory", "1MiB", code=3).stderr)

    def test_figures_are_drawn_and_bad_requests_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "new" / "figures"
            done = json.loads(run("figures", "--only", "ipdps-5", "--out", out, "--json").stdout)
            self.assertEqual([f["id"] for f in done["figures"]], ["ipdps-5"])
            self.assertEqual({p.name for p in out.iterdir()}, {"index.html", "ipdps-5.csv", "ipdps-5.svg"})
            rows = (out / "ipdps-5.csv").read_text().splitlines()
            self.assertEqual(rows[0], "figure,line,x,y,whose")
            for line in done["figures"][0]["lines"]:  # shares of all tiles
                self.assertAlmostEqual(sum(y for _, y in line["points"]), 1)
            self.assertIn("<polyline", (out / "ipdps-5.svg").read_text())
            page = (out / "index.html").read_text()
            for printed in done["figures"][0]["printed"]:
                self.assertAlmostEqual(printed["error"], printed["ours"] / printed["published"] - 1)
                self.assertIn(printed["what"], page)
            self.assertIn("ipdps-6", run("figures", "--list").stdout)
            self.assertIn("there are scala-2", run("figures", "--only", "fig-1", "--out", out, code=2).stderr)
            self.assertIn("--out is required", run("figures", code=2).stderr)
            self.assertIn("--out", run("figures", "--out", out / "index.html", code=2).stderr)

    def test_selftest_of_played_devices(self):
        out = json.loads(run("selftest", "--played", 3, "--megabytes", 1, "--json").stdout)
        self.assertTrue(out["right"] and out["played"])
        self.assertEqual(len(out["devices"]), 3)
        self.assertEqual({(p["from"], p["to"]) for p in out["pairs"]}, {(i, j) for i in range(3) for j in range(3) if i != j})
        self.assertTrue(all(p["bytes_per_second"] > 0 and p["right"] for p in out["pairs"]))
        self.assertIn("all right", run("selftest", "--played", 2, "--megabytes", 1).stdout)
        if not json.loads(run("info", "--json").stdout)["devices"]:
            for devices in ("all", "0,0"):
                self.assertEqual(run("selftest", "--devices", devices, code=3).stdout, "")
        run("selftest", "--devices", "none", code=2)

    def test_run_repeated_gives_median_and_quartiles(self):
        out = json.loads(run("run", "blocks:8,32,0.5", "--repeat", 5, "--json").stdout)
        seconds = sorted(out["repeated"]["seconds"])
        self.assertEqual(out["repeated"]["quartiles"], [seconds[1], seconds[2], seconds[3]])
        self.assertEqual(out["checksum"], json.loads(run("run", "blocks:8,32,0.5", "--json").stdout)["checksum"])
        self.assertIn("quartiles", run("run", "blocks:8,32,0.5", "--repeat", 2).stdout)
        self.assertIn("--beta", run("run", "blocks:8,32,0.5", "--repeat", 2, "--beta", 1, code=2).stderr)
        run("run", "blocks:8,32,0.5", "--repeat", 0, code=2)

    def test_simulate_has_the_fields_and_agrees_with_plan(self):
        common = ["alkane:16:v2:min", "--machine", "summit", "--ranks", 4, "--algorithm", "stationary_b", "--json"]
        plan, out = (json.loads(run(command, *common).stdout) for command in ("plan", "simulate"))
        for field in "seconds tflops tflops_per_device overlap flops products".split():
            self.assertIn(field, out)
        for field in "device network host_link cores".split():
            self.assertGreaterEqual(out["busy"][field], 0)
            self.assertLessEqual(out["busy"][field], 1.000001)
        self.assertGreater(out["seconds"], 0)
        self.assertAlmostEqual(out["tflops"], out["flops"] / out["seconds"] * 1e-12, delta=1e-6 * out["tflops"])
        self.assertEqual(plan["flops"], out["flops"])
        for field in "moved_host_to_device moved_device_to_host moved_device_to_device sent".split():
            self.assertEqual(plan["bytes"][field], out["bytes"][field])

    def test_parameters_are_taken_shown_and_checked(self):
        problem = ["dense:8192,8192,8192,512", "--machine", "summit", "--devices-per-rank", 2, "--device-memory", "256MiB"]
        given = ["--block-share", 0.25, "--chunk-share", 0.125, "--block", "3x5", "--depth", 2, "--lookahead", 2]
        plain, out = (json.loads(run("plan", *problem, *extra, "--json").stdout) for extra in ([], given))
        wanted = {"block_share": 0.25, "chunk_share": 0.125, "block_rows": 3, "block_cols": 5, "depth": 2, "lookahead": 2}
        for name, value in wanted.items():
            self.assertEqual(out["parameters"][name]["value"], value)
            self.assertTrue(out["parameters"][name]["given"])
            self.assertLessEqual(out["parameters"][name]["used"], value)
            self.assertFalse(plain["parameters"][name]["given"])
        self.assertNotEqual(plain["bytes"], out["bytes"])
        self.assertEqual(plain["flops"], out["flops"])
        for extra, words in ((given, ["(given 0.25)", "lookahead 2 (given 2)"]), ([], ["lookahead 1 (default)", "weighed", "because"])):
            text = run("plan", *problem, *extra).stdout
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
            for word in ["nothing fits", *words]:
                self.assertIn(word, text)
        seconds = [json.loads(run("simulate", *problem, "--lookahead", n, "--json").stdout)["seconds"] for n in (0, 1)]
        self.assertGreater(seconds[0], seconds[1])
        for extra, code, word in [
            (["--block-share", 1.5], 2, "1.5"), (["--chunk-share", 0], 2, "chunk share 0"), (["--block", "3"], 2, "--block 3"),
            (["--block", "0x2"], 2, "0x2"), (["--depth", 0], 2, "depth 0"), (["--lookahead", -1], 2, "-1"), (["--lookahead", "x"], 2, "lookahead"),
            (["--chunk-share", 0.001], 3, "smallest"), (["--devices-per-rank", 0, "--memory", "4GiB", "--depth", 2], 2, "no devices"),
        ]:
            done = run("plan", *[a for a in problem if "--devices-per-rank" not in extra or a not in ("--device-memory", "256MiB", "--devices-per-rank", 2)], *extra, code=code)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        message = run("plan", *problem, "--lookahead", 9, "--chunk-share", 0.005, code=3).stderr
        smallest = int(message.rsplit("(", 1)[1].split()[0])
        at = [*problem[:-1], smallest, "--lookahead", 9, "--chunk-share", 0.005]
        run("plan", *at)
        run("plan", *problem[:-1], smallest - 1, "--lookahead", 9, "--chunk-share", 0.005, code=3)
        run("run", "blocks:4,8,0.5", "--depth", 2, code=2)

    def test_published_figures_are_within_their_tolerances(self):
        table = json.loads(run("simulate", "--papers", "--json").stdout)
        rows = table["rows"]
        self.assertEqual(len(rows), 14)
        for row in rows:
            self.assertTrue(row["within"], row)
            self.assertLessEqual(row["tolerance"], 0.30)
            self.assertIn("published", row["reason"])  # which rule, and what else is not as in the paper
            published = "--block-share 0.75" if row["what"].startswith(("dense", "  tile")) else "--blocks worst_fit"
            self.assertIn(published, row["command"])
        self.assertEqual(len(table["fitted"]), 2)

    def test_alkane_on_108_devices_is_planned_within_4_gib(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = json.loads(run("simulate", "alkane:65:v1", "--machine", "summit", "--ranks", 36, "--threads", 1, "--json").stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_maxrss, 4 << 20)  # of the largest child so far, in KiB
        self.assertLess(out["plan_seconds"], 60)  # 10 on an idle core
        self.assertLess(after.ru_utime - before.ru_utime, 60)
        self.assertEqual(out["ranks"] * out["devices_per_rank"], 108)

    def test_a_result_too_large_for_the_host_is_handed_over(self):
        machine = json.loads((pathlib.Path(__file__).parents[2] / "machines/h200x8.json").read_text())
        for host, stored in ((400 << 20, True), (300 << 20, False), (200 << 20, None)):  # A, B and C have 128 MiB each
            machine["host_memory"] = host
            (self.folder / "m.json").write_text(json.dumps(machine))
            wanted = ("dense:4096,4096,4096,512", "--machine", self.folder / "m.json", "--devices-per-rank", 1, "--json")
            if stored is None:
                self.assertIn("a host memory of 200 MiB", run("plan", *wanted, code=3).stderr)
                continue
            for command in ("plan", "simulate"):
                self.assertEqual(json.loads(run(command, *wanted).stdout)["result_stored"], stored)

    def test_more_devices_are_not_slower_and_no_device_works_too(self):
        seconds = [
            json.loads(run("simulate", "dense:8192,8192,8192,512", "--machine", "summit", "--devices-per-rank", n, "--json").stdout)["seconds"]
            for n in (0, 1, 2, 3)
        ]
        self.assertEqual(seconds, sorted(seconds, reverse=True))

    def test_trace(self):
        path = self.folder / "out.json"
        run("simulate", "blocks:12,256,0.4", "--machine", "summit", "--ranks", 4, "--trace", path)
        trace = json.loads(path.read_text())["traceEvents"]
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
        spans = [e for e in trace if e["ph"] == "X"]
        self.assertGreater(len(spans), 0)
        self.assertTrue(all((e["pid"], e["tid"]) in names for e in spans))
        self.assertEqual({e["pid"] for e in spans}, {0, 1, 2, 3})
        for word in ("device 0", "device 0 from host", "device 0 to host"):
            self.assertIn(word, names.values())
        # On one line spans follow each other.
        for lane in names:
            mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if (e["pid"], e["tid"]) == lane)
            for (_, end), (start, _) in zip(mine, mine[1:]):
                self.assertGreaterEqual(start, end - 0.01)

    def test_what_a_plan_evicts(self):
        for memory, some in [("64MiB", True), ("1GiB", False)]:
            out = json.loads(run("plan", "dense:2048,2048,2048,256", "--machine", "h200x8", "--devices-per-rank", 1, "--device-memory", memory, "--json").stdout)
            gone, there = out["evicted"], out["bytes"]["moved_host_to_device"]
            self.assertEqual(gone["tiles"] > 0, some)
            self.assertEqual(gone["bytes"], 256 * 256 * 8 * gone["tiles"])
            # What came and is not evicted is still there in the end.
            self.assertLessEqual(gone["bytes"], there)
            self.assertLessEqual(there - gone["bytes"], out["peak_bytes"]["device"])
        self.assertIn("evicts     0 tiles", run("plan", "dense:2048,2048,2048,256", "--machine", "h200x8", "--devices-per-rank", 1).stdout)

    def test_memory_with_devices_still_is_theirs(self):
        problem = ["plan", "dense:2048,2048,2048,256", "--machine", "h200x8", "--devices-per-rank", 1, "--json"]
        old = run(*problem, "--memory", "256MiB")
        self.assertIn("write --device-memory 256MiB", old.stderr)
        new = json.loads(run(*problem, "--device-memory", "256MiB").stdout)
        self.assertEqual(json.loads(old.stdout)["peak_bytes"], new["peak_bytes"])
        self.assertLessEqual(new["peak_bytes"]["device"], 256 << 20)
        both = run(*problem, "--memory", "1GiB", "--device-memory", "auto")
        self.assertEqual(both.stderr, "")
        self.assertIn("smallest", run(*problem, "--memory", "1KiB", "--device-memory", "auto", code=3).stderr)

    def test_run_plans_with_a_machine_file(self):
        usual = json.loads(run("run", "blocks:12,32,0.4", "--json").stdout)
        given = json.loads(run("run", "blocks:12,32,0.4", "--machine", "laptop", "--json").stdout)
        self.assertEqual(usual["checksum"], given["checksum"])

    def test_run_takes_b_from_where_it_is_told(self):
        for problem, on_its_own in [("blocks:12,32,0.4", "stored"), ("alkane:6:v2:min", "host")]:
            made = {
                b: json.loads(run("run", problem, "--source-b", b, "--json").stdout) for b in ("auto", "stored", "host")
            }
            self.assertEqual(made["stored"]["made_tiles"], 0)
            self.assertGreater(made["host"]["made_tiles"], 0)
            self.assertEqual(made["auto"]["made_tiles"], made[on_its_own]["made_tiles"])
            self.assertEqual(len({m["checksum"] for m in made.values()}), 1)
            self.assertIsNone(made["auto"]["busy_seconds"])
        old = run("run", problem, "--b", "host", "--json")  # its name before 0.2
        self.assertIn("--b is called --source-b", old.stderr)
        self.assertEqual(json.loads(old.stdout)["checksum"], made["host"]["checksum"])
        self.assertIn("--b: the old name", run("run", problem, "--b", "host", "--source-b", "stored", code=2).stderr)
        run("run", "alkane:6:v2:min", "--source-b", "host", "--memory", "30MiB")  # too little for a B that is stored

    def test_without_its_files_it_says_where_it_looked(self):
        alone = self.folder / "tessera"
        shutil.copy(PROGRAM, alone)
        done = subprocess.run([alone, "run", "blocks:4,8,0.5", "--machine", "summit"], capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            self.skipTest("an installed Tessera has the files")
        self.assertIn(f"no machine files are in {self.folder}/share/tessera, ", done.stderr)

    def test_own_machine_file_and_what_is_wrong_with_it(self):
        path = self.folder / "own.json"
        path.write_text('{"name": "own", "threads_per_rank": 4, "gemm": {"flops_per_second": 1e11}, "network": {"bytes_per_second": 1e9}}')
        out = json.loads(run("simulate", "blocks:8,64,0.5", "--machine", path, "--ranks", 2, "--json").stdout)
        self.assertEqual(out["machine"], "own")
        self.assertEqual(out["tflops_per_device"], 0)
        for text, word in [
            ('{"name": "own", "gemm": {"flops": 1}}', "gemm.flops"),
            ('{"name": "own", "threads_per_rank": -4}', "-4"),
            ('{"name": "own", "threads_per_rank": "4"}', "threads_per_rank"),
            ('{"name"', "JSON"),
            ("", "JSON"),
        ]:
            path.write_text(text)
            done = run("plan", "blocks:8,64,0.5", "--machine", path, code=2)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_bad_input(self):
        problem = ["blocks:8,64,0.5", "--machine", "summit"]
        for arguments, code, word in [
            (["plan"], 2, "problem"),
            (["simulate"], 2, "problem"),
            (["simulate", "--papers", "blocks:8,64,0.5"], 2, "--papers"),
            (["plan", "blocks:8,64,0.5", "--machine", "sumit"], 2, "summit, this, or"),
            (["plan", "blocks:8,64,0.5", "--machine", "/no/such.json"], 2, "/no/such.json"),
            (["plan", *problem, "--ranks", "0"], 2, "ranks"),
            (["plan", *problem, "--ranks", "x"], 2, "ranks"),
            (["plan", *problem, "--ranks", "4", "--grid", "2x3"], 2, "2x3"),
            (["plan", *problem, "--ranks", "4", "--grid", "2"], 2, "--grid 2"),
            (["plan", *problem, "--ranks", "4", "--grid", "-2x-2"], 2, "-2x-2"),
            (["plan", *problem, "--algorithm", "magic"], 2, "magic"),
            (["plan", *problem, "--blocks", "magic"], 2, "magic"),
            (["plan", *problem, "--source-b", "magic"], 2, "magic"),
            (["plan", *problem, "--source-b", "device", "--devices-per-rank", "0"], 2, "device"),
            (["plan", *problem, "--device-memory", "1KiB"], 3, "smallest"),
            (["plan", *problem, "--memory", "lots"], 2, "--memory: size 'lots'"),
            (["run", "blocks:8,64,0.5", "--memory", "8gigs"], 2, "--memory: size '8gigs'"),
            (["plan", "blocks:8,64,0.5", "--machine", "laptop", "--device-memory", "1GiB"], 2, "--devices-per-rank"),
            (["plan", *problem, "--filter", "-1"], 2, "-1"),
            (["plan", "blocks:8,64,0.5", "--machine", "laptop", "--devices-per-rank", "2"], 2, "laptop"),
            (["simulate", *problem, "--trace", "/no/such/folder/out.json"], 2, "/no/such/folder"),
            (["run", "blocks:8,64,0.5", "--source-b", "magic"], 2, "magic"),
            (["run", "blocks:8,64,0.5", "--machine", "sumit"], 2, "summit, and paths"),
            (["run", "blocks:8,64,0.5", "--machine", "this"], 2, "'this' is not known"),
            (["contract", "ij->ji", "--a", "none.npy", "--machine", "nope"], 2, "--machine nope"),
            (["run", "blocks:8,64,0.5", "--device-memory", "1GiB"], 2, "no devices"),
            (["run", "blocks:8,64,0.5", "--source-b", "device"], 2, "no devices"),
            (["run", "alkane:6:v2:min", "--source-b", "stored", "--memory", "30MiB"], 3, "smallest"),
        ]:
            done = run(*arguments, code=code)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import numpy
        except ImportError:
            raise unittest.SkipTest("python3-numpy is not installed")
        cls.np = numpy

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())

    def test_one_operand_is_added_to_what_is_there(self):
        a = self.save("a.npy", (3, 4), "f8")
        c = self.save("c.npy", (4, 3), "f8")
        for file in ("c.npy", "c.h5"):
            out = self.folder / file
            if file.endswith("h5"):
                self.np.save(self.folder / "start.npy", c)
                run("contract", "ij->ij", "--a", self.folder / "start.npy", "--out", out)
            run("contract", "ij->ji", "--a", self.folder / "a.npy", "--alpha", 2, "--beta", "-0.5", "--out", out)
            run("contract", "ij->ij", "--a", out, "--out", self.folder / "got.npy")
            self.np.testing.assert_allclose(self.np.load(self.folder / "got.npy"), 2 * a.T - 0.5 * c, rtol=1e-14)
        before = out.read_bytes()
        run("contract", "ij->ij", "--a", self.folder / "a.npy", "--beta", 1, "--out", out, code=2)  # 3 x 4 onto 4 x 3
        self.assertEqual(out.read_bytes(), before)

    def test_an_empty_name_is_refused_before_any_work(self):
        self.save("a.npy", (3, 4), "f8")
        self.assertIn("--out", run("contract", "ij->ji", "--a", self.folder / "a.npy", "--out", "", code=2).stderr)
        self.assertIn("--png", run("show", "alkane:3:v1", "--png", "", code=2).stderr)

    def save(self, name, shape, dtype):
        r = self.np.random.default_rng(len(name) + sum(shape))
        x = r.standard_normal(shape)
        if self.np.dtype(dtype).kind == "c":
            x = x + 1j * r.standard_normal(shape)
        x = x.astype(dtype)
        self.np.save(self.folder / name, x)
        return x

    def test_einsum_as_numpy(self):
        sizes = dict(i=7, j=5, k=6, l=4, a=3, b=8)
        for spec in ["ik,kj->ij", "ki,jk->ji", "aik,akj->aij", "ij,kl->kilj", "ik,ik->", "iik,kj->ij", "ikl,kj->ij", "abij,jkl->kbal"]:
            for dtype in ("f4", "f8", "c8", "c16"):
                left, result = spec.split("->")
                a, b = (self.save(f"{n}.npy", [sizes[x] for x in labels], dtype) for n, labels in zip("AB", left.split(",")))
                run("contract", spec, "--a", "A.npy", "--b", "B.npy", "--tile", 3, "--out", "C.npy", cwd=self.folder)
                c, want = self.np.load(self.folder / "C.npy"), self.np.einsum(spec, a, b)
                tolerance = 1e-4 if dtype in ("f4", "c8") else 1e-12
                self.assertLess(self.np.abs(c - want).max(), tolerance * max(1, self.np.abs(want).max()), f"{spec} {dtype}")

    def test_einsums_of_any_number_of_operands(self):
        sizes = dict(i=7, j=5, k=6, l=4, a=3, b=8)
        for spec in ["ij,jk,kl->il", "ij,jk,kl", "iik,kj,jl,la->ia", "abi,aj,ak,bl->ijkl", "ki,kj,kl->ijl", "ji->ij", "kj,ij"]:
            labels = spec.split("->")[0].split(",")
            files = [f"{n}.npy" for n in range(len(labels))]
            x = [self.save(f, [sizes[l] for l in own], "c16") for f, own in zip(files, labels)]
            run("contract", spec, *files, "--tile", 3, "--conjugate", len(x), "--out", "C.npy", cwd=self.folder)
            want = self.np.einsum(spec, *x[:-1], x[-1].conj())
            self.assertLess(self.np.abs(self.np.load(self.folder / "C.npy") - want).max(), 1e-11 * max(1, self.np.abs(want).max()), spec)
        a, b, c = self.save("A.npy", (2, 3, 4), "f8"), self.save("B.npy", (4, 5), "f8"), self.save("C.npy", (5, 5), "f8")
        for spec in ["...j,jk->...k", "...j,jk,kl", "...j,jk,kk->..."]:
            files = ["A.npy", "B.npy", "C.npy"][:spec.count(",") + 1]
            run("contract", spec, *files, "--out", "D.npy", cwd=self.folder)
            self.assertLess(self.np.abs(self.np.load(self.folder / "D.npy") - self.np.einsum(spec, *[a, b, c][:len(files)])).max(), 1e-12, spec)
        out = json.loads(run("contract", "aij,jk,kl->ail", "A.npy", "B.npy", "C.npy", "--json", "--explain", cwd=self.folder).stdout)
        self.assertEqual(len(out["steps"]), 2)
        self.assertEqual(sum(s["flops"] for s in out["steps"]), out["flops"])
        self.assertEqual(len(out["density"]["operands"]), 3)
        self.assertGreater(out["floor"]["gemm_gflops"], 0)
        self.assertAlmostEqual(out["of_floor"], out["floor_seconds"] / out["seconds"])
        self.assertAlmostEqual(out["floor_seconds"] * out["floor"]["gemm_gflops"] * 1e9, out["flops"], delta=1e-6 * out["flops"])  # all fits the caches
        self.assertRegex(run("contract", "aij,jk->aik", "A.npy", "B.npy", "--explain", cwd=self.folder).stdout, r"\n  floor .* GFLOP/s of doubles\n(.*\n)+floor .* of the time\n")
        text = run("contract", "aij,jk,kl->ail", "A.npy", "B.npy", "C.npy", "--explain", "--filter", 1e-3, cwd=self.folder).stdout
        self.assertIn("  tree       ", text)
        run("contract", "ij,jk,kl->il", "B.npy", "C.npy", "C.npy", "--out", "E.npy", cwd=self.folder)
        run("contract", "ij,jk,kl->il", "B.npy", "C.npy", "C.npy", "--out", "E.npy", "--beta", 2, "--alpha", 0.5, cwd=self.folder)
        self.assertLess(self.np.abs(self.np.load(self.folder / "E.npy") - 2.5 * b @ c @ c).max(), 1e-12)
        for arguments, message in [
            (["ij,jk,kl->il", "A.npy", "B.npy"], "has 3 operands, but 2 files are given"),
            (["ij,jk,kl->il", "B.npy", "--a", "B.npy"], "name all of them in one way"),
            (["ij,jk->ik"], "no operand"),
            (["ij,jk,kl->il", "B.npy", "C.npy", "A.npy"], "operand 3 has rank 3, but its labels 'kl' have 2"),
            (["ij,jk,kl->ii", "B.npy", "C.npy", "C.npy"], "label 'i' stands twice in the result"),
            (["...,...", "A.npy", "B.npy"], "does not broadcast"),
            (["ij,jk,kl->il", "B.npy", "C.npy", "C.npy", "--conjugate", "4"], "--conjugate 4"),
        ]:
            self.assertIn(message, run("contract", *arguments, code=2, cwd=self.folder).stderr)

    def test_alpha_beta_conjugation_and_one_operand(self):
        a, b = self.save("A.npy", (6, 5), "c16"), self.save("B.npy", (5, 4), "c16")
        run("contract", "ik,kj->ij", "--a", "A.npy", "--b", "B.npy", "--tile", 2, "--out", "C.h5", cwd=self.folder)
        run("contract", "ik,kj->ij", "--a", "A.npy", "--b", "B.npy", "--tile", 2, "--out", "C.h5", "--conjugate-a", "--alpha", -2,
            "--beta", 0.5, cwd=self.folder)
        refused = run("contract", "ij->ji", "--a", "C.h5", "--tile", 3, "--out", "D.npy", code=2, cwd=self.folder)
        self.assertIn("--tile 3", refused.stderr)
        run("contract", "ij->ji", "--a", "C.h5", "--out", "D.npy", cwd=self.folder)
        got = self.np.load(self.folder / "D.npy")
        self.assertLess(self.np.abs(got - (-2 * a.conj() @ b + 0.5 * a @ b).T).max(), 1e-12)

    def test_symmetry_of_the_result_and_of_its_file(self):
        np = self.np
        a = np.random.default_rng(3).standard_normal((60, 40))
        np.save(self.folder / "a.npy", a)
        half = self.folder / "half.h5"
        out = run("contract", "ik,jk->ij", self.folder / "a.npy", self.folder / "a.npy", "--tile", 10, "--symmetry", "ij=ji",
                  "--out", half, "--explain").stdout
        self.assertIn("symmetry   C ij=ji: ", out)
        shown = run("show", half).stdout
        self.assertIn("symmetry   ij=ji", shown)
        self.assertIn("21 of 36 tiles", shown)
        run("contract", "ij,jk->ik", half, half, "--symmetry", "ij=ji", "--out", self.folder / "square.npy")
        square = np.load(self.folder / "square.npy")
        np.testing.assert_allclose(square, a @ a.T @ a @ a.T, rtol=1e-12, atol=1e-9)
        self.assertIn("sums folded", run("contract", "ij,ij->", half, half, "--fold", "--explain").stdout)
        old = half.read_bytes()
        for arguments, word in [
            (["ij,jk->ik", half, half, "--symmetry", "ij=jk", "--out", half], "symmetry 'ij=jk'"),
            (["ij,jk->ik", half, half, "--symmetry", "ijk=jik", "--out", half], "has 3 indices, the tensor 2"),
            (["ij->ji", half, "--out", half], "desymmetrise it first"),
        ]:
            self.assertIn(word, run("contract", *arguments, code=2).stderr)
        self.assertEqual(half.read_bytes(), old)

    def test_cancellation_is_no_error(self):
        q = self.np.linalg.qr(self.np.random.default_rng(1).standard_normal((64, 64)))[0]
        self.np.save(self.folder / "q.npy", q)
        run("contract", "ik,jk->ij", "--a", "q.npy", "--b", "q.npy", "--tile", 8, "--out", "qq.npy", cwd=self.folder)
        self.assertLess(self.np.abs(self.np.load(self.folder / "qq.npy") - self.np.eye(64)).max(), 1e-13)

    def test_show(self):
        self.save("A.npy", (12, 9), "f8")
        run("contract", "ij->ij", "--a", "A.npy", "--tile", 4, "--out", "A.h5", cwd=self.folder)
        out = json.loads(run("show", "A.h5", "--json", "--png", "A.png", cwd=self.folder).stdout)
        self.assertEqual(out["tilings"], [[4, 4, 4], [4, 4, 1]])
        self.assertEqual((self.folder / "A.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertIn("float64", run("show", "A.h5", cwd=self.folder).stdout)
        before = (self.folder / "A.h5").read_bytes()
        run("show", "A.h5", "--png", "A.h5", code=2, cwd=self.folder)
        self.assertEqual(before, (self.folder / "A.h5").read_bytes())

    def test_bad_input_leaves_the_old_file(self):
        self.save("A.npy", (4, 4), "f8")
        self.save("B.npy", (5, 4), "f8")
        self.save("F.npy", (4, 4), "f4")
        old = b"precious"
        out = self.folder / "C.h5"
        out.write_bytes(old)
        broken = self.folder / "broken.h5"
        run("contract", "ij->ij", "--a", "A.npy", "--out", "good.h5", cwd=self.folder)
        good = (self.folder / "good.h5").read_bytes()
        broken.write_bytes(good[: len(good) // 2])
        nan = self.np.full((4, 4), self.np.nan)
        self.np.save(self.folder / "nan.npy", nan)
        before = sorted(p.name for p in self.folder.iterdir())
        for arguments, words in [
            (["ik,kj->ij", "--a", "A.npy", "--b", "B.npy"], ["'k'", "4", "5", "index 1 of A", "index 0 of B"]),
            (["ik,kj->ij", "--a", "A.npy", "--b", "F.npy"], ["float64", "float32"]),
            (["ik,kj->ij", "--a", "missing.h5", "--b", "A.npy"], ["missing.h5"]),
            (["ik,kj->ij", "--a", "broken.h5", "--b", "A.npy"], ["broken.h5"]),
            (["ik,kj->ij", "--a", "nan.npy", "--b", "A.npy"], ["nan.npy", "element (0, 0)", "NaN"]),
            (["ik,kj-ij", "--a", "A.npy", "--b", "A.npy"], ["'-' at position 6"]),
            (["ik,kj->ij", "--a", "A.npy"], ["--b"]),
            (["ik,kj->ij", "--a", "A.npy", "--b", "A.npy", "--beta", "1"], ["C.h5"]),
            (["ij->ji", "--a", "A.npy", "--explain"], ["--explain", "ij->ji"]),
            (["ij->ji", "--a", "A.npy", "--algorithm", "outer_product"], ["--algorithm", "ij->ji"]),
        ]:
            done = run("contract", *arguments, "--out", "C.h5", code=2, cwd=self.folder)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertEqual(out.read_bytes(), old)
        self.assertEqual(before, sorted(p.name for p in self.folder.iterdir()))
        run("contract", "ik,kj->ij", "--a", "A.npy", "--b", "A.npy", "--out", "no/such/folder/C.h5", code=2, cwd=self.folder)
        for name in ("C.txt", "C", "h5"):
            self.assertIn(name, run("contract", "ij->ij", "--a", "A.npy", "--out", name, code=2, cwd=self.folder).stderr)
            self.assertFalse((self.folder / name).exists())

    def test_a_dangling_link_is_written_through(self):
        self.save("A.npy", (4, 4), "f8")
        (self.folder / "link.h5").symlink_to("real.h5")
        run("contract", "ij->ij", "--a", "A.npy", "--out", "link.h5", cwd=self.folder)
        self.assertTrue((self.folder / "link.h5").is_symlink())
        self.assertIn("float64", run("show", "real.h5", cwd=self.folder).stdout)
        (self.folder / "round.h5").symlink_to("round.h5")
        self.assertIn("symbolic", run("contract", "ij->ij", "--a", "A.npy", "--out", "round.h5", code=2, cwd=self.folder).stderr)


class Energy(unittest.TestCase):
    MOLECULES = pathlib.Path(__file__).resolve().parents[2] / "share/molecules"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def test_json(self):
        out = json.loads(run("energy", self.MOLECULES / "h2o.xyz", "--basis", "sto-3g", "--frozen-core", "--json").stdout)
        for field in "nuclear rhf mp2 ccsd triples total converged iterations t1_diagnostic orbitals seconds time share_in_contractions".split():
            self.assertIn(field, out)
        self.assertEqual(out["orbitals"], {"basis": 7, "occupied": 4, "frozen": 1, "virtual": 2})
        self.assertAlmostEqual(out["total"], out["rhf"] + out["ccsd"] + out["triples"], 12)
        self.assertIs(out["converged"], True)
        self.assertEqual([out[x] for x in ("charge", "method", "converge", "ranks")], [0, "ccsd(t)", 1e-8, 1])
        self.assertIs(type(out["peak_bytes"]), int)
        self.assertEqual(out["integrals"], "conventional")
        self.assertNotIn("jkfit", out)
        fitted = json.loads(run("energy", self.MOLECULES / "h2o.xyz", "--frozen-core", "--integrals", "df", "--json").stdout)
        self.assertEqual(fitted["jkfit"], {"name": "def2-universal-jkfit", "functions": 113})
        self.assertEqual(fitted["rifit"], {"name": "def2-svp-rifit", "functions": 76})
        self.assertIsNone(fitted["abcd"])
        self.assertTrue(any("Weigend" in x for x in fitted["references"]))
        ion = self.write("h3.xyz", "3\n\nH 0 0 0\nH 0 0 0.87\nH 0 0.76 0.435\n")
        out = json.loads(run("energy", ion, "--charge", 1, "--threads", 1, "--method", "ccsd", "--abcd", "direct", "--json").stdout)
        self.assertEqual((out["charge"], out["threads"]), (1, 1))
        # Far apart: what is skipped is exactly zero, and zero has no sign.
        far = self.write("far2.xyz", "4\n\nHe 0 0 0\nHe 0 0 3\nHe 0 0 900\nHe 0 0 903\n")
        out = run("energy", far, "--method", "ccsd", "--abcd", "direct", "--screen", "1e-10", "--json").stdout
        self.assertGreater(json.loads(out)["screening"]["tiles"], json.loads(out)["screening"]["tiles_made"])
        self.assertIn('"energy_change": 0.0', out)

    def test_progress_and_summary(self):
        out = run("energy", self.MOLECULES / "h2o.xyz", "--basis", "STO-3G", "--method", "CCSD_T").stdout
        for word in ("3 atoms, charge 0, 10 electrons, 7 basis functions", "iter", "RHF", "CCSD total", "CCSD(T) total", "residual"):
            self.assertIn(word, out)
        value = lambda name: float(re.search(rf"^{name} +(-?[0-9.]+)$", out, re.M)[1])
        self.assertAlmostEqual(value("MP2 total"), value("RHF") + value("MP2 correlation"), 9)
        quiet = run("energy", self.MOLECULES / "h2o.xyz", "--basis", "sto-3g", "--method", "rhf", "--quiet").stdout
        self.assertEqual(quiet.count("\n"), 1)
        self.assertAlmostEqual(float(quiet), -74.963, 2)

    def test_bad_input(self):
        water = self.MOLECULES / "h2o.xyz"
        broken = self.write("broken.xyz", "3\n\nO 0 0 0\nH 0 x 0\n")
        twice = self.write("twice.xyz", "2\n\nH 0 0 0\nH 0 0 0.001\n")
        unknown = self.write("unknown.xyz", "1\n\nUuo 0 0 0\n")
        krypton = self.write("krypton.xyz", "1\n\nKr 0 0 0\n")
        lithium = self.write("lithium.xyz", "1\n\nLi 0 0 0\n")
        basis = self.write("bad.g94", "H 0\nS 1 1.0\n -1 1\n")
        foreign = self.folder / "foreign.h5"
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }"
        header += b" " * (117 - len(header)) + b"\n"
        (self.folder / "two.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(32))
        run("contract", "ij->ji", "--a", self.folder / "two.npy", "--out", foreign)
        for arguments, code, word in [
            ([self.folder / "none.xyz"], 2, "none.xyz"),
            ([self.folder], 2, str(self.folder)),
            ([broken], 2, "line 4"),
            ([twice], 2, "on top of each other"),
            ([unknown], 2, "Uuo"),
            ([krypton, "--basis", "cc-pvdz"], 2, "Kr"),
            ([lithium], 2, "closed shells"),
            ([lithium, "--charge", 1, "--frozen-core"], 2, "nothing is left"),
            ([water, "--charge", 1], 2, "closed shells"),
            ([water, "--charge", 10], 2, "electrons"),
            ([water, "--charge", "1.5"], 2, "'1.5' is no whole number"),
            ([water, "--max-iterations", "99999999999"], 2, "'99999999999' is no whole number"),
            ([""], 2, "''"),
            ([water, "--basis", "6-31g"], 2, "def2-svp"),
            ([water, "--basis", basis], 2, "-1"),
            ([water, "--method", "dft"], 2, "ccsd(t)"),
            ([water, "--converge", "-1"], 2, "-1"),
            ([water, "--abcd", "magic"], 2, "magic"),
            ([water, "--screen", "1e-9"], 2, "direct"),
            ([water, "--integrals", "exact"], 2, "exact"),
            ([water, "--rifit", "def2-svp-rifit"], 2, "def2-svp-rifit"),
            ([water, "--integrals", "df", "--jkfit", "nofit"], 2, "nofit"),
            ([water, "--integrals", "df", "--abcd", "direct"], 2, "direct"),
            ([lithium, "--charge", 1, "--integrals", "df", "--basis", "cc-pvdz"], 2, "cc-pvtz-jkfit has no functions for Li"),
            ([water, "--integrals", "df", "--basis", self.MOLECULES / "../basis/sto-3g.g94"], 2, "jkfit"),
            ([water, "--scratch", self.folder / "no"], 2, str(self.folder / "no")),
            ([water, "--devices", "0"], 3, "--devices 0"),
            ([water, "--memory", "1KiB"], 3, "smallest"),
            ([water, "--checkpoint", self.folder / "no/such/x.h5"], 2, "no/such"),
            ([water, "--checkpoint", water, "--basis", "sto-3g"], 2, "h2o.xyz"),
            ([water, "--checkpoint", self.folder], 2, "folder"),
            ([water, "--checkpoint", foreign], 2, "not one of amplitudes"),
            ([water, "--checkpoint", self.folder / "t.h5", "--method", "mp2"], 2, "amplitudes"),
            ([water, "--charge", -400], 2, "205 electron pairs do not fit in 24 functions"),
            ([water, "--checkpoint", "/proc/x.h5"], 2, "/proc/x.h5"),
            ([water, "--checkpoint", ""], 2, "no name of a file"),
            ([self.write("more.xyz", "1\n\nHe 0 0 0\nHe 0 0 3\n")], 2, "another one follows"),
            ([self.write("fewer.xyz", "3\n\nHe 0 0 0\nHe 0 0 3\n")], 2, "says 3 atoms, but has 2"),
            ([self.write("gap.xyz", "2\n\nHe 0 0 0\n\nHe 0 0 3\n")], 2, "line 4"),
            ([self.write("minus.xyz", "2\n\nHe 0 0 0\nHe 0 0 \u22123\n")], 2, "not a coordinate"),
            ([self.write("far.xyz", "2\n\nHe 0 0 0\nHe 0 0 1e9\n")], 2, "1e9"),
        ]:
            done = run("energy", *arguments, "--json", "--quiet", code=code)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_no_convergence(self):
        water = self.MOLECULES / "h2o.xyz"
        done = run("energy", water, "--max-iterations", 2, "--quiet", code=4)
        self.assertEqual(done.stdout, "")
        done = run("energy", water, "--max-iterations", 2, "--quiet", "--json", code=4)
        self.assertIn("did not converge", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        out = json.loads(done.stdout)
        self.assertIs(out["converged"], False)
        for energy in "rhf mp2 ccsd triples total".split():
            self.assertIsNone(out[energy])
        self.assertEqual(out["stopped"]["in"], "scf")
        self.assertEqual(out["stopped"]["iterations"], 2)
        self.assertGreater(out["time"]["scf"], 0)
        self.assertEqual(out["time"]["ccsd"], 0)
        # CCSD stops: its checkpoint stays, and the same command goes on from it, its count too.
        file = self.folder / "stopped.h5"
        common = ["energy", self.MOLECULES / "n2.xyz", "--basis", "sto-3g", "--method", "ccsd", "--json"]
        out = json.loads(run("energy", self.MOLECULES / "h2o.xyz", "--max-iterations", 2, "--json", "--quiet", code=4).stdout)
        self.assertEqual([out[x] for x in ("nuclear", "rhf", "orbitals", "total")], [None] * 4)
        out = json.loads(run("energy", self.MOLECULES / "h2o.xyz", "--basis", "sto-3g", "--method", "mp2", "--json", "--quiet").stdout)
        self.assertEqual([out[x] for x in ("ccsd", "triples", "t1_diagnostic")], [None] * 3)
        whole = json.loads(run(*common).stdout)
        self.assertEqual(whole["iterations_before"], 0)
        some = whole["scf_iterations"]
        self.assertGreater(whole["iterations"], some)
        done = run(*common, "--max-iterations", some, "--checkpoint", file, code=4)
        self.assertIn(str(file), done.stderr.splitlines()[-1])
        out = json.loads(done.stdout)
        self.assertIs(out["converged"], False)
        self.assertEqual(out["rhf"], whole["rhf"])
        self.assertIsNone(out["ccsd"])
        self.assertIsNone(out["total"])
        self.assertEqual((out["stopped"]["in"], out["stopped"]["iterations"]), ("ccsd", some))
        self.assertGreater(out["time"]["ccsd"], 0)
        self.assertLess(out["time"]["ccsd"], out["seconds"])
        self.assertTrue(file.exists())
        done = run(*common, "--max-iterations", some, "--checkpoint", file)
        self.assertIn(f"going on from iteration {some} in {file}", done.stderr)
        self.assertIn(f"\n{some + 1:5} ", done.stderr)
        out = json.loads(done.stdout)
        self.assertIs(out["converged"], True)
        self.assertEqual(out["iterations_before"], some)
        self.assertAlmostEqual(out["ccsd"], whole["ccsd"], 8)

    def test_warnings_are_never_hidden(self):
        basis = self.write("twice.g94", "H 0\nS 1 1.0\n 1.2 1\nS 1 1.0\n 0.5 1\nS 1 1.0\n 0.5001 1\nP 1 1.0\n 0.8 1\n****\n")
        h2 = self.write("h2.xyz", "2\n\nH 0 0 0\nH 0 0 0.74\n")
        for more in ([], ["--json"], ["--quiet"], ["--quiet", "--json"]):
            done = run("energy", h2, "--basis", basis, *more)
            self.assertIn("tessera: warning: 2 nearly dependent", done.stderr)
            self.assertNotIn("warning", done.stdout)
            if "--quiet" in more:
                self.assertEqual(done.stderr.count("\n"), 1)
        out = json.loads(done.stdout)
        self.assertEqual(out["dropped_functions"], 2)
        self.assertGreater(out["smallest_overlap"], 1e-7)
        nanometre = self.write("nm.xyz", "5\n\nC 0 0 0\nH 0.063 0.063 0.063\nH -0.063 -0.063 0.063\nH -0.063 0.063 -0.063\nH 0.063 -0.063 -0.063\n")
        self.assertIn("are these Angstrom?", run("energy", nanometre, "--basis", "sto-3g", "--method", "rhf", "--quiet").stderr)
        h4 = self.write("h4.xyz", "4\n\nH 0 0 0\nH 0 0 0.74\nH 0 0 4\nH 0 0 4.74\n")
        coarse = ["energy", h4, "--method", "ccsd", "--abcd", "direct", "--quiet", "--screen"]
        self.assertIn("warning: screen 0.003", run(*coarse, "3e-3").stderr)
        self.assertEqual(run(*coarse, "1e-10").stderr, "")

    def test_memory_is_a_promise(self):
        # Far more occupied orbitals than virtual ones.
        chain = self.write("chain.xyz", "12\n\n" + "".join(f"F 0 0 {2.7 * i}\nH 0 0 {2.7 * i + 0.93}\n" for i in range(6)))
        for molecule, basis, more in [
            ("h2o", "sto-3g", []),
            ("c2h6", "cc-pvdz", ["--method", "rhf"]),
            ("n2", "cc-pvdz", ["--frozen-core", "--tile", 5]),
            ("ch4", "def2-svp", ["--abcd", "direct", "--method", "ccsd"]),
            ("ch4", "cc-pvdz", ["--checkpoint", self.folder / "m.h5"]),
            ("h2o", "cc-pvdz", ["--abcd", "direct", "--method", "ccsd"]),
            ("c2h6", "cc-pvdz", ["--method", "mp2"]),
            ("c2h6", "cc-pvdz", ["--integrals", "df", "--frozen-core"]),
            ("c4h10", "sto-3g", ["--integrals", "df", "--method", "ccsd"]),
            ("c2h6", "def2-svp", ["--integrals", "df", "--method", "rhf"]),
            ("c2h6", "def2-svp", ["--integrals", "df", "--method", "mp2"]),
            # As many occupied orbitals as virtual ones; the tensors are just too small for the pool of pages.
            ("c8h18", "sto-3g", ["--frozen-core", "--method", "ccsd"]),
            ("c4h10", "sto-3g", ["--frozen-core", "--method", "ccsd"]),
            (chain, "sto-3g", ["--method", "ccsd"]),
            ("c2h6", "cc-pvdz", ["--frozen-core"]),
        ]:
            path = molecule if molecule == chain else self.MOLECULES / f"{molecule}.xyz"
            arguments = ["energy", path, "--basis", basis, "--json", "--quiet", "--threads", 2, *more]
            out = json.loads(run(*arguments).stdout)
            self.assertLessEqual(out["peak_bytes"], out["memory_estimate"], arguments)
            # A program with a few MiB of tensors is mostly code and libraries, of which more or less is resident.
            code = 0 if molecule == "c2h6" and "df" not in more else 16 << 20
            self.assertLess(out["memory_estimate"], 1.4 * out["peak_bytes"] + code, arguments)
        self.assertIs(json.loads(run(*arguments, "--memory", out["memory_estimate"]).stdout)["diis_on_disk"], False)
        # With less the vectors of DIIS go to disk, which changes no bit; with still less it is refused.
        for more in ([], ["--integrals", "df"]):
            arguments = ["energy", self.MOLECULES / "c4h10.xyz", "--basis", "sto-3g", "--json", "--quiet", "--threads", 2, "--method", "ccsd", *more]
            whole = json.loads(run(*arguments).stdout)
            out = json.loads(run(*arguments, "--memory", whole["memory_estimate"] - 1, "--scratch", self.folder).stdout)
            self.assertEqual((out["diis_on_disk"], out["total"]), (True, whole["total"]))
            self.assertLessEqual(out["peak_bytes"], out["memory_estimate"])
            self.assertLess(out["memory_estimate"], whole["memory_estimate"])
            self.assertEqual([x for x in self.folder.iterdir() if "amplitudes" in x.name], [])
            message = run(*arguments, "--memory", out["memory_estimate"] - 1, code=3).stderr
            self.assertIn(str(out["memory_estimate"]), message)
            run(*arguments, "--memory", out["memory_estimate"])
        # Refused before anything grows with the square of the atoms.
        lattice = self.write("argon.xyz", "600\n\n" + "".join(f"Ar {4 * (i % 10)} {4 * (i // 10 % 10)} {4 * (i // 100)}\n" for i in range(600)))
        start = time.time()
        self.assertIn("smallest that works", run("energy", lattice, "--basis", "cc-pvdz", "--memory", "256MiB", "--quiet", code=3).stderr)
        self.assertLess(time.time() - start, 5)

    def test_a_broken_checkpoint_is_refused_and_stays(self):
        file, water = self.folder / "t.h5", self.MOLECULES / "h2o.xyz"
        common = ["energy", water, "--basis", "sto-3g", "--method", "ccsd", "--quiet", "--checkpoint", file]
        run(*common, "--converge", "1e-3")
        good = file.read_bytes()
        middle = len(good) - 40  # amplitudes are last
        for broken in (good[: len(good) // 2], good[:-1], good[:100], b"", b"not a checkpoint", good[:middle] + bytes([good[middle] ^ 0x40]) + good[middle + 1 :], bytes(8) + good[8:]):
            file.write_bytes(broken)
            done = run(*common, "--json", code=2)
            self.assertIn(str(file), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(file.read_bytes(), broken)
        file.write_bytes(good)
        run(*common)

    def test_checkpoint(self):
        file = self.folder / "t.h5"
        common = ["energy", self.MOLECULES / "h2o.xyz", "--basis", "sto-3g", "--method", "ccsd", "--json", "--quiet", "--checkpoint", file]
        first = json.loads(run(*common, "--converge", "1e-4").stdout)
        second = json.loads(run(*common).stdout)
        third = json.loads(run(*common[:-2]).stdout)
        self.assertLess(second["iterations"], third["iterations"])
        self.assertAlmostEqual(second["ccsd"], third["ccsd"], 7)
        self.assertNotEqual(first["ccsd"], second["ccsd"])
        # What does not belong to the calculation is told before it begins: no line of progress.
        moved = self.write("moved.xyz", (self.MOLECULES / "h2o.xyz").read_text().replace("0.11", "0.31", 1))
        self.assertNotEqual(moved.read_text(), (self.MOLECULES / "h2o.xyz").read_text())
        for molecule, more, word in [
            (self.MOLECULES / "h2o.xyz", ["--frozen-core"], "(1)"),
            (self.MOLECULES / "h2o.xyz", ["--charge", 2], "4, 3 (0)"),
            (self.MOLECULES / "ch4.xyz", [], "this calculation has 9"),
            (moved, [], "another geometry"),
        ]:
            before = file.read_bytes()
            done = run("energy", molecule, "--basis", "sto-3g", "--method", "ccsd", "--checkpoint", file, *more, code=2)
            self.assertIn(word, done.stderr)
            self.assertNotIn("RHF", done.stdout)
            self.assertEqual(file.read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
