"""Block-sparse tensors: made, read, contracted, saved; all against dense NumPy arrays."""
import pickle

import numpy as np
import pytest
from helpers import DTYPES, Random

import tessera as ts


def random_tilings(r, extents):
    """Each extent cut at random."""
    out = []
    for n in extents:
        cuts = sorted({0, n, *[r.integer(0, n) for _ in range(r.integer(0, 3))]})
        out.append([b - a for a, b in zip(cuts, cuts[1:])])
    return out


def random_tensor(r, tilings, dtype, share=0.6):
    coords = [c for c in np.ndindex(*[len(t) for t in tilings]) if r.chance(share)]
    blocks = [r.strided([t[i] for t, i in zip(tilings, c)], dtype) for c in coords]
    order = r.rng.permutation(len(coords))
    return ts.Tensor.from_blocks(tilings, [coords[i] for i in order], [blocks[i] for i in order], dtype=dtype)


def close(x, y, dtype):
    np.testing.assert_allclose(x, y, atol=3e3 * np.finfo(dtype).eps)


def test_blocks_are_what_was_given(dtype):
    for case in range(30):
        r = Random(case)
        tilings = random_tilings(r, [r.integer(0, 7) for _ in range(r.integer(0, 4))])
        t = random_tensor(r, tilings, dtype)
        dense = t.to_numpy()
        assert dense.shape == t.shape and dense.dtype == t.dtype == dtype
        assert t.tilings == tilings and t.coords.shape == (len(t.blocks), t.ndim)
        again = np.zeros_like(dense)
        for at, block, norm in zip(t.coords, t.blocks, t.norms):
            place = tuple(slice(sum(s[:i]), sum(s[: i + 1])) for s, i in zip(tilings, at))
            again[place] = block
            assert np.array_equal(block, t.tile(*at)) and not block.flags.writeable
            assert norm == pytest.approx(np.linalg.norm(block.astype("c16")), rel=1e-5)
        assert np.array_equal(again, dense)
        assert ts.Tensor.from_blocks(t.tilings, t.coords, t.blocks, dtype=dtype).equals(t)
        assert pickle.loads(pickle.dumps(t)).checksum == t.checksum
        out = np.ones(t.shape[::-1], dtype).T
        assert np.array_equal(t.to_numpy(out=out), dense)


def test_from_dense(random, dtype):
    x = random.strided((7, 9, 5), dtype)
    for tile in ("auto", 3, [[7], [4, 5], [2, 2, 1]]):
        t = ts.Tensor.from_dense(x, tile)
        assert np.array_equal(t.to_numpy(), x)
    sparse = np.zeros((6, 6), dtype)
    sparse[4, 1] = 2
    t = ts.Tensor.from_dense(sparse, 2)
    assert t.coords.tolist() == [[2, 0]] and t.density == pytest.approx(4 / 36)
    assert np.array_equal(t.tile(2, 0), [[0, 2], [0, 0]]) and np.array_equal(t.tile((0, 0)), np.zeros((2, 2)))
    assert ts.Tensor.from_dense(sparse, 2, drop=3).density == 0


SPECS = ["ij,jk->ik", "ijk,kjl->il", "bij,bjk->bik", "ij,kl->ikjl", "iij,jk->ik", "ij,jk->i", "ij,ij->", "ijk,lk->ijl"]


@pytest.mark.parametrize("spec", SPECS)
def test_contractions(spec, dtype):
    for case in range(8):
        r = Random(case)
        labels = {c: random_tilings(r, [r.integer(1, 8)])[0] for c in sorted(set(spec) - set(",->"))}
        one, other = spec.split("->")[0].split(",")
        a, b = (random_tensor(r, [labels[c] for c in x], dtype) for x in (one, other))
        expected = np.einsum(spec, a.to_numpy(), b.to_numpy())
        result, report = ts.contract(spec, a, b)
        close(result.to_numpy(), expected, dtype)
        assert ts.einsum(spec, a, b).equals(result)
        assert report.execute_seconds >= 0 and report.threads >= 1
        alone = set(one) ^ set(other) - set(spec.split("->")[1])
        if len(set(one)) == len(one) and not {c for c in alone if c not in spec.split("->")[1]}:
            p = ts.plan(spec, a, b)
            assert p(a, b).equals(result)
        before = result.checksum
        c = ts.Tensor.from_blocks(result.tilings, result.coords, result.blocks, dtype=dtype)
        view = c.blocks[0].copy() if c.blocks else None
        kept = c.blocks
        same, _ = ts.contract(spec, a, b, out=c, alpha=2, beta=-0.5)
        assert same is c
        close(c.to_numpy(), 1.5 * expected, dtype)
        assert view is None or np.array_equal(kept[0], view)  # a view of what was there stays what it was
        assert result.checksum == before


def test_einsum_of_many_tensors(random, dtype):
    t = {n: random_tilings(random, [n])[0] for n in (4, 5, 6, 7)}
    a, b, c = (random_tensor(random, [t[m], t[n]], dtype) for m, n in ((4, 5), (5, 6), (6, 7)))
    dense = [x.to_numpy() for x in (a, b, c)]
    close(ts.einsum("ij,jk,kl->il", a, b, c).to_numpy(), dense[0] @ dense[1] @ dense[2], dtype)
    close(ts.einsum("ij,jk,kl", a, b, c).to_numpy(), dense[0] @ dense[1] @ dense[2], dtype)
    close(ts.tensordot(a, b, 1).to_numpy(), dense[0] @ dense[1], dtype)
    close(ts.tensordot(a, b, ([1], [0])).to_numpy(), dense[0] @ dense[1], dtype)
    assert np.array_equal(ts.transpose(a).to_numpy(), dense[0].T)
    assert np.array_equal(a.transpose((1, 0)).to_numpy(), dense[0].T)
    close(ts.einsum("ij->j", a).to_numpy(), dense[0].sum(0), dtype)


def chain(random, dtype="f8"):
    t = {n: random_tilings(random, [n])[0] for n in (4, 5, 6, 7)}
    return [random_tensor(random, [t[m], t[n]], dtype) for m, n in ((4, 5), (5, 6), (6, 7))]


def test_contractions_of_many(random, dtype):
    operands = chain(random, dtype)
    a, b, c = (x.to_numpy() for x in operands)
    r, report = ts.contract("ij,jk,kl->li", *operands, alpha=2)
    close(r.to_numpy(), 2 * (a @ b @ c).T, dtype)
    assert len(report.steps) == 2 and report.products == sum(s.products for s in report.steps)
    p = ts.plan("ij,jk,kl->li", *operands, alpha=2)
    assert p(*operands).equals(r) and len(p.steps) == 2 and p.products == report.products
    assert sum(s.simulate().seconds for s in p.steps) > 0 and "step 2" in p._repr_html_()
    before = r.to_numpy()
    assert ts.contract("ij,jk,kl->li", *operands, alpha=2, out=r, beta=1)[0] is r
    close(r.to_numpy(), 2 * before, dtype)
    into = ts.plan("ij,jk,kl->li", *operands, out=r, beta=-1)
    into(*operands, out=r)
    close(r.to_numpy(), (a @ b @ c).T - 2 * before, dtype)
    close(ts.contract("ij,jk,kl->il", *operands, conjugate=[True, False, True])[0].to_numpy(),
          a.conj() @ b @ c.conj(), dtype)
    close(ts.contract("ij->ji", operands[0], conjugate=[True])[0].to_numpy(), a.conj().T, dtype)


def test_a_bound_of_many(random):
    operands = chain(random)
    exact = ts.einsum("ij,jk,kl->il", *operands).to_numpy()
    r, report = ts.contract("ij,jk,kl->il", *operands, filter=0.5)
    assert np.linalg.norm(r.to_numpy() - exact) <= report.left_out + 1e-12


def test_algebra(random, dtype):
    tilings = [[2, 3], [4, 1]]
    x, y = random_tensor(random, tilings, dtype), random_tensor(random, tilings, dtype)
    a, b = x.to_numpy(), y.to_numpy()
    close((x + y).to_numpy(), a + b, dtype)
    close((x - y / 2).to_numpy(), a - b / 2, dtype)
    close((-x * 3).to_numpy(), -3 * a, dtype)
    close(ts.dot(x, y), np.vdot(a, b), dtype)
    assert ts.norm(x) == pytest.approx(np.linalg.norm(a), rel=1e-5) == x.norm()
    s = random_tensor(random, [[2, 3]] * 2, dtype)
    close(ts.trace(s), np.trace(s.to_numpy()), dtype)
    assert x.filter(1e3).density == 0
    assert x.astype("complex128").dtype == np.complex128
    if dtype.kind == "c":
        close(ts.contract("ij,ij->", x, y, conjugate=(True, False))[0].to_numpy(), np.vdot(a, b), dtype)


def symmetric(r, dtype, n=20):
    x = r.values((n, n), dtype)
    x = x + x.conj().T
    mask = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) < 8
    return x * mask, [[6, 5, 9], [6, 5, 9]]


def test_functions_of_matrices(random, dtype):
    x, tilings = symmetric(random, dtype)
    x = x + np.diag(np.where(np.arange(20) < 8, -20, 20)).astype(dtype)
    t = ts.Tensor.from_dense(x, tilings)
    values, vectors = np.linalg.eigh(x.astype("c16"))

    def of(f):
        return (vectors * f(values)) @ vectors.conj().T

    wide = 1e5 * float(np.finfo(dtype).eps)
    for got, expected in ((ts.sign(t), of(np.sign)), (ts.sign(t, scaling="lanczos"), of(np.sign)),
                          (ts.inverse(t), of(lambda e: 1 / e)),
                          (ts.exponential(t * 0.05), of(lambda e: np.exp(0.05 * e))),
                          (ts.sqrt_inverse(ts.einsum("ij,jk->ik", t, t)), of(lambda e: 1 / np.abs(e))),
                          (ts.purify(t, 8), of(lambda e: e < 0))):
        matrix, report = got
        assert matrix.dtype == dtype and report.iterations == len(report.residuals) > 0
        np.testing.assert_allclose(matrix.to_numpy(), expected, atol=wide * np.abs(expected).max())
    density, report = ts.purify(t, 8, filter=1e-3)
    assert np.linalg.norm(density.to_numpy() - of(lambda e: e < 0)) <= report.error
    assert values[7] <= report.homo < report.lumo <= values[8]
    s = np.eye(20, dtype=dtype) + 0.02 * symmetric(random, dtype)[0]
    overlap = ts.Tensor.from_dense(s, tilings)
    d = ts.purify(t, 8, overlap)[0].to_numpy()
    np.testing.assert_allclose(d @ s @ d, d, atol=wide)
    assert np.trace(d @ s).real == pytest.approx(8, abs=wide)


def test_random_is_the_same_everywhere():
    t = ts.Tensor.random([[3, 4], [5]], seed=7)
    assert t.checksum == ts.Tensor.random([[3, 4], [5]], seed=7, threads=2).checksum
    assert t.checksum != ts.Tensor.random([[3, 4], [5]], seed=8).checksum
    assert (t.norms <= 1).all()


def test_filter_says_what_it_left_out(random):
    a, b = random_tensor(random, [[4] * 5] * 2, "f8", 0.9), random_tensor(random, [[4] * 5] * 2, "f8", 0.9)
    exact = a.to_numpy() @ b.to_numpy()
    r, report = ts.contract("ij,jk->ik", a, b, filter=12.0)
    assert report.dropped_tiles > 0 and 0 < np.linalg.norm(r.to_numpy() - exact) <= report.left_out


def test_generated(random):
    dense = random.values((9, 8), "f8")
    tilings = [[4, 5], [3, 3, 2]]
    seen = []

    def fill(info, out):
        seen.append(info)
        at = tuple(slice(b, b + n) for b, n in zip(info.begin, info.shape))
        out[...] = dense[at]

    v = ts.generated(tilings, None, 100.0, fill)
    t = random_tensor(random, [[2, 2], [4, 5]], "f8", 1)
    r, report = ts.contract("ij,jk->ik", t, v)
    np.testing.assert_allclose(r.to_numpy(), t.to_numpy() @ dense)
    assert report.made_tiles >= 6 and {i.coords for i in seen} == set(np.ndindex(2, 3))
    assert v.shape == (9, 8) and repr(v) == "Generated(float64, shape (9, 8))"

    def wrong(info, out):
        raise KeyError("no such integral")

    before = t.checksum
    with pytest.raises(KeyError, match="no such integral"):
        ts.contract("ij,jk->ik", t, ts.generated(tilings, None, 1.0, wrong))
    with pytest.raises(ts.UserError, match="NaN"):
        ts.contract("ij,jk->ik", t, ts.generated(tilings, None, 1.0, lambda info, out: out.fill(np.nan)))
    assert t.checksum == before


def test_plans(random):
    t, v = random_tensor(random, [[6, 4], [5] * 3], "f8"), random_tensor(random, [[5] * 3, [7, 2]], "f8")
    p = ts.plan("ij,jk->ik", t, v, memory="1GiB")
    assert p.explain().startswith("plan for ij,jk->ik") and "<pre>" in p._repr_html_()
    r, report = p.execute(t, v)
    assert p(t, v).equals(r) and report.products == p.products and report.plan_seconds == 0
    assert p.simulate().seconds > 0 and p.simulate("summit", ranks=2).seconds > 0
    assert "of a rank's host memory" in p.on("summit", ranks=2).explain()
    with pytest.raises(ts.UserError, match="nowhere"):
        p.simulate("nowhere")
    other = random_tensor(random, [[6, 4], [5] * 3], "f8", 0.2)
    with pytest.raises(ts.UserError, match="^A .*plan is for"):
        p(other, v)
    with pytest.raises(ts.UserError, match="dtype"):
        p(t.astype("f4"), v.astype("f4"))


def test_progress(random):
    t = random_tensor(random, [[20] * 4] * 2, "f8", 1)
    seen = []
    ts.contract("ij,jk->ik", t, t, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] == 2 * 80**3
    ts.contract("ij,jk->ik", t, t, progress=True)

    def stop(done, total):
        raise RuntimeError("enough")

    before = t.checksum
    with pytest.raises(RuntimeError, match="enough"):
        ts.contract("ij,jk->ik", t, t, out=t, progress=stop)
    assert t.checksum == before


def test_a_budget_is_a_promise():
    t = ts.Tensor.random([[50] * 4] * 2, seed=1)
    with pytest.raises(ts.BudgetError) as error:
        ts.contract("ij,jk->ik", t, t, memory="100kB")
    assert error.value.budget == 100000 and error.value.smallest > 100000
    ts.contract("ij,jk->ik", t, t, memory=error.value.smallest)


def test_files(random, tmp_path, dtype):
    if not hasattr(ts._core, "save"):
        pytest.skip("this build has no files")
    t = random_tensor(random, [[2, 3], [4, 1, 2]], dtype)
    t.save(tmp_path / "t.h5")
    again = ts.load(tmp_path / "t.h5")
    assert again.equals(t) and again.checksum == t.checksum
    with pytest.raises(ts.UserError):
        ts.load(tmp_path / "none.h5")
    (tmp_path / "bad.h5").write_bytes(b"no file of ours")
    with pytest.raises(ts.UserError):
        ts.load(tmp_path / "bad.h5")
    with pytest.raises(ts.Error):
        t.save(tmp_path / "none" / "t.h5")


def test_a_notebook_shows_plans_and_reports(random):
    t = random_tensor(random, [[20] * 4] * 2, "f8", 0.7)
    p = ts.plan("ij,jk->ik", t, t)
    html = p._repr_html_()
    assert "<table>" in html and f"{p.products:,} products" in html and "of 16" not in html.split("<pre>")[0]
    for line in p.explain().splitlines()[1:4]:
        assert line.split("  ")[-1].strip() in html
    _, report = p.execute(t, t)
    assert f"{report.products:,} products" in report._repr_html_()
    s = p.simulate("summit", ranks=2, trace=True)
    assert f"{s.seconds:.4g} s" in s._repr_html_() and len(s.rank_seconds) == 2
    assert {span[0] for span in s.trace.spans} <= set(range(len(s.trace.lanes)))
    assert max(end for *_, end, _ in s.trace.spans) == pytest.approx(s.seconds)
    assert len(p.simulate().trace) == 0


def test_a_notebook_shows_it(random):
    import zlib

    for tilings in ([], [[3, 4]], [[3, 4], [2, 2]], [[3] * 3] * 4, [[50] * 100] * 2, [[1] * 1000] * 2):
        t = ts.Tensor.random(tilings, [tuple(0 for _ in tilings)], seed=1)
        html = t._repr_html_()
        assert "1 nonzero blocks" in html and "data:image/png;base64," in html
    from tessera._picture import _png, picture

    image = picture(ts.Tensor.random([[2, 2], [2, 2]], [(0, 1), (1, 0)], norms=[1.0, 1e-6]))
    assert image[0, 0] == 255 and image[-1, -1] == 255 and image[0, -1] < image[-1, 0] < 255
    data = _png(image)
    begin = data.index(b"IDAT") + 4
    assert len(zlib.decompress(data[begin : data.index(b"IEND") - 8])) == image.shape[0] * (image.shape[1] + 1)


WRONG = [
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(0,)], [np.ones(3)]), r"block 0 at \(0\) has shape \(3\), its tile has \(2\)"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(2,)], [np.ones(2)]), r"coords: tile 0 is at \(2,\)"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(0,), (0,)], [np.ones(2)] * 2), "twice|more than once"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(0,)], []), "0 blocks, but coordinates of 1"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(0, 1)], [np.ones(2)]), "coords have shape"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(0.5,)], [np.ones(2)]), "whole numbers"),
    (lambda: ts.Tensor.from_blocks([[2, 0]], [(0,)], [np.ones(2)]), "tilings: index 0"),
    (lambda: ts.Tensor.from_blocks(3, [(0,)], [np.ones(2)]), "tilings 3"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(1,)], [np.ones(2, int)]), "block 0 is a int64 array"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(1,)], [np.ones(2, object)]), "block 0 is a object array"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(1,)], [np.array([1, np.nan])]), r"tile \(1\).*nan|NaN"),
    (lambda: ts.Tensor.from_blocks([[2, 2]], [(1,)], [np.ones(2, "c16")], dtype="f8"), "block 0 .*complex128"),
    (lambda: ts.Tensor.from_dense(np.ones((3, 3)), tile=0), "tile 0"),
    (lambda: ts.Tensor.from_dense(np.ones((3, 3)), tile=[[3], [2]]), "the array has shape"),
    (lambda: ts.Tensor.from_dense(np.array([np.inf])), "infinity|inf"),
    (lambda: ts.Tensor.random([[2, 2]], norms=[1, 2, 3]), "norms have shape"),
    (lambda: ts.Tensor.random([[2, 2]], norms=-1.0), "norm"),
    (lambda: ts.Tensor.random([[2, 2]], dtype="int32"), "dtype int32"),
    (lambda: ts.contract("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2))), "^A is a float64 array"),
    (lambda: ts.contract("ij,jk->ik", square(2), None, beta=1), "beta"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(3)), "label 'j'"),
    (lambda: ts.contract("ij,jk->iz", square(2), square(2)), "label 'z' of the result stands in no operand"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2).astype("f4")), "B has another dtype"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), out=square(2).astype("f4")), "out has another dtype"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), out=square(3), beta=1), "label 'i'"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), memory=-5), "memory"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), memory="much"), "much"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), algorithm="best"), "best"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), filter=-1), "filter"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), conjugate=[True]), "conjugate has 1 entries for 2"),
    (lambda: ts.contract("ij,jk,kl->il", square(2), square(2), None), "^operand 2 is a NoneType"),
    (lambda: ts.contract("ij,jk,kl->il", square(2), square(2), square(2).astype("f4")), "^operand 2 has another dtype"),
    (lambda: ts.contract("ij,jk,kl->il", square(2), square(2), square(3)), "label 'k'"),
    (lambda: ts.contract("->"), "no operand"),
    (lambda: ts.plan("ij,jk,kl->il", *[square(2)] * 3).simulate(), "for each step"),
    (lambda: ts.plan("ij,jk->ik", square(2), square(2))(square(2)), "1 operands"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), threads=-1), "threads"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), alpha="x"), "alpha"),
    (lambda: ts.contract("ij,jk->ik", square(2), square(2), alpha=1j), "alpha"),
    (lambda: ts.einsum("ij,jk->ik", square(2), np.ones((4, 4))), "operand 1 is a ndarray"),
    (lambda: ts.sign(np.eye(3)), "^the matrix is a float64 array"),
    (lambda: ts.sign(ts.Tensor.random([[2, 2], [3]])), "square|tiles"),
    (lambda: ts.sign(square(2), scaling="best"), "scaling 'best'"),
    (lambda: ts.sign(square(2), tolerance="x"), "tolerance 'x'"),
    (lambda: ts.purify(square(2), 1.5), "electrons 1.5"),
    (lambda: ts.purify(square(2), 5), "electrons"),
    (lambda: ts.purify(square(2), 1, np.eye(4)), "^overlap is a float64 array"),
    (lambda: ts.purify(square(2), 1, square(2).astype("f4")), "overlap has another dtype"),
    (lambda: square(2).tile(5, 0), "coords"),
    (lambda: square(2).tile(0), "coords"),
    (lambda: square(2) + square(3), "tensors|index 0"),
    (lambda: square(2).to_numpy(out=np.zeros(3)), "out is a float64 array"),
    (lambda: ts.load("/nonexistent/x.h5"), "x.h5|no files"),
]


def square(tile):
    return ts.Tensor.random([[tile, tile]] * 2, seed=1)


@pytest.mark.parametrize("call, message", WRONG)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ts.Error, match=message):
        call()


def test_no_devices_is_said():
    with pytest.raises(ts.MachineError):
        ts.contract("ij,jk->ik", square(2), square(2), devices=[0])


def test_symmetry(tmp_path):
    n = 7
    a = np.arange(n * n, dtype=float).reshape(n, n)
    a = a + a.T + 1
    whole = ts.Tensor.from_dense(a, tile=2)
    half = whole.with_symmetry("ij=ji")
    assert half.symmetry == "ij=ji" and len(half.blocks) == 10
    assert (half.to_numpy() == a).all() and half.desymmetrise().equals(whole)
    assert pickle.loads(pickle.dumps(half)).equals(half)
    half.save(tmp_path / "a.h5")
    assert ts.load(tmp_path / "a.h5").equals(half)
    assert (half + half).symmetry == "ij=ji"
    with pytest.raises(ts.UserError, match="not among those that are stored"):
        half.tile(1, 0)
    with pytest.raises(ts.UserError, match="does not have the indices"):
        whole.with_symmetry("ij=jk")
    expected, report = ts.contract("ij,jk->ik", whole, whole)
    result, less = ts.contract("ij,jk->ik", half, half, symmetry="ij=ji")
    assert result.symmetry == "ij=ji" and less.flops < report.flops
    assert (result.to_numpy() == expected.to_numpy()).all()
    assert "symmetry" in ts.plan("ij,jk->ik", half, half, symmetry="ij=ji").explain()
    folded, _ = ts.contract("ij,ij->", half, half, fold=True)
    assert np.isclose(folded.to_numpy().item(), (a * a).sum())
