#!/usr/bin/env python3
"""DMRG of the Heisenberg chain with conserved spin: quimb's tensors, symmray's blocks, contracted by NumPy or by Tessera.

usage: dmrg.py [--sites 32] [--bond 128] [--sweeps 4] [--threads N] [--only numpy|tessera] [--json]

Both ways do the same calculation and print the same energy; `seconds` are those of the last sweep, at the full bond
dimension. Needs quimb and symmray.
"""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--sites", type=int, default=32)
parser.add_argument("--bond", type=int, default=128, help="states kept at each bond")
parser.add_argument("--sweeps", type=int, default=4)
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--only", choices=["numpy", "tessera"])
parser.add_argument("--json", action="store_true")
options = parser.parse_args()
if options.sites < 2 or options.sites % 2:
    parser.error(f"--sites {options.sites}: an even number from 2 on is needed")
if options.bond < 1 or options.sweeps < 1:
    parser.error("--bond and --sweeps: at least 1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait busily take cores from NumPy's, which does the SVDs
if options.threads:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # of NumPy's BLAS too
        os.environ[name] = str(options.threads)

import numpy as np  # noqa: E402
import quimb.tensor as qtn  # noqa: E402
from symmray import BlockIndex, U1Array  # noqa: E402

import tessera.symmray  # noqa: E402

SPIN = [0, 1]  # the charges of up and down
UP, Z = np.array([[0.0, 1.0], [0.0, 0.0]]), np.diag([0.5, -0.5])
# States of the operator's bond, with their charges: what has begun, S+ or S- or Sz waiting for its other, all done.
BEGUN, RAISED, LOWERED, MEASURED, DONE = range(5)
OPERATOR_BOND = [0, -1, 1, 0, 0]


def tensor(array, maps, duals, inds):
    return qtn.Tensor(U1Array.from_dense(array, index_maps=maps, duals=duals, invalid_sectors="raise"), inds)


def hamiltonian(n):
    w = np.zeros((5, 5, 2, 2))
    w[BEGUN, BEGUN] = w[DONE, DONE] = np.eye(2)
    w[BEGUN, RAISED], w[RAISED, DONE] = UP / 2, UP.T
    w[BEGUN, LOWERED], w[LOWERED, DONE] = UP.T / 2, UP
    w[BEGUN, MEASURED] = w[MEASURED, DONE] = Z
    return [tensor(w, [OPERATOR_BOND] * 2 + [SPIN] * 2, (False, True, False, True), (f"w{i}", f"w{i + 1}", f"b{i}", f"k{i}"))
            for i in range(n)]


def neel_state(n):
    charges = np.cumsum([0] + [i % 2 for i in range(n)]).tolist()
    return [tensor(np.eye(2)[i % 2].reshape(1, 1, 2), [[charges[i]], [charges[i + 1]], SPIN], (False, True, False),
                   (f"x{i}", f"x{i + 1}", f"k{i}")) for i in range(n)]


def ends(n):
    left, right = np.zeros((1, 5, 1)), np.zeros((1, 5, 1))
    left[0, BEGUN], right[0, DONE] = 1, 1
    total = n // 2
    return (tensor(left, [[0], OPERATOR_BOND, [0]], (True, True, False), ("x0", "w0", "y0")),
            tensor(right, [[total], OPERATOR_BOND, [total]], (False, False, True), (f"x{n}", f"w{n}", f"y{n}")))


def bra(site):
    return site.conj().reindex({ind: ind.replace("x", "y").replace("k", "b") for ind in site.inds})


def product(*tensors):
    """From left to right."""
    out = tensors[0]
    for t in tensors[1:]:
        out = qtn.tensor_contract(out, t, preserve_tensor=True)
    return out


def with_room(x, *others):
    """The same with all charges that its indices have among the others: those of which it has no block are left out of it."""
    kept = {f"k{n}": BlockIndex({0: 1, 1: 1}) for n in range(options.sites)}
    kept.update((ind, index) for t in others for ind, index in zip(t.inds, t.data.indices) if ind[0] == "x")
    indices = [BlockIndex(dict(kept[ind].chargemap), dual=index.dual) for ind, index in zip(x.inds, x.data.indices)]
    x.modify(data=x.data.copy_with(indices=tuple(indices)))
    return x


def lowest(apply, start, steps=3):
    """Lanczos: the lowest state in the space of start, H start, ..."""
    basis, alpha, beta = [start / start.norm()], [], []
    for _ in range(steps):
        following = apply(basis[-1])
        alpha.append(float((basis[-1].conj() | following).contract().real))
        following = following + basis[-1] * -alpha[-1]
        if len(basis) > 1:
            following = following + basis[-2] * -beta[-1]
        beta.append(float(following.norm()))
        if beta[-1] < 1e-10:
            break
        basis.append(following / beta[-1])
    energies, states = np.linalg.eigh(np.diag(alpha) + np.diag(beta[: len(alpha) - 1], 1) + np.diag(beta[: len(alpha) - 1], -1))
    best = basis[0] * states[0, 0]
    for weight, vector in zip(states[1:, 0], basis[1:]):
        best = best + vector * weight
    return energies[0], best


def run(n, bond, sweeps):
    operators, state = hamiltonian(n), neel_state(n)
    left, right = [None] * (n + 1), [None] * (n + 1)
    left[0], right[n] = ends(n)
    for i in range(n - 1, 1, -1):
        right[i] = product(right[i + 1], state[i], operators[i], bra(state[i]))
    seconds = []
    for _ in range(sweeps):
        start = time.perf_counter()
        for i, forth in [(i, True) for i in range(n - 1)] + [(i, False) for i in range(n - 2, -1, -1)]:
            guess = with_room(product(state[i], state[i + 1]), left[i], right[i + 2])
            names = {f"b{i}": f"k{i}", f"b{i + 1}": f"k{i + 1}", f"y{i}": f"x{i}", f"y{i + 2}": f"x{i + 2}"}

            def apply(x):
                y = product(left[i], x, operators[i], operators[i + 1], right[i + 2])
                return with_room(y.reindex(names).transpose(*guess.inds), left[i], right[i + 2])

            energy, best = lowest(apply, guess)
            state[i], state[i + 1] = best.split([f"x{i}", f"k{i}"], max_bond=bond, cutoff=1e-12, bond_ind=f"x{i + 1}",
                                                absorb="right" if forth else "left", get="tensors")
            state[i] = state[i].transpose(f"x{i}", f"x{i + 1}", f"k{i}")
            state[i + 1] = state[i + 1].transpose(f"x{i + 1}", f"x{i + 2}", f"k{i + 1}")
            if forth:
                left[i + 1] = product(left[i], state[i], operators[i], bra(state[i]))
            else:
                right[i + 1] = product(right[i + 2], state[i + 1], operators[i + 1], bra(state[i + 1]))
        seconds.append(time.perf_counter() - start)
    return energy, seconds[-1], max(t.shape[1] for t in state)


out = {"sites": options.sites, "bond": options.bond}
for way in [options.only] if options.only else ["numpy", "tessera"]:
    if way == "tessera":
        tessera.symmray.enable(threads=options.threads)
    energy, seconds, reached = run(options.sites, options.bond, options.sweeps)
    tessera.symmray.disable()
    out[way] = {"energy": energy, "seconds": seconds, "bond": reached}
    if not options.json:
        print(f"{way:>8}: energy {energy:.10f}, bond dimension {reached}, last sweep {seconds:.2f} s", flush=True)
if options.only is None:
    out["faster"] = out["numpy"]["seconds"] / out["tessera"]["seconds"]
    if not options.json:
        print(f"{out['faster']:.2f} times faster by Tessera")
if options.json:
    print(json.dumps(out, indent=1))
