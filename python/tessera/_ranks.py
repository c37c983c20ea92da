"""Communicators of mpi4py: processes that mpirun started, which work as one."""

from __future__ import annotations

from typing import Any

from . import _core
from ._errors import BackendUnavailable, UserError

_keyval: int | None = None
_known: list[_core.Ranks] = []


def ranks_of(comm: Any) -> _core.Ranks | None:
    """The ranks of a communicator of mpi4py; of none, none. The first call with a communicator is collective."""
    global _keyval
    if comm is None:
        return None
    if not callable(getattr(comm, "py2f", None)):
        raise UserError(f"comm is a {type(comm).__name__}; a communicator of mpi4py is needed")
    from mpi4py import MPI

    if comm == MPI.COMM_NULL:
        raise UserError("comm is MPI.COMM_NULL; a communicator of mpi4py is needed")
    if not isinstance(comm, MPI.Intracomm):
        raise UserError("comm joins two groups of ranks; a communicator of one group is needed")
    _check_library(MPI.get_vendor())
    # MPI keeps it with the communicator: it is found again, and a new communicator never takes an old one's place.
    if _keyval is None:
        _keyval = MPI.Comm.Create_keyval(copy_fn=False)
    place = comm.Get_attr(_keyval)
    if place is None:
        ranks = _core.mpi_ranks(comm.py2f())
        place = len(_known)
        _known.append(ranks)
        comm.Set_attr(_keyval, place)
    return _known[place]


def _check_library(vendor: tuple[str, tuple[int, ...]]) -> None:
    """Handles of one MPI mean nothing to another."""
    name, version = vendor
    if not _core.built_mpi:
        raise BackendUnavailable("this tessera was built without MPI; the wheel with 'mpi' in its name has it")
    built, _, number = _core.built_mpi.rpartition(" ")
    if name != built or str(version[0]) != number.split(".")[0]:
        raise BackendUnavailable(f"mpi4py uses {name} {'.'.join(map(str, version))}, this tessera was built with "
                                 f"{_core.built_mpi}")
