"""Several processes that mpirun started: the bits of one."""
import os
import pathlib
import shlex
import subprocess
import sys

import pytest

pytest.importorskip("mpi4py")

import tessera as ts  # noqa: E402

START = shlex.split(os.environ.get("TESSERA_MPI_RUN", ""))
pytestmark = pytest.mark.skipif(not START or not ts._core.built_mpi, reason="built without MPI")
PROGRAM = pathlib.Path(__file__).with_name("on_ranks.py")


def run(ranks, *arguments):
    return subprocess.run([*START, "-n", str(ranks), sys.executable, "-m", "mpi4py", *map(str, arguments)],
                          capture_output=True, text=True, timeout=200)


def test_the_same_bits_on_any_number_of_ranks(tmp_path):
    said = []
    for ranks in (1, 2, 3):
        done = run(ranks, PROGRAM, tmp_path)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert len(said[0].split()) == 12 and said[0] == said[1] == said[2]
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "3.h5").read_bytes()


def test_an_error_on_one_rank_ends_all():
    done = run(2, "-c", "from mpi4py import MPI; import tessera as ts\n"
               "if MPI.COMM_WORLD.rank == 1: raise KeyError('alone')\n"
               "ts.Tensor.random([[4] * 4] * 2, comm=MPI.COMM_WORLD)")
    assert done.returncode != 0 and "alone" in done.stderr


def test_wrong_communicators_are_refused():
    with pytest.raises(ts.UserError, match="comm is a str"):
        ts.Tensor.random([[2]], comm="world")
    done = run(1, "-c", "from mpi4py import MPI; import tessera as ts\n"
               "from tessera._ranks import _check_library\n"
               "for wrong in (lambda: ts.Tensor.random([[2]], comm=MPI.COMM_NULL),\n"
               "              lambda: _check_library(('MPICH', (4, 0, 2)))):\n"
               "    try: wrong()\n"
               "    except ts.Error as error: print(error)")
    assert "COMM_NULL" in done.stdout and "mpi4py uses MPICH 4.0.2, this tessera was built with" in done.stdout
