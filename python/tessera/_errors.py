"""Three kinds of failure, never one: the input is wrong, the machine cannot, or Tessera has a bug."""

from __future__ import annotations


class Error(Exception):
    """What every error of Tessera is.

    >>> import tessera as ts
    >>> issubclass(ts.UserError, ts.Error)
    True
    """

    __module__ = "tessera"


class UserError(Error, ValueError):
    """The input is wrong; the message names the argument and its value. Nothing has been done.

    >>> import numpy as np, tessera as ts
    >>> try:
    ...     ts.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((4, 5)))
    ... except ts.UserError as error:
    ...     print(error)
    contraction 'ij,jk->ik': label 'j' has 3 elements in A and 4 in B
    """

    __module__ = "tessera"


class MachineError(Error, RuntimeError):
    """This machine cannot do it: no such device, too little memory, a full disk.

    >>> import tessera as ts
    >>> t = ts.Tensor.random([[2, 2]] * 2)
    >>> try:
    ...     ts.contract("ij,jk->ik", t, t, devices=[999])
    ... except ts.MachineError:
    ...     print("there is no such device")
    there is no such device
    """

    __module__ = "tessera"


class BudgetError(MachineError, MemoryError):
    """The memory budget is too small: ``budget`` bytes were given, ``smallest`` would do.

    >>> import tessera as ts
    >>> t = ts.Tensor.random([[50] * 4] * 2)
    >>> try:
    ...     ts.contract("ij,jk->ik", t, t, memory="100kB")
    ... except ts.BudgetError as error:
    ...     print(error.budget, error.smallest > error.budget)
    100000 True
    """

    __module__ = "tessera"

    def __init__(self, message: str, budget: int, smallest: int) -> None:
        super().__init__(message)
        self.budget = budget
        self.smallest = smallest

    def __reduce__(self) -> tuple:
        return (BudgetError, (str(self), self.budget, self.smallest))


class BackendUnavailable(MachineError):
    """Something that this build of Tessera was made without, or that has no device here.

    >>> import tessera as ts
    >>> issubclass(ts.BackendUnavailable, ts.MachineError)
    True
    """

    __module__ = "tessera"


class NotConverged(Error, RuntimeError):
    """An iteration gave up: ``where`` ("scf", "ccsd" or "matrix"), after ``iterations``, at an ``energy`` that is none to use.

    >>> import numpy as np, tessera as ts
    >>> try:
    ...     ts.sign(ts.Tensor.from_dense(np.diag([1.0, -0.01])), max_iterations=2)
    ... except ts.NotConverged as error:
    ...     print(error.where)
    matrix
    """

    __module__ = "tessera"

    def __init__(self, message: str, where: str, iterations: int, energy: float = float("nan")) -> None:
        super().__init__(message)
        self.where = where
        self.iterations = iterations
        self.energy = energy

    def __reduce__(self) -> tuple:
        return (NotConverged, (str(self), self.where, self.iterations, self.energy))


class InternalError(Error, RuntimeError):
    """A bug in Tessera.

    >>> import tessera as ts
    >>> issubclass(ts.InternalError, ts.UserError)
    False
    """

    __module__ = "tessera"
