"""TeNPy's HDF5 files as tensors."""
import numpy as np
import pytest

pytest.importorskip("tenpy")
h5py = pytest.importorskip("h5py")

from tenpy.linalg import np_conserved as npc  # noqa: E402
from tenpy.tools import hdf5_io  # noqa: E402

import tessera as ts  # noqa: E402


def array(seed, dtype=float, rank=3, total=0):
    rng = np.random.default_rng(seed)
    charges = npc.ChargeInfo([1, 2])
    legs = [npc.LegCharge.from_qflat(charges, [[q, q % 2] for q in sorted(rng.integers(-1, 2, 9))], 1 - 2 * (d % 2)).bunch()[1]
            for d in range(rank)]

    def values(shape):
        return rng.normal(size=shape).astype(dtype) * (1 + 0.5j if dtype is complex else 1)

    return npc.Array.from_func(values, legs, qtotal=[total, total % 2], dtype=dtype)


@pytest.mark.parametrize("dtype", [float, complex, np.float32])
def test_the_only_array_of_a_file(tmp_path, dtype):
    a = array(1, dtype)
    hdf5_io.save(a, str(tmp_path / "a.h5"))
    t = ts.load(tmp_path / "a.h5")
    assert t.dtype == a.dtype and len(t.coords) == a.stored_blocks
    assert t.tilings == [np.diff(leg.slices).tolist() for leg in a.legs]
    np.testing.assert_array_equal(t.to_numpy(), a.to_ndarray())


def test_one_of_many_and_contracted(tmp_path):
    a, b = array(1, rank=3), array(2, rank=4, total=1)
    with h5py.File(tmp_path / "many.h5", "w") as file:
        hdf5_io.save_to_hdf5(file, {"a": a, "more": [b, a], "number": 3})
    x, y = (ts.load(tmp_path / "many.h5", name=n) for n in ("a", "more/0"))
    np.testing.assert_array_equal(y.to_numpy(), b.to_ndarray())
    pipe = a.combine_legs([0, 1])
    hdf5_io.save(pipe, str(tmp_path / "pipe.h5"))
    np.testing.assert_array_equal(ts.load(tmp_path / "pipe.h5").to_numpy(), pipe.to_ndarray())
    c = npc.tensordot(a, a.conj(), axes=[[1, 2], [1, 2]])
    np.testing.assert_allclose(ts.tensordot(x, x, axes=([1, 2], [1, 2])).to_numpy(), c.to_ndarray(), atol=1e-12)
    with pytest.raises(ts.UserError, match=r"3 arrays of TeNPy, name one of '/a'|2 arrays of TeNPy"):
        ts.load(tmp_path / "many.h5")
    for wrong in ("none", "number", "more"):
        with pytest.raises(ts.UserError, match=f"'{wrong}' is no array of TeNPy"):
            ts.load(tmp_path / "many.h5", name=wrong)


def test_compact_legs_and_damaged_files(tmp_path):
    a = array(3)
    for kept in ("compact", "flat"):
        with h5py.File(tmp_path / f"{kept}.h5", "w") as file:
            saver = hdf5_io.Hdf5Saver(file, {"LegCharge": kept})
            saver.save(a)
    np.testing.assert_array_equal(ts.load(tmp_path / "compact.h5").to_numpy(), a.to_ndarray())
    with pytest.raises(ts.UserError, match="leg 0 is kept as 'flat'"):
        ts.load(tmp_path / "flat.h5")
    for change, message in ((lambda f: f.pop("block_inds"), "not as TeNPy writes"), (lambda f: f["blocks"].pop("0"), "not as TeNPy"),
                            (lambda f: f["block_inds"].__setitem__((0, 0), 99), "99"),
                            (lambda f: f["legs/0/slices"].__setitem__(1, 5000), "tilings|block 0|whole numbers")):
        hdf5_io.save(a, str(tmp_path / "bad.h5"))
        with h5py.File(tmp_path / "bad.h5", "r+") as file:
            change(file)
        with pytest.raises(ts.UserError, match=message):
            ts.load(tmp_path / "bad.h5")
    (tmp_path / "none.h5").write_text("no file of HDF5")
    with pytest.raises(ts.UserError, match="HDF5"):
        ts.load(tmp_path / "none.h5")
    with pytest.raises(ts.UserError):
        ts.load(tmp_path / "missing.h5", name="a")
