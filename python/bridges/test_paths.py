"""opt_einsum, cotengra and autoray find Tessera by the name of its module."""
import numpy as np
import pytest
from helpers import DTYPES, Random

import tessera as ts

SPECS = ["ij,jk,kl->il", "ab,bc,cd,da->", "abc,cd,be,de->a", "ijk,kl,jl,im->m", "ab,cd,bd->ac"]


def tensors(spec, dtype, seed):
    """Block-sparse tensors for a spec, and what they are when dense."""
    r = Random(seed)
    inputs = spec.split("->")[0].split(",")
    tilings = {label: [r.integer(1, 3) for _ in range(r.integer(1, 3))] for label in sorted(set("".join(inputs)))}
    made = []
    for labels in inputs:
        sizes = [tilings[label] for label in labels]
        coords = [c for c in np.ndindex(*map(len, sizes)) if r.chance(0.7)]
        made.append(ts.Tensor.from_blocks(sizes, coords, [r.values([s[i] for s, i in zip(sizes, c)], dtype) for c in coords],
                                          dtype=dtype))
    return made, [t.to_numpy() for t in made]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("package", ["opt_einsum", "cotengra"])
def test_block_sparse_tensors_by_their_module(package, spec, dtype):
    library = pytest.importorskip(package)
    made, dense = tensors(spec, dtype, 1)
    contract = library.contract if package == "opt_einsum" else library.einsum
    result = contract(spec, *made)
    expected = np.einsum(spec, *dense)
    assert isinstance(result, ts.Tensor)
    np.testing.assert_allclose(result.to_numpy(), expected, atol=1e4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("spec", SPECS)
def test_opt_einsum_over_numpy_arrays(spec, monkeypatch):
    opt_einsum = pytest.importorskip("opt_einsum")
    called = []
    for name in ("einsum", "tensordot"):
        plain = getattr(ts, name)
        monkeypatch.setattr(ts, name, lambda *a, plain=plain, **k: called.append(1) or plain(*a, **k))
    opt_einsum.backends.dispatch._cached_funcs.clear()
    _, dense = tensors(spec, "float64", 2)
    np.testing.assert_allclose(opt_einsum.contract(spec, *dense, backend="tessera"), np.einsum(spec, *dense), atol=1e-12)
    assert called
    opt_einsum.backends.dispatch._cached_funcs.clear()


def test_autoray():
    autoray = pytest.importorskip("autoray")
    (a, b), (x, y) = tensors("ij,jk->ik", "float64", 3)
    assert autoray.infer_backend(a) == "tessera"
    np.testing.assert_allclose(autoray.do("einsum", "ij,jk->ik", a, b).to_numpy(), x @ y)
    np.testing.assert_allclose(autoray.do("tensordot", a, b, 1).to_numpy(), x @ y)
    np.testing.assert_allclose(autoray.do("transpose", a, (1, 0)).to_numpy(), x.T)
    np.testing.assert_allclose(autoray.do("einsum", "ij,jk->ik", x, y, like="tessera"), x @ y)
    assert autoray.shape(a) == x.shape


def test_a_bar_of_tqdm(capsys):
    pytest.importorskip("tqdm")
    t = ts.Tensor.random([[30] * 6] * 2, seed=1)
    ts.contract("ij,jk->ik", t, t, progress=True)
    assert "ij,jk->ik" in capsys.readouterr().err
