#!/usr/bin/env python3
"""What calls of the Python module cost, beside NumPy's and symmray's own, in one run.

calls     einsum of two 16x16 arrays; the contraction of 85 blocks of `tessera bench latency`, planned anew and by kept plans
symmray   U(1) arrays of rank 4 with 85 blocks, contracted over two indices: symmray with NumPy, and through Tessera

usage: python_calls.py [calls] [symmray] [--threads N] [--json FILE]
"""
import argparse
import itertools
import json
import os
import platform
import sys
import time


def microseconds(call, repeats):
    """Median of single calls, after a few that warm up."""
    times = []
    for n in range(-min(repeats, 50), repeats):
        start = time.perf_counter()
        call()
        if n >= 0:
            times.append(time.perf_counter() - start)
    return 1e6 * sorted(times)[len(times) // 2]


def in_turn(calls, repeats):
    """Microseconds of each of several calls, made in turn so that all meet the same machine."""
    times = [[] for _ in calls]
    for n in range(-min(repeats, 5), repeats):
        for kept, call in zip(times, calls):
            start = time.perf_counter()
            call()
            if n >= 0:
                kept.append(time.perf_counter() - start)
    return [1e6 * sorted(kept)[len(kept) // 2] for kept in times]


def in_rounds(calls, repeats, rounds=5):
    """Likewise, some calls of each in a row, after a pause: the threads of the other one spin for a while, each on a core."""
    times = [[] for _ in calls]
    for _ in range(rounds):
        for kept, call in zip(times, calls):
            time.sleep(0.3)
            for n in range(-2, repeats):
                start = time.perf_counter()
                call()
                if n >= 0:
                    kept.append(time.perf_counter() - start)
    return [1e6 * sorted(kept)[len(kept) // 2] for kept in times]


def calls(threads):
    a, b = np.ones((16, 16)), np.ones((16, 16))
    spec = "ij,jk->ik"
    einsum, numpy_einsum, matmul = in_turn([lambda: ts.einsum(spec, a, b, threads=threads),
                                            lambda: np.einsum(spec, a, b, optimize=True), lambda: a @ b], 5000)
    print(f"einsum of two 16x16 arrays: {einsum:.1f} us   (NumPy's einsum, optimize=True: {numpy_einsum:.1f} us, "
          f"a @ b: {matmul:.1f} us)")
    rows = {"einsum_16x16": einsum, "numpy_einsum_16x16": numpy_einsum, "numpy_matmul_16x16": matmul}
    places = [(i, j, k, i + j - k) for i, j, k in itertools.product(range(5), repeat=3) if 0 <= i + j - k < 5]
    for extent in (2, 4):
        x, y = (ts.Tensor.random([[extent] * 5] * 4, places, seed=seed) for seed in (1, 2))
        spec = "ijkl,klmn->ijmn"
        plan = ts.plan(spec, x, y, threads=threads)
        seen = itertools.count(1)  # each call has a factor of its own, so none has been planned before
        first, found, kept = in_turn([
            lambda: ts.contract(spec, x, y, threads=threads, alpha=1 + next(seen) * 2.0**-30),
            lambda: ts.contract(spec, x, y, threads=threads), lambda: plan(x, y)], 1000)
        print(f"{len(places)} blocks, extents of {extent}, {plan.products} products: {first:.1f} us at first sight, "
              f"{found:.1f} us when the plan is found, {kept:.1f} us by a plan in hand")
        rows[f"blocks_{extent}"] = {"first_sight": first, "found": found, "plan": kept}
    return rows


def with_symmray(threads):
    import symmray
    import tessera.symmray

    rows = {}
    print(f"symmray {symmray.__version__}, U(1), rank 4, 85 blocks, over two indices: milliseconds a call")
    print("      D    symmray    Tessera    times faster    largest difference")
    for extent in (10, 20, 40, 80):
        def array(seed, duals):
            sizes = {charge: extent // 5 for charge in range(-2, 3)}
            return symmray.U1Array.random(tuple(symmray.BlockIndex(sizes, dual=d) for d in duals), charge=0, seed=seed)

        x, y = array(1, (False, False, True, True)), array(2, (False, False, True, True))
        axes = ((2, 3), (0, 1))
        results = {}

        def own():
            results["own"] = symmray.tensordot(x, y, axes)

        def hooked():
            tessera.symmray.enable(threads=threads)
            try:
                results["hooked"] = symmray.tensordot(x, y, axes)
            finally:
                tessera.symmray.disable()

        plain, ours = in_rounds([own, hooked], {10: 100, 20: 50, 40: 20, 80: 3}[extent])
        got, expected = results["hooked"].blocks, results["own"].blocks
        assert set(got) == set(expected)
        difference = max(float(abs(got[s] - expected[s]).max()) for s in expected)
        print(f"  {extent:5d}  {plain / 1e3:9.3f}  {ours / 1e3:9.3f}    {plain / ours:12.2f}    {difference:.1e}")
        rows[f"D={extent}"] = {"blocks": x.num_blocks, "symmray_ms": plain / 1e3, "tessera_ms": ours / 1e3,
                               "times_faster": plain / ours}
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["calls", "symmray"], metavar="calls|symmray")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    if given.threads:  # of NumPy's BLAS too
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ[name] = str(given.threads)
    import numpy as np

    import tessera as ts

    known = {"calls": calls, "symmray": with_symmray}
    if wrong := [w for w in given.what if w not in known]:
        sys.exit(f"python_calls: {wrong[0]!r} is neither calls nor symmray")
    out = {"python": platform.python_version(), "numpy": np.__version__, "tessera": ts.__version__}
    for what in given.what:
        out[what] = known[what](given.threads)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(out, file, indent=1)
            file.write("\n")
