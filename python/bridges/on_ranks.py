"""What test_ranks.py starts on one rank and on several: the same must come out. usage: on_ranks.py FOLDER"""
import pathlib
import re
import sys

import numpy as np
from mpi4py import MPI

import tessera as ts

world = MPI.COMM_WORLD
folder = pathlib.Path(sys.argv[1])
tilings = [[6, 6, 4], [8, 5, 3, 8], [7, 2, 9]]
shown = []

# Made on ranks: random, of an array, of blocks that each rank has some of, dealt, loaded.
t = ts.Tensor.random(tilings, [(p, q, r) for p, q, r in np.ndindex(3, 4, 3) if (p + q + r) % 3], seed=1, comm=world)
whole = ts.Tensor.random(tilings, [tuple(c) for c in t.coords], seed=1)
assert t.ranks == world.size and whole.ranks == 1 and t.checksum == whole.checksum
dense = whole.to_numpy()
mine = range(world.rank, len(whole.blocks), world.size)
made = [ts.Tensor.from_dense(dense, tilings, comm=world), whole.on(world), t.on(world),
        ts.Tensor.from_blocks(tilings, whole.coords[list(mine)], [whole.blocks[i] for i in mine], comm=world),
        ts.Tensor.from_blocks(tilings, whole.coords, whole.blocks, comm=world)]
for x in made:
    assert x.equals(t) and x.ranks == world.size
assert np.array_equal(t.to_numpy(), dense)
none = ts.Tensor.from_blocks(tilings, [], [], dtype="f4", comm=world)
assert none.dtype == np.float32 and none.density == 0

# Every block is on one rank, and a rank says whose it is.
have = world.allgather([block is not None for block in t.blocks])
assert (np.sum(have, axis=0) == 1).all()
for at, block in zip(t.coords, t.blocks):
    if block is None:
        try:
            t.tile(*at)
            raise SystemExit("a tile of another rank")
        except ts.UserError as error:
            assert f"tile {tuple(at.tolist())} is stored by rank" in str(error)
    else:
        assert np.array_equal(block, whole.tile(*at)) and np.array_equal(block, t.tile(at))
for root in (0, world.size - 1):
    there = t.gather(root)
    assert there.ranks == 1 and (there.equals(whole) if world.rank == root else there.density == 0)

# Contractions: operands on ranks, whole on every rank, or made there.
v = ts.Tensor.random([tilings[1], tilings[2], [5, 6]], seed=2, comm=world)
r, report = ts.contract("pcd,cdx->px", t, v)
assert report.ranks == world.size and r.ranks == world.size
np.testing.assert_allclose(r.to_numpy(), np.einsum("pcd,cdx->px", dense, v.to_numpy()))
again, _ = ts.contract("pcd,cdx->px", whole, v, comm=world)
assert again.equals(r)


def fill(info, out):
    out[...] = np.arange(out.size).reshape(out.shape) + info.begin[0]


g = ts.generated(v.tilings, None, 1e6, fill)
shown += [t, r, ts.contract("pcd,cdx->px", whole, g, comm=world, threads=1)[0], ts.einsum("pcd,qcd->pq", t, t),
          ts.einsum("pcd,cdx,qx->pq", t, v, r), ts.einsum("pcd->dp", t), t * 2 - t, t.transpose((2, 0, 1)),
          ts.contract("pcd,cdx->px", t, v, filter=3.0)[0]]
p = ts.plan("pcd,cdx->px", t, v, memory="1GiB")
assert p(t, v).equals(r) and "ranks" in p.explain() or world.size == 1
ts.contract("pcd,cdx->px", t, v, out=r, beta=-1)
assert r.norm() == 0
numbers = [ts.norm(t), ts.dot(t, t), ts.trace(ts.einsum("pcd,qcd->pq", t, t))]

# Files are those of one rank.
t.save(folder / f"{world.size}.h5")
assert ts.load(folder / f"{world.size}.h5", comm=world).equals(t)

# A communicator of some of the ranks, and a duplicate.
half = world.Split(world.rank % 2)
assert ts.Tensor.random(tilings, seed=3, comm=half).ranks == half.size
other = world.Dup()
moved = whole.on(other)
for call, message in ((lambda: t.on(other), "another communicator"), (lambda: t + moved, "communicator"),
                      (lambda: ts.contract("pcd,qcd->pq", t, moved), "communicator|ranks"),
                      (lambda: ts.contract("pcd,cdx->px", t, v, comm=world, out=whole, beta=1), "communicator"),
                      (lambda: t.gather(world.size), "root")):
    try:
        call()
        assert world.size == 1, message
    except ts.UserError as error:
        assert re.search(message, str(error)), error

# What one rank does wrong, all are told.
for bad in ((0, 0, 0), np.ones((1, 1, 1))), ((0, 0, 0), np.full((6, 8, 7), np.nan)):
    try:
        last = world.rank == world.size - 1
        ts.Tensor.from_blocks(tilings, [bad[0]] if last else [], [bad[1]] if last else [], comm=world)
        raise SystemExit("a wrong block was taken")
    except ts.UserError as error:
        assert "(0, 0, 0)" in str(error), error

sums = [x.checksum for x in shown]  # collective
if world.rank == 0:
    print(*sums, *numbers)
