"""Tensors and arrays in the memory of a GPU: where there is one. Of CuPy and PyTorch what is installed, and Tessera's own
arrays on devices in any case."""
import numpy as np
import pytest

import tessera as ts
from tessera._devices import DeviceArray

try:
    ts.Tensor.from_dense(np.ones((2, 2))).to_devices([0])
except ts.MachineError as error:
    pytest.skip(f"no device: {error}", allow_module_level=True)


def tessera_array(x):
    t = ts.Tensor.from_dense(x, tile=[[n] for n in x.shape]).to_devices([0])
    return t.tile(*[0] * x.ndim)


def libraries():
    yield "tessera", tessera_array, lambda y: ts.Tensor.from_dense(y, tile=[[n] for n in y.shape]).to_numpy()
    for name in ("torch", "cupy"):
        try:
            module = __import__(name)
            if name == "torch":
                assert module.cuda.is_available()
        except Exception:
            continue
        if name == "torch":
            yield name, lambda x, m=module: m.from_numpy(x).cuda(), lambda y: y.cpu().numpy()
        else:
            yield name, module.asarray, module.asnumpy


@pytest.fixture(params=list(libraries()), ids=lambda made: made[0])
def library(request):
    return request.param


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_einsum_there(library, dtype):
    name, put, get = library
    rng = np.random.default_rng(1)
    a, b, c = (rng.normal(size=s).astype(dtype) for s in ((30, 40), (40, 20), (20, 7)))
    for spec, operands in (("ij,jk->ik", (a, b)), ("ij,jk->ki", (a, b)), ("ij,jk,kl->il", (a, b, c)), ("ij->ji", (a,)),
                           ("ij,kj->ik", (a, b.T.copy()))):
        there = ts.einsum(spec, *map(put, operands))
        assert type(there).__module__.split(".")[0] == name
        np.testing.assert_allclose(get(there), np.einsum(spec, *operands), rtol=1e-4 if dtype in ("f4", "c8") else 1e-11)
    np.testing.assert_allclose(get(ts.tensordot(put(a), put(b), 1)), a @ b, rtol=1e-3)
    np.testing.assert_array_equal(get(ts.transpose(put(a))), a.T)


def test_strides(library):
    name, put, get = library
    if name == "tessera":
        pytest.skip("its arrays have no strides")
    x = np.random.default_rng(2).normal(size=(20, 30))
    y = put(x)
    np.testing.assert_allclose(get(ts.einsum("ij,kj->ik", y[::2, 3:], y[5:9, 3:])), x[::2, 3:] @ x[5:9, 3:].T, rtol=1e-11)
    np.testing.assert_allclose(get(ts.einsum("ji,jk->ik", y.T.T, y)), x.T @ x, rtol=1e-11)


def test_tensors_there(library):
    _, put, get = library
    x = np.random.default_rng(3).normal(size=(64, 48))
    x[:16, :16] = 0
    t, here = ts.Tensor.from_dense(put(x), tile=16), ts.Tensor.from_dense(x, tile=16)
    assert t.devices == [0] and here.devices == [] and t.to_host().equals(here) and len(t.coords) == len(here.coords)
    r, report = ts.contract("ij,kj->ik", t, t)
    assert r.devices == [0] and r.to_host().equals(ts.contract("ij,kj->ik", here, here)[0])
    assert r.checksum == ts.contract("ij,kj->ik", here, here)[0].checksum
    block = r.tile(1, 2)
    assert isinstance(block, DeviceArray) and block.shape == (16, 16)
    np.testing.assert_array_equal(r.to_numpy()[16:32, 32:48], ts.Tensor.from_dense(block, tile=[[16], [16]]).to_numpy())
    import pickle

    assert pickle.loads(pickle.dumps(r)).equals(r.to_host())


def test_what_is_refused(library):
    _, put, _ = library
    a = put(np.ones((3, 4)))
    for call, message in ((lambda: ts.einsum("ij,jk->ik", a, np.ones((4, 2))), "operand 1 .* on the host"),
                          (lambda: ts.einsum("ij,jk->ik", a, a), "label 'j'"),
                          (lambda: ts.einsum("ij->ji", a, out=np.zeros((4, 3))), "out"),
                          (lambda: ts.Tensor.from_blocks([[3], [4]], [(0, 0)], [a]), "block 0 is a .* on a device"),
                          (lambda: ts.Tensor.from_dense(a, tile=[[3], [5]]), "tile: tilings")):
        with pytest.raises(ts.UserError, match=message):
            call()


def test_memory_stays_steady(library):
    _, put, get = library
    a = put(np.ones((100, 100)))
    ts.einsum("ij,jk->ik", a, a)
    before = ts._core.device_memory_in_use(0)
    for _ in range(2000):
        r = ts.einsum("ij,jk->ik", a, a)
    assert ts._core.device_memory_in_use(0) <= before + (1 << 20)
    assert get(r)[0, 0] == 100
