"""einsum, tensordot and transpose of arrays: everything against NumPy."""
import string

import numpy as np
import pytest
from helpers import DTYPES, Random

import tessera as ts


def tolerance(dtype, work):
    return 8 * np.finfo(dtype).eps * max(1.0, np.sqrt(work)) * 4


def check(spec, operands, **how):
    alike = [x.astype(np.result_type(*operands)) for x in operands]
    expected = np.einsum(spec, *alike, optimize=len(operands) > 3)
    got = ts.einsum(spec, *operands, **how)
    assert np.shape(got) == expected.shape
    assert got.dtype == np.result_type(*operands)
    work = max([x.size for x in operands] + [1])
    scale = np.einsum(spec, *[np.abs(x) for x in alike], optimize=len(operands) > 3)
    assert np.all(np.abs(got - expected) <= tolerance(got.dtype, work) * (scale + np.finfo(got.dtype).tiny)), spec
    return got


def random_spec(r, operands, ellipsis=True):
    """Labels with extents, some of them repeated, summed alone, batched or hidden behind an ellipsis."""
    extents = {letter: r.integer(0 if r.chance(0.1) else 1, 5) for letter in string.ascii_letters[: r.integer(1, 6)]}
    letters = list(extents)
    inputs = []
    for _ in range(operands):
        rank = r.integer(0, 4 if operands < 3 else 3)
        inputs.append("".join(letters[r.integer(0, len(letters) - 1)] for _ in range(rank)))
    used = sorted(set("".join(inputs)))
    kept = [letter for letter in used if r.chance(0.5)]
    r.rng.shuffle(kept)
    # NumPy repeats an index of one element; not along a diagonal.
    shapes = [tuple(1 if labels.count(label) == 1 and r.chance(0.05) else extents[label] for label in labels)
              for labels in inputs]
    output = "".join(kept)
    if ellipsis and r.chance(0.2):
        hidden = tuple(r.integer(1, 3) for _ in range(r.integer(1, 2)))
        for i in range(operands):
            if r.chance(0.7):
                have = hidden[r.integer(0, len(hidden)) :]
                have = tuple(1 if r.chance(0.2) else n for n in have)
                inputs[i], shapes[i] = "..." + inputs[i], have + shapes[i]
        if any("..." in labels for labels in inputs):
            output = "..." + output
    implicit = r.chance(0.15)
    return ",".join(inputs) + ("" if implicit else "->" + output), shapes


@pytest.mark.parametrize("part", range(10))
def test_random_calls(part):
    r = Random(part)
    for _ in range(1000):
        operands = [1, 2, 2, 2, 3, 4][r.integer(0, 5)]
        spec, shapes = random_spec(r, operands)
        dtype = DTYPES[r.integer(0, 3)]
        check(spec, [r.strided(shape, DTYPES[r.integer(0, 3)] if r.chance(0.05) else dtype) for shape in shapes])


def test_out_is_written_in_place(random, dtype):
    a, b = random.strided((5, 7), dtype), random.strided((7, 3), dtype)
    for out in (np.zeros((5, 3), dtype), np.zeros((3, 5), dtype).T, np.zeros((10, 9), dtype)[::2, ::-3],
                np.zeros((5, 3), dtype)[::-1]):
        out[...] = 7
        assert ts.einsum("ij,jk->ik", a, b, out=out) is out
        np.testing.assert_allclose(out, a @ b, rtol=1e-4)
    scalar = np.zeros((), dtype)
    assert ts.einsum("i,i->", a[0], a[1], out=scalar) is scalar
    np.testing.assert_allclose(scalar, a[0] @ a[1], rtol=1e-4)


def test_only_the_result_is_written(random):
    frame = np.full((6, 8), 7.0)
    a, b = random.values((3, 4), "f8"), random.values((4, 4), "f8")
    ts.einsum("ij,jk->ik", a, b, out=frame[::2, ::2])
    assert (frame[1::2] == 7).all() and (frame[:, 1::2] == 7).all()
    np.testing.assert_allclose(frame[::2, ::2], a @ b)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_bits_on_any_number_of_threads(random, threads):
    a, b = random.values((70, 40, 30), "f8"), random.values((30, 40, 50), "f8")
    assert (ts.einsum("ijk,kjl->il", a, b, threads=threads) == ts.einsum("ijk,kjl->il", a, b)).all()


def test_numpys_other_ways_of_saying_it(random):
    a, b, c = random.values((3, 4), "f8"), random.values((4, 5), "f8"), random.values((5, 2), "f8")
    np.testing.assert_allclose(ts.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T)
    np.testing.assert_allclose(ts.einsum(a, [0, 1], b, [1, 2]), a @ b)
    np.testing.assert_allclose(ts.einsum(a, [Ellipsis, 1], b, [1, 2], [Ellipsis, 2]), a @ b)
    np.testing.assert_allclose(ts.einsum(" i j , j k -> i k ", a, b), a @ b)
    np.testing.assert_allclose(ts.einsum("ij,jk,kl", a, b, c), a @ b @ c)
    np.testing.assert_allclose(ts.einsum("ij,jk->ik", a.tolist(), b), a @ b)
    assert isinstance(ts.einsum("ij,ij->", a, a), np.float64)


def test_every_dtype_of_a_pair(random):
    for one in DTYPES:
        for other in DTYPES:
            got = check("ij,kj->ik", [random.strided((3, 4), one), random.strided((2, 4), other)])
            assert got.dtype == np.result_type(one, other)


def test_foreign_memory_is_copied(random):
    records = np.zeros((4, 5), np.dtype([("a", "f8"), ("b", "f4")]))  # 12 bytes apart
    records["a"] = random.values((4, 5), "f8")
    swapped = random.values((5, 3), ">f8")
    odd = np.zeros(8 * 15 + 1, np.uint8)[1:].view("f8").reshape(5, 3)
    odd[...] = 2
    check("ij,jk->ik", [records["a"], swapped])
    check("ij,jk->ik", [records["a"], odd])


def test_other_holders_of_memory(random):
    import array

    a = array.array("d", range(6))
    np.testing.assert_allclose(ts.einsum("i,i->", a, np.ones(6)), 15)
    read_only = np.arange(6.0)
    read_only.flags.writeable = False
    np.testing.assert_allclose(ts.einsum("i,i->", read_only, memoryview(np.ones(6))), 15)


@pytest.mark.parametrize("case", range(200))
def test_tensordot(case):
    r = Random(1000 + case)
    shared = [r.integer(0 if r.chance(0.05) else 1, 4) for _ in range(r.integer(0, 3))]
    a_shape = shared + [r.integer(1, 4) for _ in range(r.integer(0, 3))]
    b_shape = shared + [r.integer(1, 4) for _ in range(r.integer(0, 3))]
    p, q = r.rng.permutation(len(a_shape)), r.rng.permutation(len(b_shape))
    a, b = r.strided([a_shape[d] for d in p], "f8"), r.strided([b_shape[d] for d in q], "f8")
    axes = ([int(np.argsort(p)[i]) - r.integer(0, 1) * a.ndim for i in range(len(shared))],
            [int(np.argsort(q)[i]) for i in range(len(shared))])
    np.testing.assert_allclose(ts.tensordot(a, b, axes), np.tensordot(a, b, axes), atol=1e-12)
    for n in range(3):
        x, y = r.values((2, 3, 4)[: 3], "f8"), r.values((3, 4, 2)[2 - n :] if n else (2,), "f8")
        if x.shape[3 - n :] == y.shape[:n]:
            np.testing.assert_allclose(ts.tensordot(x, y, n), np.tensordot(x, y, n), atol=1e-12)


@pytest.mark.parametrize("case", range(200))
def test_transpose(case):
    r = Random(2000 + case)
    shape = [r.integer(0 if r.chance(0.05) else 1, 6) for _ in range(r.integer(0, 5))]
    x = r.strided(shape, DTYPES[case % 4])
    axes = [int(d) for d in r.rng.permutation(len(shape))]
    got = ts.transpose(x, axes)
    assert got.flags.c_contiguous and not np.shares_memory(got, x)
    assert np.array_equal(got, x.transpose(axes))
    assert np.array_equal(ts.transpose(x), x.transpose())


WRONG = [
    ("ij,jk->ik", [(2, 3), (4, 5)], "label 'j' has 3 elements in A and 4 in B"),
    ("ij,jk,kl->il", [(2, 3), (3, 5), (4, 2)], "label 'k' has 5 elements in operand 1 and 4 in operand 2"),
    ("ij,jk->ik", [(2, 3)], "2 operands in the spec, 1 given"),
    ("ij->ji", [(2, 3), (3, 2)], "1 operands in the spec, 2 given"),
    ("ij,jk->ikk", [(2, 3), (3, 5)], "label 'k' stands twice in the result"),
    ("ij,jk->iz", [(2, 3), (3, 5)], "label 'z' of the result stands in no operand"),
    ("ij,j1->i", [(2, 3), (3, 5)], "'1' is no letter"),
    ("i..j,jk->ik", [(2, 3), (3, 5)], "'.' is no part of one ellipsis"),
    ("ijk,jk->i", [(2, 3), (3, 5)], "operand 0 has 2 indices, its labels 'ijk' are 3"),
    ("...i,i->i", [(2, 3), (3,)], "the result has no '...'"),
    ("ij,jk->ik->", [(2, 3), (3, 5)], "is no letter"),
    ("ii->i", [(2, 3)], "label 'i' has"),
]


@pytest.mark.parametrize("spec, shapes, message", WRONG)
def test_wrong_specs_are_refused(spec, shapes, message):
    for _ in range(2):  # the second call may take another way
        with pytest.raises(ts.UserError) as error:
            ts.einsum(spec, *[np.ones(shape) for shape in shapes])
        assert message in str(error.value)


@pytest.mark.parametrize("bad", [np.ones((3, 3), int), np.ones((3, 3), object), np.ones((3, 3), "f2"),
                                 np.ones((3, 3), "M8[s]"), np.ones((3, 3), np.longdouble), "text", None,
                                 [[1.0], [1.0, 2.0]], np.ones((3, 3), "S3"), {}, np.ones((3, 3), bool)],
                         ids=lambda x: str(getattr(x, "dtype", type(x).__name__)))
def test_wrong_arrays_are_refused(bad):
    good = np.ones((3, 3))
    for _ in range(2):
        for operands, which in (((bad, good), "operand 0"), ((good, bad), "operand 1")):
            with pytest.raises(ts.UserError, match=f"^({which}|{'AB'[int(which[-1])]}) is"):
                ts.einsum("ij,jk->ik", *operands)
    with pytest.raises(ts.UserError):
        ts.transpose(bad)
    with pytest.raises(ts.UserError):
        ts.tensordot(bad, good)


def test_wrong_results_are_refused():
    a = np.ones((3, 3))
    fixed = np.zeros((3, 3))
    fixed.flags.writeable = False
    for out, message in ((np.zeros((3, 2)), "out has shape"), (np.zeros((3, 3), "f4"), "out has elements of type"),
                         (a, "share memory"), (np.broadcast_to(np.zeros(3), (3, 3)), "out is read-only"),
                         (fixed, "out is read-only"), ([[0.0]], "out is a list"),
                         (np.lib.stride_tricks.as_strided(np.zeros(5), (3, 3), (8, 8)), "written twice")):
        before = np.array(out)
        with pytest.raises(ts.UserError, match=message):
            ts.einsum("ij,jk->ik", a, np.ones((3, 3)), out=out)
        assert np.array_equal(before, out)


def test_nan_names_the_operand():
    a, b = np.ones((3, 3)), np.ones((3, 3))
    b[1, 2] = np.nan
    with pytest.raises(ts.UserError, match=r"operand 1 holds nan at \(1, 2\)"):
        ts.einsum("ij,jk->ik", a, b)
    with pytest.raises(ts.UserError, match=r"operand 0 holds inf at \(0, 0\)"):
        ts.einsum("ij->", np.full((2, 2), np.inf))


def test_too_many_indices():
    x = np.ones((1,) * 20)
    labels = string.ascii_letters[:20]
    with pytest.raises(ts.UserError, match="20 indices"):
        ts.einsum(f"{labels}->{labels}", x)


def test_arrays_on_devices():
    class OnDevice:
        shape = (3,)

        def __init__(self, kind=2):
            self.kind = kind

        def __dlpack_device__(self):
            return (self.kind, 0)

    there = OnDevice()
    with pytest.raises(ts.UserError, match=r"operand 0 is a float64 array of shape \(3,\) on the host"):
        ts.einsum("i,i->", np.ones(3), there)
    with pytest.raises(ts.UserError, match="out is for arrays of the host"):
        ts.einsum("i->i", there, out=np.ones(3))
    with pytest.raises(ts.UserError, match="block 0 is a .*OnDevice on a device"):
        ts.Tensor.from_blocks([[3]], [(0,)], [there])
    for call in (lambda: ts.einsum("i->i", there), lambda: ts.tensordot(there, there, 1), lambda: ts.transpose(there),
                 lambda: ts.Tensor.from_dense(there)):
        with pytest.raises((ts.UserError, ts.BackendUnavailable)):  # with a GPU: it has no __dlpack__
            call()
    with pytest.raises(ts.UserError, match="no NVIDIA GPU"):
        ts.einsum("i->i", OnDevice(10))
    with pytest.raises(ts.MachineError):
        ts.Tensor.from_dense(np.ones(3)).to_devices([999])
    for wrong in ([], ["x"], 3):
        with pytest.raises(ts.UserError, match="devices|to_devices"):
            ts.Tensor.from_dense(np.ones(3)).to_devices(wrong)


@pytest.mark.parametrize("order", ["C", "F"])
def test_capsules(dtype, order):
    """Arrays come and go by DLPack as they do on a device."""
    core = ts._core
    x = np.asarray(np.arange(12).reshape(3, 4), dtype, order=order)
    t = ts.Tensor(core.from_capsule(x.__dlpack__(), None))
    assert t.tilings == [[3], [4]] and t.dtype == x.dtype and np.array_equal(t.to_numpy(), x)
    tiled = ts.Tensor(core.from_capsule(x.__dlpack__(), [[1, 2], [4]]))
    assert np.array_equal(tiled.to_numpy(), x) and len(tiled.coords) == 2
    from tessera._devices import DeviceArray

    back = np.from_dlpack(DeviceArray(t._core, 0, t.shape, -1))
    assert np.array_equal(back, x)
    del t, tiled
    assert np.array_equal(back, x)
    capsule = x.__dlpack__()
    core.from_capsule(capsule, None)
    for wrong, message in ((capsule, "taken before"), (np.arange(3).__dlpack__(), "elements are not")):
        with pytest.raises(ts.UserError, match=message):
            core.from_capsule(wrong, None)
    with pytest.raises(ts.UserError, match="3 elements, its tiling 5"):
        core.from_capsule(x.__dlpack__(), [[5], [4]])


def test_an_error_is_a_value_error():
    assert issubclass(ts.UserError, ValueError) and issubclass(ts.BudgetError, ts.MachineError)
    import pickle

    error = pickle.loads(pickle.dumps(ts.BudgetError("small", 1, 2)))
    assert error.smallest == 2 and str(error) == "small"
