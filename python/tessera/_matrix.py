"""Functions of block-sparse matrices, by iterations of products that are filtered as they go."""

from __future__ import annotations

from typing import Any, Sequence

from . import _core
from ._contract import _core_of, _settings
from ._core import MatrixReport
from ._errors import UserError
from ._tensor import Tensor


def sign(a: Tensor, *, filter: float = 0.0, tolerance: float = 0.0, max_iterations: int = 100,
         scaling: str = "gershgorin", memory: int | str | None = None, threads: int = 0, devices: Sequence[int] = (),
         device_memory: int | str | None = None, comm: Any = None) -> tuple[Tensor, MatrixReport]:
    """The sign of a symmetric (hermitian) matrix without eigenvalue 0, and a report.

    Tiles whose norm is below ``filter`` are dropped in each iteration; ``report.error`` bounds what that and rounding did.
    It ends when the residual is below ``tolerance`` (0: when it falls no further). ``scaling`` takes Gershgorin's discs or
    "lanczos", whose estimates are closer.

    >>> import numpy as np, tessera as ts
    >>> s, report = ts.sign(ts.Tensor.from_dense(np.diag([3.0, -2.0, 1.0]), tile=2))
    >>> s.to_numpy().diagonal().round(12).tolist(), report.error < 1e-12
    ([1.0, -1.0, 1.0], True)
    """
    return _function("sign", a, None, 0, filter, tolerance, max_iterations, scaling, memory, threads, devices,
                     device_memory, comm)


def inverse(a: Tensor, *, filter: float = 0.0, tolerance: float = 0.0, max_iterations: int = 100,
            memory: int | str | None = None, threads: int = 0, devices: Sequence[int] = (),
            device_memory: int | str | None = None, comm: Any = None) -> tuple[Tensor, MatrixReport]:
    """The inverse of a matrix that has one, and a report; arguments as of ``sign``.

    >>> import numpy as np, tessera as ts
    >>> ts.inverse(ts.Tensor.from_dense(np.diag([2.0, 4.0])))[0].to_numpy().round(12)
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return _function("inverse", a, None, 0, filter, tolerance, max_iterations, "gershgorin", memory, threads, devices,
                     device_memory, comm)


def sqrt_inverse(a: Tensor, *, filter: float = 0.0, tolerance: float = 0.0, max_iterations: int = 100,
                 scaling: str = "gershgorin", memory: int | str | None = None, threads: int = 0,
                 devices: Sequence[int] = (), device_memory: int | str | None = None,
                 comm: Any = None) -> tuple[Tensor, MatrixReport]:
    """Z with Z A Z = 1 of a symmetric positive definite matrix, and a report; arguments as of ``sign``.

    >>> import numpy as np, tessera as ts
    >>> ts.sqrt_inverse(ts.Tensor.from_dense(np.diag([4.0, 16.0])))[0].to_numpy().diagonal().round(12).tolist()
    [0.5, 0.25]
    """
    return _function("sqrt_inverse", a, None, 0, filter, tolerance, max_iterations, scaling, memory, threads, devices,
                     device_memory, comm)


def exponential(a: Tensor, *, filter: float = 0.0, tolerance: float = 0.0, max_iterations: int = 100,
                memory: int | str | None = None, threads: int = 0, devices: Sequence[int] = (),
                device_memory: int | str | None = None, comm: Any = None) -> tuple[Tensor, MatrixReport]:
    """The exponential of a square matrix, and a report; arguments as of ``sign``.

    >>> import numpy as np, tessera as ts
    >>> e, _ = ts.exponential(ts.Tensor.from_dense(np.diag([0.0, 1.0])))
    >>> e.to_numpy().diagonal().round(6).tolist()
    [1.0, 2.718282]
    """
    return _function("exponential", a, None, 0, filter, tolerance, max_iterations, "gershgorin", memory, threads,
                     devices, device_memory, comm)


def purify(f: Tensor, electrons: int, overlap: Tensor | None = None, *, filter: float = 0.0, tolerance: float = 0.0,
           max_iterations: int = 100, scaling: str = "gershgorin", memory: int | str | None = None, threads: int = 0,
           devices: Sequence[int] = (), device_memory: int | str | None = None,
           comm: Any = None) -> tuple[Tensor, MatrixReport]:
    """The density matrix of ``electrons`` in the lowest eigenvectors of a symmetric matrix, one each, and a report.

    With an ``overlap`` S it is D of trace(D S) = electrons and D S D = D. Arguments as of ``sign``.

    >>> import numpy as np, tessera as ts
    >>> d, report = ts.purify(ts.Tensor.from_dense(np.diag([-1.0, 2.0, -3.0]), tile=2), 2)
    >>> d.to_numpy().diagonal().round(12).tolist()
    [1.0, 0.0, 1.0]
    >>> report.homo < report.lumo
    True
    """
    return _function("purify", f, overlap, electrons, filter, tolerance, max_iterations, scaling, memory, threads,
                     devices, device_memory, comm)


def _function(name: str, a: Any, overlap: Any, electrons: Any, filter: float, tolerance: float, max_iterations: int,
              scaling: str, memory: int | str | None, threads: int, devices: Sequence[int],
              device_memory: int | str | None, comm: Any) -> tuple[Tensor, MatrixReport]:
    settings = _settings(1, 1, 0, None, filter, memory, threads, devices, device_memory, (), "auto", "auto", "", comm,
                         "", False)
    matrices = []
    for x, what in ((a, "the matrix"), (overlap, "overlap")):
        if what == "the matrix" or x is not None:
            _core_of(x, what, stored=True)
            matrices.append(x if comm is None else x.on(comm, threads))
    if isinstance(electrons, bool) or not isinstance(electrons, int):
        raise UserError(f"electrons {electrons!r}: a whole number is needed")
    try:
        numbers = float(tolerance), int(max_iterations)
    except (TypeError, ValueError):
        raise UserError(f"tolerance {tolerance!r}, max_iterations {max_iterations!r}: numbers are needed") from None
    result, report = _core.matrix_function(name, matrices[0]._core, matrices[1]._core if len(matrices) > 1 else None,
                                           electrons, *numbers, str(scaling), settings)
    return Tensor(result), report
