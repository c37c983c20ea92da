#!/usr/bin/env python3
"""NumPy, TBLIS (pytblis) and PyTorch as peers of `tessera bench contractions`, asked line by line, so that all are timed in turn.

The first line says which peers are here. Then a line {"spec", "extents": {label: n}, "type"} makes the operands, and a line
{"time": peer, "seconds": s, "into": true|false} times calls for about so long: the answer has seconds for one call.
"""
import json
import os
import sys
import time

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)
try:
    import numpy as np
except ImportError:
    print(json.dumps({"missing": "no NumPy for " + sys.executable}), flush=True)
    sys.exit(0)

peers = {"numpy": "NumPy " + np.__version__}
try:
    import pytblis
    from importlib.metadata import version
    pytblis.set_num_threads(THREADS)
    peers["tblis"] = "TBLIS (pytblis " + version("pytblis") + ")"
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
    """One contraction; into `out` where it is given."""
    if peer == "numpy":
        return np.einsum(spec, a, b, optimize=True) if out is None else np.einsum(spec, a, b, optimize=True, out=out)
    if peer == "tblis":
        return pytblis.contract(spec, a, b) if out is None else pytblis.contract(spec, a, b, out=out)
    return torch.einsum(spec, ta, tb)


def timed(work, wanted):
    start = time.perf_counter()
    work()
    once = max(time.perf_counter() - start, 1e-7)
    calls = max(1, int(wanted / once))
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
        print(json.dumps({"seconds": seconds}), flush=True)
    except Exception as e:  # a peer that cannot do this one is left out of it
        print(json.dumps({"error": str(e)}), flush=True)
