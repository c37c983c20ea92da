"""Energies of molecules."""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence, Union

from . import _core
from ._contract import as_bytes
from ._errors import BackendUnavailable, UserError

BOHR = 0.52917721067  # in angstrom

Atoms = Sequence[tuple[str, Sequence[float]]]


def energy(molecule: Union[str, os.PathLike[str], Atoms], basis: str = "def2-svp", method: str = "ccsd(t)", *,
           charge: int = 0, reference: str = "rhf", multiplicity: int = 0, unit: str = "angstrom",
           frozen_core: bool = False, level_shift: float = 0.0, damping: float = 0.0, stability: str = "check",
           dipole: bool = False, fno: float | None = None, integrals: str = "conventional",
           abcd: str = "stored", screen: float = 0.0, jkfit: str = "", rifit: str = "", converge: float = 1e-8,
           max_iterations: int = 100, memory: int | str | None = None, threads: int = 0, devices: Sequence[int] = (),
           device_memory: int | str | None = None, checkpoint: str = "", scratch: str = "", tile: int = 32,
           log: Union[bool, Callable[[str], Any]] = False) -> _core.Energies:
    """Hartree-Fock, MP2, CCSD or CCSD(T) of a molecule. Energies are in hartree.

    ``molecule`` is an xyz file, whose coordinates are in angstrom, or a list of atoms ``("O", (x, y, z))`` in ``unit``
    ("angstrom" or "bohr"). ``basis`` is a name (sto-3g, def2-svp, def2-tzvp, cc-pvdz, cc-pvtz, aug-cc-pvdz) or a .g94
    file, ``method`` "rhf", "mp2", "ri-mp2", "ccsd" or "ccsd(t)". ``integrals="df"`` fits integrals with auxiliary functions.
    Open shells have ``reference="uhf"`` or ``"rohf"`` and a ``multiplicity`` (2 S + 1; 0: the lowest); ``level_shift``,
    ``damping`` and ``stability`` ("none", "check", "follow") are theirs, and ``dipole=True`` asks for the moment of their CCSD.
    ``fno=1e-4`` leaves natural orbitals of MP2 with a lower occupation out of CCSD and (T) and corrects the energy.
    ``memory`` is of the whole process: what may need more is refused before it starts. ``log=True`` prints each step. An
    iteration that does not converge is a NotConverged.

    >>> import tessera as ts
    >>> h2 = ts.energy([("H", (0, 0, 0)), ("H", (0, 0, 1.4))], "sto-3g", "ccsd", unit="bohr")
    >>> print(f"{h2.rhf:.6f} {h2.total:.6f}")
    -1.116714 -1.137276
    >>> far = ts.energy([("H", (0, 0, 0)), ("H", (0, 0, 50))], "sto-3g", reference="uhf", multiplicity=3)
    >>> print(f"{far.total:.6f} {far.s_squared:.1f}")
    -0.933164 2.0
    """
    if not hasattr(_core, "energy"):
        raise BackendUnavailable("this build has no energies: libint2, HDF5 or libpng was missing")
    if integrals not in ("conventional", "df"):
        raise UserError(f"integrals {integrals!r}: 'conventional' or 'df'")
    if abcd not in ("stored", "direct"):
        raise UserError(f"abcd {abcd!r}: 'stored' or 'direct'")
    options = _core.EnergyOptions()
    try:
        options.frozen_core, options.converge, options.max_iterations = bool(frozen_core), converge, max_iterations
        options.screen, options.tile, options.threads = screen, tile, threads
        options.multiplicity, options.level_shift, options.damping = multiplicity, level_shift, damping
        options.dipole, options.fno = bool(dipole), fno
        options.devices = [int(d) for d in devices]
    except (TypeError, ValueError, OverflowError):
        raise UserError("converge, max_iterations, screen, tile, threads, multiplicity, level_shift, damping, fno or "
                        "devices is no number") from None
    options.memory, options.device_memory = as_bytes(memory, "memory"), as_bytes(device_memory, "device_memory")
    options.df, options.direct = integrals == "df", abcd == "direct"
    here = os.path.join(os.path.dirname(__file__), "basis")
    text = [basis, here, jkfit, rifit, checkpoint, scratch, reference, stability]
    if not all(isinstance(x, str) for x in [method, *text]):
        raise UserError("basis, method, jkfit, rifit, checkpoint, scratch, reference and stability are text")
    return _core.energy(_molecule(molecule, charge, unit), method, options, text,
                        print if log is True else log if callable(log) else None)


def _molecule(molecule: Any, charge: int, unit: str) -> Any:
    if not isinstance(charge, int):
        raise UserError(f"charge {charge!r} is no whole number")
    if isinstance(molecule, (str, os.PathLike)):
        if unit != "angstrom":
            raise UserError(f"unit {unit!r}: coordinates of xyz files are in angstrom")
        return _core.read_xyz(os.fspath(molecule), charge)
    if unit not in ("angstrom", "bohr"):
        raise UserError(f"unit {unit!r}: 'angstrom' or 'bohr'")
    scale = 1 / BOHR if unit == "angstrom" else 1.0
    atoms = []
    try:
        for symbol, (x, y, z) in molecule:
            atoms.append((str(symbol), float(x) * scale, float(y) * scale, float(z) * scale))
    except (TypeError, ValueError):
        raise UserError("molecule: the path of an xyz file, or a list of atoms as ('O', (0.0, 0.0, 0.1)), is needed"
                        ) from None
    return _core.molecule(atoms, charge, "atoms")
