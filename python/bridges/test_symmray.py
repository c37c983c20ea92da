"""symmray's arrays through Tessera: what symmray's own contraction gives."""
import itertools

import numpy as np
import pytest

symmray = pytest.importorskip("symmray")

import tessera.symmray  # noqa: E402


@pytest.fixture
def hook():
    tessera.symmray.enable()
    yield
    tessera.symmray.disable()


def array(kind, maps, duals, seed, dtype="float64", charge=0):
    indices = tuple(symmray.BlockIndex(m, dual=dual) for m, dual in zip(maps, duals))
    return getattr(symmray, kind).random(indices, charge=charge, seed=seed, dtype=dtype)


def both(a, b, axes):
    """By symmray, and by Tessera; how often Tessera was asked, and how often it left it to symmray."""
    expected = symmray.tensordot(a, b, axes)
    asked, left = [], []
    plain = tessera.symmray._contract

    def counted(*arguments):
        asked.append(1)
        try:
            return plain(*arguments)
        except tessera.symmray._OwnWay:
            left.append(1)
            raise

    tessera.symmray._contract = counted
    tessera.symmray.enable()
    try:
        got = symmray.tensordot(a, b, axes)
    finally:
        tessera.symmray.disable()
        tessera.symmray._contract = plain
    return expected, got, len(asked), len(left)


@pytest.mark.parametrize("kind", ["U1Array", "Z2Array", "U1FermionicArray", "Z2FermionicArray"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_contractions(kind, dtype):
    rng = np.random.default_rng(5)
    charges = (-1, 0, 2) if kind.startswith("U1") else (0, 1)
    for case in range(12):
        maps = [{c: int(rng.integers(1, 4)) for c in charges} for _ in range(6)]
        shared = int(rng.integers(0, 4))
        duals = [bool(rng.integers(2)) for _ in range(6)]
        a = array(kind, maps[:3], duals[:3], case, dtype)
        b_maps, b_duals = maps[:shared] + maps[3 : 6 - shared], [not d for d in duals[:shared]] + duals[3 : 6 - shared]
        b = array(kind, b_maps, b_duals, case + 100, dtype)
        expected, got, asked, left = both(a, b, (tuple(range(shared)), tuple(range(shared))))
        assert asked == 1 and left == 0
        if not hasattr(expected, "blocks"):
            np.testing.assert_allclose(got, expected, rtol=1e-4)
            continue
        got.check()
        assert type(got) is type(expected) and got.charge == expected.charge
        assert set(got.blocks) == set(expected.blocks)
        assert [dict(i.chargemap) for i in got.indices] == [dict(i.chargemap) for i in expected.indices]
        for sector, block in expected.blocks.items():
            assert got.blocks[sector].dtype == block.dtype and got.blocks[sector].flags.writeable
            np.testing.assert_allclose(got.blocks[sector], block, atol=1e-4 if dtype in ("float32", "complex64") else 1e-12)


def test_sides_with_other_charges():
    """A contracted index whose charges the two sides have in part, and in another order of sectors."""
    a = array("U1Array", [{0: 2, 1: 3}, {-1: 2, 0: 1, 1: 4}], [False, True], 1)
    b = array("U1Array", [{-1: 2, 1: 4, 2: 3}, {1: 2, 2: 5}], [False, True], 2)
    expected, got, asked, left = both(a, b, ((1,), (0,)))
    assert asked == 1 and left == 0 and set(got.blocks) == set(expected.blocks) and got.allclose(expected)
    shuffled = a.copy_with(blocks=dict(reversed(list(a.blocks.items()))))
    assert both(shuffled, b, ((1,), (0,)))[1].allclose(expected)


def test_what_tessera_refuses_goes_symmrays_way():
    a = array("U1Array", [{0: 2, 1: 3}] * 2, [False, True], 1)
    for change in (lambda x: x.astype(int), lambda x: np.full_like(x, np.nan)):
        b = a.copy()
        b.apply_to_arrays(change)
        expected, got, asked, left = both(a, b, ((1,), (0,)))
        assert asked == left == 1
        for sector, block in expected.blocks.items():
            np.testing.assert_array_equal(got.blocks[sector], block)


def test_on_and_off():
    from symmray.sparse import sparse_array_common as common

    own = common.tensordot_abelian
    for _ in range(2):
        tessera.symmray.enable()
    assert common.tensordot_abelian is not own
    for _ in range(2):
        tessera.symmray.disable()
    assert common.tensordot_abelian is own


def test_plans_are_kept_and_bounded(hook, monkeypatch):
    monkeypatch.setattr(tessera.symmray, "_MOST_KNOWN", 5)
    tessera.symmray._known.clear()
    for p, q in itertools.product(range(1, 4), range(1, 5)):
        a = array("U1Array", [{0: p, 1: q}] * 2, [False, True], 1)
        for _ in range(2):
            symmray.tensordot(a, a, 1)
        assert len(tessera.symmray._known) <= 5
