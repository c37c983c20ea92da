#!/usr/bin/env python3
"""NumPy as a peer of `tessera bench transpose` and `bench triples`: times its way of doing the same, prints JSON.

numpy_peer triples K,J,I,C,B,A SUM         the eighteen terms by einsum, which calls BLAS and transposes
numpy_peer transpose EXTENTS PERMUTATION REPEATS [EXTENTS PERMUTATION REPEATS ...]
"""
import json
import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
SYSTEM = "/usr/bin/python3"  # has the packages of the distribution, whatever python3 is first in the path
try:
    import numpy as np  # reads the variable when it is loaded
except ImportError:
    if sys.executable != SYSTEM and os.access(SYSTEM, os.X_OK):
        os.execv(SYSTEM, [SYSTEM] + sys.argv)
    sys.exit("numpy_peer: no NumPy for " + sys.executable)

SD1 = "-labi kjcl,+labj kicl,-labk jicl,-lbci kjal,+lbcj kial,-lbck jial,+laci kjbl,-lacj kibl,+lack jibl"
SD2 = "-daij dkcb,-dajk dicb,+daik djcb,+dbij dkca,+dbjk dica,-dbik djca,-dcij dkba,-dcjk diba,+dcik djba"


def numbers(text):
    return [int(x) for x in text.split(",")]


def best(repeats, work):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def triples(extents, summed):
    size = dict(zip("kjicba", extents), l=summed, d=summed)
    rng = np.random.default_rng(1)
    terms = []
    for text in (SD1 + "," + SD2).split(","):
        a, b = (x[::-1] for x in text[1:].split())  # NumPy's last index is the fastest
        sign = -1.0 if text[0] == "-" else 1.0
        terms.append((sign, a, rng.random([size[x] for x in a]), b, rng.random([size[x] for x in b])))
    t3 = np.zeros([size[x] for x in "abcijk"])

    def work():
        t3.fill(0)
        for sign, a, x, b, y in terms:
            t3.__iadd__(np.einsum(f"{a},{b}->abcijk", x * sign, y, optimize=True))

    seconds = best(2, work)
    error = scale = 0.0
    for _ in range(100):
        at = {x: rng.integers(size[x]) for x in "abcijk"}
        want = sum(sign * (x[tuple(at.get(l, slice(None)) for l in a)] @ y[tuple(at.get(l, slice(None)) for l in b)])
                   for sign, a, x, b, y in terms)
        error = max(error, abs(t3[tuple(at[x] for x in "abcijk")] - want))
        scale = max(scale, abs(want))
    print(json.dumps({"seconds": seconds, "gflops": 2e-9 * 18 * summed * t3.size / seconds,
                      "max_relative_error": error / scale}))


def transpose(cases):
    seconds = []
    for extents, permutation, repeats in zip(*[iter(cases)] * 3):
        source = np.ones(numbers(extents))
        view = source.transpose(numbers(permutation))
        target = np.zeros(view.shape)
        seconds.append(best(int(repeats), lambda: np.copyto(target, view)))
    print(json.dumps({"seconds": seconds, "gflops": 0}))


if len(sys.argv) >= 4 and sys.argv[1] == "triples":
    triples(numbers(sys.argv[2]), int(sys.argv[3]))
elif len(sys.argv) >= 5 and sys.argv[1] == "transpose":
    transpose(sys.argv[2:])
else:
    sys.exit(__doc__)
