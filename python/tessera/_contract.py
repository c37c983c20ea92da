"""Contractions of block-sparse tensors, at once or by a plan."""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence, Union

from . import _core
from ._core import Report, Simulation
from ._errors import UserError
from ._picture import plan_html
from ._ranks import ranks_of
from ._tensor import Generated, Tensor

Progress = Union[bool, Callable[[float, float], Any]]


def contract(spec: str, *operands: Tensor | Generated, alpha: complex = 1, beta: complex = 0, out: Tensor | None = None,
             filter: float = 0.0, memory: int | str | None = None, threads: int = 0, devices: Sequence[int] = (),
             device_memory: int | str | None = None, conjugate: Sequence[bool] = (), algorithm: str = "auto",
             blocks: str = "auto", machine: str = "", comm: Any = None, symmetry: str = "", fold: bool = False,
             progress: Progress = False, trace: bool = False) -> tuple[Tensor, Report]:
    """C = alpha A B ... + beta C for any number of block-sparse tensors: the result, and a report.

    ``spec`` is einsum's. More than two operands are contracted two at a time, in the order that has the least work by
    their nonzero tiles. Result tiles whose norm stays below ``filter`` are dropped, and ``report.left_out`` bounds what
    that leaves out. ``memory`` ("8GiB", or bytes) is a promise: the work fits, or a BudgetError says before it starts
    what would do. With ``out`` the result is added to that tensor (``beta=1``), or put in its place (``beta=0``).
    ``conjugate`` says which operands are conjugated. ``progress`` is True for a bar (tqdm's, where it is installed), or
    a function of the flops done and in all. ``trace`` keeps what devices did when. With ``comm``, a communicator of mpi4py,
    its ranks work together (operands that every rank has whole are dealt first: ``Tensor.on``). Ctrl-C ends the work and leaves
    everything as it was. With ``symmetry`` ("ij=ji", "ijab=jiba") of the tiles of the result that follow from each
    other one is computed and stored; ``fold`` sums over c <= d alone where both operands may exchange c and d.

    >>> import tessera as ts
    >>> t = ts.Tensor.random([[6, 6, 4], [8] * 3, [8] * 3], seed=1)
    >>> v = ts.Tensor.random([[8] * 3] * 4, seed=2)
    >>> r, report = ts.contract("pcd,cdab->pab", t, v, memory="1GiB")
    >>> r, report.products
    (Tensor(float64, shape (16, 24, 24), 27 of 27 tiles, 100.00 % dense), 243)
    """
    settings = _settings(len(operands), alpha, beta, out, filter, memory, threads, devices, device_memory, conjugate,
                         algorithm, blocks, machine, comm, symmetry, fold)
    operands = _dealt(operands, comm, threads)
    settings.trace = bool(trace)
    target = None if out is None else _core_of(out, "out", stored=True)
    if len(operands) == 2:
        with _Bar(spec, progress) as bar:
            result, report = _core.contract_pair(spec, _core_of(operands[0], "A"), _core_of(operands[1], "B"), target,
                                                 settings, bar)
    elif len(operands) == 1:
        result, report = _core.contract_single(spec, _core_of(operands[0], "A", stored=True), target, settings)
    else:
        with _Bar(spec, progress) as bar:
            result, report = _core.contract_list(spec, _cores_of(operands), target, settings, bar)
    return (Tensor(result) if out is None else out), report


class Plan:
    """A contraction that is planned: to be read, simulated, and executed as often as operands have its tiles.

    >>> import tessera as ts
    >>> t = ts.Tensor.random([[8] * 4] * 2, seed=1)
    >>> ts.plan("ij,jk->ik", t, t)
    Plan(ij,jk->ik, 6.55e+04 flops in 64 products)
    """

    def __init__(self, core: _core.Plan | _core.EinsumPlan) -> None:
        self._core = core

    @property
    def spec(self) -> str:
        return self._core.spec

    @property
    def flops(self) -> float:
        return self._core.flops

    @property
    def products(self) -> int:
        """Products of two tiles. (With a filter and more than two operands: 0, they are known step by step.)"""
        return self._core.products

    @property
    def steps(self) -> list[Plan]:
        """Of more than two operands: a plan for each two, none with a filter. Of two: this plan."""
        if isinstance(self._core, _core.Plan):
            return [self]
        return [Plan(step) for step in self._core.steps]

    def explain(self) -> str:
        """The plan for a person: work, memory, algorithm, and why this one."""
        return self._core.explain()

    def on(self, machine: str, ranks: int = 0) -> Plan:
        """The same contraction planned for a machine that need not be there: to be read and simulated.

        ``machine`` is a name ("summit", "frontier", "h200x8", "laptop") or a machine file; ``ranks`` how many processes
        (0: as the machine says).
        """
        return Plan(self._pair("on").on(_machine(machine), ranks))

    def simulate(self, machine: str = "", ranks: int = 0, trace: bool = False) -> Simulation:
        """How long it takes: here, or planned for a described machine (see ``on``). ``trace`` keeps the time line.

        >>> import tessera as ts
        >>> t = ts.Tensor.random([[8] * 4] * 2, seed=1)
        >>> s = ts.plan("ij,jk->ik", t, t).simulate("summit", ranks=4, trace=True)
        >>> s.seconds > 0, len(s.trace) > 0
        (True, True)
        """
        return (self.on(machine, ranks) if machine else self)._pair("simulate").simulate(trace)

    def __call__(self, *operands: Tensor | Generated, out: Tensor | None = None, progress: Progress = False) -> Tensor:
        """The result for these operands."""
        return self.execute(*operands, out=out, progress=progress)[0]

    def execute(self, *operands: Tensor | Generated, out: Tensor | None = None, progress: Progress = False,
                trace: bool = False) -> tuple[Tensor, Report]:
        """The result for these operands, and a report. Operands with other tiles are refused before any work."""
        target = None if out is None else _core_of(out, "out", stored=True)
        with _Bar(self.spec, progress) as bar:
            if not isinstance(self._core, _core.Plan):
                result, report = self._core.execute(_cores_of(operands), target, bar, trace)
            elif len(operands) == 2:
                result, report = self._core.execute(_core_of(operands[0], "A"), _core_of(operands[1], "B"), target, bar,
                                                    trace)
            else:
                raise UserError(f"{len(operands)} operands, but the plan is for 2")
        return (Tensor(result) if out is None else out), report

    def __repr__(self) -> str:
        return f"Plan({self.spec}, {self.flops:.3g} flops in {self.products:,} products)"

    def _repr_html_(self) -> str:
        return plan_html(self.spec, self._core.explain_json(), self.explain())

    def _pair(self, what: str) -> _core.Plan:
        if isinstance(self._core, _core.Plan):
            return self._core
        raise UserError(f"{what}: a plan of more than two operands has one for each step: [s.{what}(...) for s in "
                        "plan.steps]")


def plan(spec: str, *operands: Tensor | Generated, alpha: complex = 1, beta: complex = 0, out: Tensor | None = None,
         filter: float = 0.0, memory: int | str | None = None, threads: int = 0, devices: Sequence[int] = (),
         device_memory: int | str | None = None, conjugate: Sequence[bool] = (), algorithm: str = "auto",
         blocks: str = "auto", machine: str = "", comm: Any = None, symmetry: str = "", fold: bool = False) -> Plan:
    """Plans what ``contract`` would do, with the same arguments; nothing is computed.

    >>> import tessera as ts
    >>> t = ts.Tensor.random([[8] * 4] * 2, seed=1)
    >>> p = ts.plan("ij,jk->ik", t, t, memory="1GiB")
    >>> print(p.explain().splitlines()[0])
    plan for ij,jk->ik (float64)
    >>> p(t, t).equals(ts.contract("ij,jk->ik", t, t)[0])
    True
    """
    settings = _settings(len(operands), alpha, beta, out, filter, memory, threads, devices, device_memory, conjugate,
                         algorithm, blocks, machine, comm, symmetry, fold)
    operands = _dealt(operands, comm, threads)
    target = None if out is None else _core_of(out, "out", stored=True)
    if len(operands) == 2:
        return Plan(_core.plan_pair(spec, _core_of(operands[0], "A"), _core_of(operands[1], "B"), target, settings))
    return Plan(_core.plan_list(spec, _cores_of(operands), target, settings))


def trace(x: Tensor) -> complex:
    """The sum over the diagonal of a matrix.

    >>> import numpy as np, tessera as ts
    >>> ts.trace(ts.Tensor.from_dense(np.eye(5), tile=2))
    5.0
    """
    result, _ = contract("ii->", x)
    return result.to_numpy().item()


def _settings(count: int, alpha: complex, beta: complex, out: Any, filter: float, memory: int | str | None, threads: int,
              devices: Sequence[int], device_memory: int | str | None, conjugate: Sequence[bool], algorithm: str,
              blocks: str, machine: str, comm: Any, symmetry: str, fold: bool) -> _core.Settings:
    s = _core.Settings()
    if out is None and beta != 0:
        raise UserError(f"beta is {beta}, but there is no out to add to")
    try:
        s.alpha, s.beta, s.filter = complex(alpha), complex(beta), float(filter)
        s.threads, s.devices = int(threads), [int(d) for d in devices]
        if conjugate:
            if len(conjugate) != count:
                raise UserError(f"conjugate has {len(conjugate)} entries for {count} operands")
            s.conjugate = [n for n, yes in enumerate(conjugate) if yes]
    except (TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"alpha, beta, filter, threads, devices or conjugate: {error}") from None
    s.memory, s.device_memory = as_bytes(memory, "memory"), as_bytes(device_memory, "device_memory")
    s.algorithm, s.blocks, s.machine = algorithm, blocks, _machine(machine)
    s.symmetry, s.fold = symmetry, bool(fold)
    s.ranks = ranks_of(comm)
    return s


def _dealt(operands: Sequence[Any], comm: Any, threads: int) -> Sequence[Any]:
    """Operands on the communicator."""
    return operands if comm is None else [x.on(comm, threads) if isinstance(x, Tensor) else x for x in operands]


def as_bytes(value: int | str | None, name: str) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return _core.parse_bytes(value)
    if int(value) != value or value <= 0:
        raise UserError(f"{name} {value!r}: a positive number of bytes, or text as '8GiB'")
    return int(value)


def _machine(name: str) -> str:
    """Machine files that come with the package go by their names."""
    here = os.path.join(os.path.dirname(__file__), "machines", f"{name}.json")
    return here if name and os.path.isfile(here) else name


def _core_of(x: Any, name: str, stored: bool = False) -> Any:
    if isinstance(x, Tensor) or (isinstance(x, Generated) and not stored):
        return x._core
    if isinstance(x, Generated):
        raise UserError(f"{name} is made on demand; a stored tensor is needed")
    raise UserError(f"{name} is a {_core.described(x)}; a Tensor is needed (Tensor.from_dense makes one of an array)")


def _cores_of(operands: Sequence[Any]) -> list[Any]:
    return [_core_of(x, f"operand {i}") for i, x in enumerate(operands)]


class _Bar:
    """A progress bar, the caller's own function, or nothing."""

    def __init__(self, what: str, progress: Progress) -> None:
        self._what, self._progress = what, progress
        self._bar: Any = None

    def __enter__(self) -> Callable[[float, float], Any] | None:
        if callable(self._progress):
            return self._progress
        if not self._progress:
            return None
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped]
        except ImportError:
            return self._line
        self._bar = tqdm(total=1.0, desc=self._what, unit_scale=True, unit="flop", leave=False)
        return self._show

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def _show(self, done: float, total: float) -> None:
        self._bar.total = total
        self._bar.n = done
        self._bar.refresh()

    def _line(self, done: float, total: float) -> None:
        print(f"\r{self._what}: {100 * done / total if total else 100:.0f} %", end="\n" if done >= total else "",
              flush=True)
