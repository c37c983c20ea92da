"""References and memory stay steady, whatever is called how often; Ctrl-C, threads and forks."""
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import tessera as ts


def resident_bytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def repeat(call, times):
    """Grown by how much, after a first round that fills caches."""
    for _ in range(times // 10):
        call()
    before = resident_bytes()
    for _ in range(times):
        call()
    return resident_bytes() - before


def test_references_and_memory_over_many_calls():
    a, b, out = np.ones((16, 16)), np.ones((16, 16)), np.zeros((16, 16))
    counts = [sys.getrefcount(x) for x in (a, b, out, None)]

    def calls():
        ts.einsum("ij,jk->ik", a, b)
        ts.einsum("ij,jk->ik", a, b, out=out)

    def wrong():
        with pytest.raises(ts.UserError):
            ts.einsum("ij,jk->ik", a, b[:3])
        with pytest.raises(ts.UserError):
            ts.einsum("ij,jk->ik", a, b, out=a)

    assert repeat(calls, 50000) < 2 << 20
    assert repeat(wrong, 2000) < 2 << 20
    after = [sys.getrefcount(x) for x in (a, b, out, None)]
    assert after[:3] == counts[:3] and abs(after[3] - counts[3]) < 1000


def test_memory_of_tensors():
    x = np.ones((40, 40))

    def calls():
        t = ts.Tensor.from_dense(x, tile=10)
        r, _ = ts.contract("ij,jk->ik", t, t)
        r.blocks[3].sum()
        r.to_numpy()
        v = ts.generated(t.tilings, None, 100.0, lambda info, out: out.fill(1))
        ts.contract("ij,jk->ik", t, v)

    assert repeat(calls, 300) < 4 << 20


def test_a_tile_outlives_its_tensor():
    block = ts.Tensor.from_dense(np.arange(16.0).reshape(4, 4), tile=2).tile(1, 0)
    ts.Tensor.random([[100] * 4] * 2, seed=1)
    assert block.tolist() == [[8, 9], [12, 13]]


def test_threads_work_side_by_side():
    """Of one tensor, and of arrays; the operands are let go while others still use them."""
    t = ts.Tensor.random([[20] * 5] * 2, seed=1)
    expected = ts.einsum("ij,jk->ik", t, t).checksum
    a = np.random.default_rng(1).random((120, 120))
    product = a @ a
    failed = []

    def work():
        for _ in range(20):
            if ts.contract("ij,jk->ik", t, t)[0].checksum != expected:
                failed.append("tensors")
            if not np.allclose(ts.einsum("ij,jk->ik", a.copy(), a.copy()), product):
                failed.append("arrays")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_tensor_that_is_added_to_is_nobody_elses():
    t = ts.Tensor.random([[20] * 4] * 2, seed=1)
    c = ts.Tensor.random([[20] * 4] * 2, seed=2)
    seen = []

    def look(done, total):
        try:
            c.norm()
        except ts.UserError as error:
            seen.append(str(error))

    ts.contract("ij,jk->ik", t, t, out=c, beta=1, progress=look)
    assert seen and "being added to" in seen[0]
    c.norm()


def run(code, timeout=60, **environment):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **environment})


def test_control_c_ends_a_contraction():
    code = """
import tessera as ts, time, sys
t = ts.Tensor.random([[100] * 30] * 2, seed=1)
c = ts.Tensor.random([[100] * 30] * 2, seed=2)
before = c.checksum
print("ready", flush=True)
start = time.time()
try:
    for _ in range(1000):
        ts.contract("ij,jk->ik", t, t, out=c, beta=0, threads=2)
        before = c.checksum
except KeyboardInterrupt:
    print("interrupted", c.checksum == before, time.time() - start < 30)
    print(ts.einsum("ij,jk->ik", ts.Tensor.random([[2]] * 2), ts.Tensor.random([[2]] * 2)).shape)
"""
    process = run(code)
    assert process.stdout.readline() == "ready\n"
    threading.Event().wait(0.5)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=100)
    assert output == "interrupted True True\n(2, 2)\n", errors


def test_a_forked_child_works():
    """OpenMP's threads do not survive a fork: the child works on one."""
    code = """
import os, tessera as ts, numpy as np
t = ts.Tensor.random([[30] * 6] * 2, seed=1)
a = np.ones((300, 300))
expected = ts.einsum("ij,jk->ik", t, t, threads=2).checksum
ts.einsum("ij,jk->ik", a, a, threads=2)
child = os.fork()
if child == 0:
    same = ts.einsum("ij,jk->ik", t, t, threads=2).checksum == expected
    os._exit(0 if same and ts.einsum("ij,jk->ik", a, a, threads=2)[0, 0] == 300 else 1)
print(os.waitpid(child, 0)[1])
"""
    process = run(code)
    output, errors = process.communicate(timeout=60)
    assert output == "0\n", errors


def test_omp_num_threads_is_honoured():
    code = "import tessera as ts; t = ts.Tensor.random([[40] * 6] * 2); print(ts.contract('ij,jk->ik', t, t)[1].threads)"
    output, errors = run(code, OMP_NUM_THREADS="3").communicate(timeout=60)
    assert output == "3\n", errors
