"""PySCF's closed-shell CCSD and (T), computed by Tessera.

>>> from pyscf import gto, scf                            # doctest: +SKIP
>>> import tessera.pyscf                                  # doctest: +SKIP
>>> mf = scf.RHF(gto.M(atom="N 0 0 0; N 0 0 1.1", basis="cc-pvdz")).run()    # doctest: +SKIP
>>> mycc = tessera.pyscf.CCSD(mf, frozen=2).run()         # doctest: +SKIP
>>> mycc.e_tot + mycc.ccsd_t()                            # doctest: +SKIP

PySCF iterates: its DIIS, its convergence, its files. Each iteration is Tessera's.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
from pyscf import df, lib
from pyscf.cc import ccsd, dfccsd
from pyscf.lib import logger

from . import _core
from ._errors import BackendUnavailable, UserError

__all__ = ["CCSD"]

_TILE = 24  # about this many orbitals in a tile: small enough that the threads' shares are even
_NOT_CANONICAL = 1e-4  # hartree, of an element of the Fock matrix that (T) does not look at


class _Vector(np.ndarray):
    """Amplitudes whose products NumPy takes by itself. Those of its BLAS leave threads behind that wait busily for more,
    on cores that Tessera needs."""

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        if function is np.dot and len(args) == 2:
            return np.einsum("i,i->", *map(np.asarray, args))
        if function is np.linalg.norm and len(args) == 1 and not named:
            return float(np.sqrt(np.einsum("i,i->", np.asarray(args[0]), np.asarray(args[0]))))
        return super().__array_function__(function, types, args, named)


class CCSD(ccsd.CCSD):
    """pyscf.cc.ccsd.CCSD of a real, closed-shell mean field, with the same attributes, methods and results.

    Where the mean field is density-fitted, so is this (``with_df``), as pyscf.cc.dfccsd.RCCSD is. ``threads`` (None:
    PySCF's own number) and ``devices`` say where Tessera works. What is not CCSD or (T), such as solve_lambda or ipccsd,
    is PySCF's and computed by PySCF.
    """

    _keys = {"threads", "devices", "with_df"}

    def __init__(self, mf: Any, frozen: Any = None, mo_coeff: Any = None, mo_occ: Any = None, *,
                 threads: int | None = None, devices: Sequence[int] = ()) -> None:
        if not hasattr(_core, "CoupledCluster"):
            raise BackendUnavailable("this build has no energies: libint2, HDF5 or libpng was missing")
        mf = _closed_shell(mf)
        super().__init__(mf, frozen, mo_coeff, mo_occ)
        _real(self.mo_coeff, "mo_coeff")
        self.threads = threads
        self.devices = list(devices)
        self.with_df = getattr(mf, "with_df", None)
        self._iterating = False
        self._kept: Any = None

    def dump_flags(self, verbose: Any = None) -> Any:
        super().dump_flags(verbose)
        logger.info(self, "Tessera %s on %s", _core.version, f"devices {self.devices}" if self.devices else "cores")
        return self

    def reset(self, mol: Any = None) -> Any:
        if self.with_df:
            self.with_df.reset(mol)
        return super().reset(mol)

    def density_fit(self, auxbasis: Any = None, with_df: Any = None) -> Any:
        other = self.copy()
        other.with_df = with_df or getattr(self._scf, "with_df", None) or _fitting(self.mol)
        if other.with_df.auxbasis != auxbasis:
            other.with_df = other.with_df.copy()
            other.with_df.auxbasis = auxbasis
        return other

    def ao2mo(self, mo_coeff: Any = None) -> Any:
        if not self.with_df:
            return super().ao2mo(mo_coeff)
        if self.direct:
            raise UserError("direct: density-fitted integrals are not made from basis functions; set direct to False")
        return dfccsd._make_df_eris(self, mo_coeff)

    def ccsd(self, t1: Any = None, t2: Any = None, eris: Any = None, *more: Any) -> Any:
        self._iterating = True
        try:
            return super().ccsd(t1, t2, eris, *more)
        finally:
            self._iterating, self._kept = False, None

    def amplitudes_to_vector(self, t1: Any, t2: Any, out: Any = None) -> np.ndarray:
        pairs = t1.size
        if all(type(x) is np.ndarray and x.dtype == np.float64 and x.flags.c_contiguous for x in (t1, t2)):
            vector = np.ndarray(pairs * (pairs + 3) // 2, buffer=out)
            _core.CoupledCluster.pack(t1, t2, vector)
        else:
            vector = super().amplitudes_to_vector(t1, t2, out)
        return vector.view(_Vector) if self._iterating else vector

    def vector_to_amplitudes(self, vector: Any, nmo: int | None = None, nocc: int | None = None
                             ) -> tuple[np.ndarray, np.ndarray]:
        vector = np.asarray(vector)
        nocc, nmo = self.nocc if nocc is None else nocc, self.nmo if nmo is None else nmo
        if vector.dtype != np.float64 or not vector.flags.c_contiguous:
            return super().vector_to_amplitudes(vector, nmo, nocc)
        t1, t2 = np.empty((nocc, nmo - nocc)), np.empty((nocc, nocc, nmo - nocc, nmo - nocc))
        _core.CoupledCluster.unpack(vector, t1, t2)
        return t1, t2

    def update_amps(self, t1: Any, t2: Any, eris: Any) -> tuple[np.ndarray, np.ndarray]:
        if self.cc2:
            raise UserError("cc2: CC2 is pyscf.cc.rccsd.RCCSD's")
        solver = self._solver_for(eris)
        nocc = t1.shape[0]
        energies = np.array(eris.mo_energy, dtype=float)
        energies[nocc:] += self.level_shift
        solver.set_energies(energies.tolist())
        next1, next2 = np.empty(t1.shape), np.empty(t2.shape)
        solver.next(t1, t2, next1, next2)
        return next1, next2

    def energy(self, t1: Any = None, t2: Any = None, eris: Any = None) -> float:
        if self._kept is None or self._kept[0] is not eris:
            return super().energy(t1, t2, eris)
        return self._kept[1].energy(self.t1 if t1 is None else t1, self.t2 if t2 is None else t2)

    def ccsd_t(self, t1: Any = None, t2: Any = None, eris: Any = None) -> float:
        start = logger.process_clock(), logger.perf_counter()
        t1 = self.t1 if t1 is None else t1
        t2 = self.t2 if t2 is None else t2
        eris = self.ao2mo(self.mo_coeff) if eris is None else eris
        nocc = t1.shape[0]
        fock = _real(eris.fock, "fock")
        left_out = max(np.abs(block - np.diag(np.diag(block))).max(initial=0.0)
                       for block in (fock[:nocc, :nocc], fock[nocc:, nocc:]))
        if left_out > _NOT_CANONICAL:
            logger.warn(self, "(T) is for canonical orbitals: elements of the Fock matrix up to %.1e are left out", left_out)
        solver = self._solver(eris, with_vvvv=False)
        solver.set_energies(np.asarray(eris.mo_energy, dtype=float).tolist())
        e = solver.triples(_real(t1, "t1"), _real(t2, "t2"))
        logger.timer(self, f"{self.__class__.__name__}(T)", *start)
        logger.note(self, "%s(T) correction = %.15g", self.__class__.__name__, e)
        return e

    def _solver_for(self, eris: Any) -> Any:
        """Kept through the iterations of one kernel(), where nobody changes the integrals."""
        if self._kept is not None and self._kept[0] is eris:
            return self._kept[1]
        solver = self._solver(eris, with_vvvv=True)
        if self._iterating:
            self._kept = eris, solver
        return solver

    def _solver(self, eris: Any, with_vvvv: bool) -> Any:
        nocc, nvir = eris.ovov.shape[:2]
        ovoo = _real(eris.ovoo, "ovoo")
        vvvv, functions = _vvvv_rows(self, eris, nocc, nvir) if with_vvvv else (None, None)
        return _core.CoupledCluster(
            _real_or_zero(eris.oooo, "oooo", (nocc,) * 4), ovoo.transpose(2, 3, 0, 1),
            _real_or_zero(eris.oovv, "oovv", (nocc, nocc, nvir, nvir)), _real(eris.ovov, "ovov"),
            _ovvv_rows(eris, nvir), vvvv, functions, self._keeps(nvir), _real(eris.fock, "fock"),
            lib.num_threads() if self.threads is None else self.threads, self.devices, _TILE)

    def _keeps(self, nvir: int) -> bool:
        pairs = nvir * (nvir + 1) // 2
        return self.incore_complete or 3 * 8e-6 * pairs**2 < self.max_memory - lib.current_memory()[0]


def _fitting(mol: Any) -> Any:
    """PySCF's fitting of correlation, for a mean field that has none."""
    made = df.DF(mol)
    made.auxbasis = df.make_auxbasis(mol, mp2fit=True)
    return made


def _closed_shell(mf: Any) -> Any:
    for kind, instead in (("UHF", "pyscf.cc.UCCSD"), ("ROHF", "pyscf.cc.UCCSD"), ("GHF", "pyscf.cc.GCCSD"),
                          ("DHF", "pyscf.cc.GCCSD")):
        if mf.istype(kind):
            raise UserError(f"mf is {kind}: tessera.pyscf.CCSD is for closed shells (RHF); {instead} does this")
    if hasattr(mf, "kpt") or hasattr(mf, "kpts"):
        raise UserError("mf is periodic: pyscf.pbc.cc.CCSD does this")
    mf = mf.remove_soscf()
    return mf if mf.istype("RHF") else mf.to_rhf()


def _real(x: Any, name: str) -> Any:
    x = np.asarray(x)
    if np.iscomplexobj(x):
        raise UserError(f"{name} is complex: tessera.pyscf.CCSD is for real orbitals; pyscf.cc.rccsd.RCCSD does this")
    return x


def _real_or_zero(x: Any, name: str, shape: tuple[int, ...]) -> Any:
    """What (T) does not look at need not be there."""
    return np.broadcast_to(np.zeros(()), shape) if x is None else _real(x, name)


def _packed(x: Any) -> np.ndarray:
    """(..|bc) by pairs b >= c, of both of PySCF's layouts."""
    x = _real(x, "integrals")
    if x.ndim == 4:
        x = lib.pack_tril(x.reshape(-1, *x.shape[2:]))
    return np.ascontiguousarray(x, dtype=float)


def _ovvv_rows(eris: Any, nvir: int) -> Any:
    if eris.ovvv is None:
        return lambda first, count: _packed(eris.get_ovvv(slice(first, first + count)))
    return lambda first, count: _packed(eris.ovvv[first : first + count])


def _vvvv_rows(mycc: Any, eris: Any, nocc: int, nvir: int) -> tuple[Any, Any]:
    """(ac|bd) by pairs, or what reads it for some a, all c and pairs b >= d; and the virtual orbitals where a, b, c, d are
    functions."""
    if getattr(eris, "vvL", None) is not None:
        fitted = np.asarray(eris.vvL)

        def from_fitted(first: int, count: int) -> np.ndarray:
            return lib.ddot(fitted[_pairs(first, count, nvir)], fitted.T)

        return from_fitted, None
    vvvv = eris.vvvv
    if mycc.direct or vvvv is None or len(vvvv) == 0:
        return _direct_rows(eris.mol), _real(eris.mo_coeff, "mo_coeff")[:, nocc:]
    if vvvv.ndim == 4:
        return lambda first, count: _packed(vvvv[first : first + count]), None
    if isinstance(vvvv, np.ndarray):
        return np.ascontiguousarray(_real(vvvv, "vvvv"), dtype=float), None

    def from_file(first: int, count: int) -> np.ndarray:
        """Rows lie together for a >= c, and for one c > a."""
        out = np.empty((count, nvir, vvvv.shape[1]))
        for a in range(first, first + count):
            out[a - first, : a + 1] = vvvv[a * (a + 1) // 2 : (a + 1) * (a + 2) // 2]
        for c in range(first + 1, nvir):
            upto = min(c, first + count)  # of the a below c
            out[: upto - first, c] = vvvv[c * (c + 1) // 2 + first : c * (c + 1) // 2 + upto]
        return out

    return from_file, None


def _pairs(first: int, count: int, n: int) -> np.ndarray:
    """Where the pairs of a, from first on, with all c stand."""
    a, c = np.ogrid[first : first + count, :n]
    high, low = np.maximum(a, c), np.minimum(a, c)
    return (high * (high + 1) // 2 + low).ravel()


def _direct_rows(mol: Any) -> Any:
    """(mx|ny) over basis functions, for some m, all x and pairs n >= y."""
    begin = np.asarray(mol.ao_loc_nr())
    name = mol._add_suffix("int2e")

    def rows(first: int, count: int) -> np.ndarray:
        low, high = np.searchsorted(begin, first, "right") - 1, np.searchsorted(begin, first + count)
        shells = (low, high) + (0, mol.nbas) * 3
        made = mol.intor(name, aosym="s2kl", shls_slice=shells).reshape(begin[high] - begin[low], begin[-1], -1)
        return np.ascontiguousarray(made[first - begin[low] : first - begin[low] + count])

    return rows
