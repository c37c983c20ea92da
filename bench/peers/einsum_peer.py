#!/usr/bin/env python3
"""NumPy, TBLIS (pytblis) and PyTorch as peers of `tessera bench contractions`, asked line by line, so that all are timed in turn.

TBLIS and NumPy's OpenBLAS choose kernels by processors that they know, and slow ones where they know none: here they get the
fastest ones that a short product finds, of no more than the instruction set PEER_ISA (avx512, avx2).

The first line says which peers are here. Then a line {"spec", "extents": {label: n}, "type"} makes the operands, and a line
{"time": peer, "seconds": s, "into": true|false} times calls for about so long: the answer has seconds for one call.
"""
import json
import os
import subprocess
import sys
import time

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)

PROBE = """
import sys, time
import numpy as np
a = np.random.default_rng(1).random((1000, 1000))
work = lambda: a @ a
if sys.argv[1] == "BLIS_ARCH_TYPE":
    import pytblis
    pytblis.set_num_threads(1)
    work = lambda: pytblis.contract("ik,kj->ij", a, a)
work()
times = []
for _ in range(5):
    start = time.perf_counter()
    work()
    times.append(time.perf_counter() - start)
print(min(times))
"""


def choose_kernels(variable, of):
    """Sets the variable to the fastest of the library's names of kernels, or leaves it alone."""
    if variable in os.environ:
        return
    wanted = of["avx2"] if os.environ.get("PEER_ISA") == "avx2" else [""] + of["avx2"] + of["avx512"]
    took = {}
    for name in wanted:
        env = dict(os.environ, OPENBLAS_NUM_THREADS="1", **({variable: name} if name else {}))
        ran = subprocess.run([sys.executable, "-c", PROBE, variable], env=env, capture_output=True, text=True)
        if ran.returncode == 0:
            took[name] = float(ran.stdout)
    best = min(took, key=took.get, default="")
    if best:
        os.environ[variable] = best


choose_kernels("OPENBLAS_CORETYPE", {"avx2": ["Haswell", "Zen"], "avx512": ["SkylakeX"]})
choose_kernels("BLIS_ARCH_TYPE", {"avx2": ["haswell", "zen2"], "avx512": ["skx"]})
try:
    import numpy as np
except ImportError:
    print(json.dumps({"missing": "no NumPy for " + sys.executable}), flush=True)
    sys.exit(0)

peers = {"numpy": f"NumPy {np.__version__}, OpenBLAS kernels {os.environ.get('OPENBLAS_CORETYPE', 'of its choice')}"}
try:
    import pytblis
    from importlib.metadata import version
    pytblis.set_num_threads(THREADS)
    peers["tblis"] = f"TBLIS (pytblis {version('pytblis')}, kernels {os.environ.get('BLIS_ARCH_TYPE', 'of its choice')})"
except ImportError:
    pass
try:
    import torch
    torch.set_num_threads(THREADS)
    peers["torch"] = "PyTorch " + torch.__version__
except ImportError:
    pass
print(json.dumps({"peers": peers}), flush=True)


def call(peer, spec, a, b, out):
    """One contraction; into `out` where it is given. A new result has its indices in the order of the spec, as ours has."""
    if peer == "numpy":
        return np.einsum(spec, a, b, optimize=True, order="C") if out is None else np.einsum(spec, a, b, optimize=True, out=out)
    if peer == "tblis":
        return pytblis.contract(spec, a, b) if out is None else pytblis.contract(spec, a, b, out=out)
    return torch.einsum(spec, ta, tb).contiguous()


def timed(work, wanted):
    """Seconds of one call: first calls for about so long that do not count, while threads find their cores, then as many
    that do."""
    calls, start = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() < start + wanted:
        work()
        calls += 1
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


a = b = c = ta = tb = None
spec = ""
for line in sys.stdin:
    ask = json.loads(line)
    if "spec" in ask:
        spec = ask["spec"]
        left, right = spec.split("->")
        x, y = left.split(",")
        size = ask["extents"]
        rng = np.random.default_rng(1)

        def make(labels):
            shape = [size[l] for l in labels]
            if ask["type"].startswith("complex"):
                return (rng.random(shape) + 1j * rng.random(shape)).astype(ask["type"])
            return rng.random(shape).astype(ask["type"])

        a, b = make(x), make(y)
        c = np.zeros([size[l] for l in right], dtype=ask["type"])
        if "torch" in peers:
            ta, tb = torch.from_numpy(a), torch.from_numpy(b)
        print(json.dumps({"ready": True}), flush=True)
        continue
    peer = ask["time"]
    try:
        seconds = timed(lambda: call(peer, spec, a, b, c if ask["into"] else None), ask["seconds"])
        time.sleep(0.15 if peer == "numpy" else 0.03)  # until its threads no longer spin: OpenBLAS's do for a tenth of a second
        print(json.dumps({"seconds": seconds}), flush=True)
    except Exception as e:  # a peer that cannot do this one is left out of it
        print(json.dumps({"error": str(e)}), flush=True)
