#!/usr/bin/env python3
"""The command line as scripts use it: exit codes, JSON fields, nothing lost on bad input; einsum against NumPy."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments, code=0, cwd=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=300)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
    return done


class Run(unittest.TestCase):
    FIELDS = """spec flops products seconds gflops gemm_gflops fraction_of_gemm density bytes peak_bytes generated_tiles
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
                generated.add(out["generated_tiles"])
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
            (["run", "blocks:4,8,0.5", "--memory", "100B"], 3, "smallest"),
            (["bench", "triples", "--size", "Z"], 2, "Z"),
            (["bench", "grouped"], 2, "--device"),
            (["run"], 2, "problem"),
            (["fly"], 2, ""),
            ([], 2, ""),
        ]:
            done = run(*arguments, code=code)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_help_has_an_example(self):
        for command in (["info"], ["contract"], ["run"], ["show"], ["bench"], ["bench", "grouped"], ["bench", "sparse"], ["bench", "transpose"], ["bench", "triples"]):
            self.assertIn("Example: tessera " + command[0], run(*command, "--help").stdout)
        run("--version")
        info = json.loads(run("info", "--json").stdout)
        self.assertIn("cpu", info)


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

    def test_alpha_beta_conjugation_and_one_operand(self):
        a, b = self.save("A.npy", (6, 5), "c16"), self.save("B.npy", (5, 4), "c16")
        run("contract", "ik,kj->ij", "--a", "A.npy", "--b", "B.npy", "--tile", 2, "--out", "C.h5", cwd=self.folder)
        run("contract", "ik,kj->ij", "--a", "A.npy", "--b", "B.npy", "--tile", 2, "--out", "C.h5", "--conjugate-a", "--alpha", -2,
            "--beta", 0.5, cwd=self.folder)
        run("contract", "ij->ji", "--a", "C.h5", "--out", "D.npy", cwd=self.folder)
        got = self.np.load(self.folder / "D.npy")
        self.assertLess(self.np.abs(got - (-2 * a.conj() @ b + 0.5 * a @ b).T).max(), 1e-12)

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
            (["ik,kj->ij", "--a", "nan.npy", "--b", "A.npy"], ["NaN"]),
            (["ik,kj-ij", "--a", "A.npy", "--b", "A.npy"], ["->"]),
            (["ik,kj->ij", "--a", "A.npy"], ["--b"]),
            (["ik,kj->ij", "--a", "A.npy", "--b", "A.npy", "--beta", "1"], ["C.h5"]),
        ]:
            done = run("contract", *arguments, "--out", "C.h5", code=2, cwd=self.folder)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertEqual(out.read_bytes(), old)
        self.assertEqual(before, sorted(p.name for p in self.folder.iterdir()))
        run("contract", "ik,kj->ij", "--a", "A.npy", "--b", "A.npy", "--out", "no/such/folder/C.h5", code=2, cwd=self.folder)


if __name__ == "__main__":
    unittest.main()
