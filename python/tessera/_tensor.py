"""Block-sparse tensors."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _core
from ._devices import DeviceArray, is_there, tensor_there
from ._errors import BackendUnavailable, UserError
from ._picture import html
from ._ranks import ranks_of


class Tensor:
    """A block-sparse tensor: each index is cut into tiles, and only the nonzero blocks are stored.

    Its elements do not change, save by ``contract(..., out=tensor)``; the blocks are read-only NumPy views.

    >>> import numpy as np, tessera as ts
    >>> t = ts.Tensor.from_blocks([[2, 3], [4]], [(0, 0)], [np.ones((2, 4))])
    >>> t
    Tensor(float64, shape (5, 4), 1 of 2 tiles, 40.00 % dense)
    """

    __slots__ = ("_core",)
    __array_ufunc__ = None  # NumPy shall not take it for a number
    _core: _core.Tensor

    def __init__(self, *arguments: Any) -> None:
        if len(arguments) != 1 or not isinstance(arguments[0], _core.Tensor):
            raise TypeError("Tensor.from_blocks, Tensor.from_dense, Tensor.random and load make tensors")
        self._core = arguments[0]

    # How tensors are made.

    @classmethod
    def from_blocks(cls, tilings: Sequence[Sequence[int]], coords: ArrayLike, blocks: Iterable[Any],
                    dtype: DTypeLike | None = None, threads: int = 0, comm: Any = None) -> Tensor:
        """From its nonzero blocks.

        ``tilings`` has the sizes of the tiles of each index, ``coords`` the tile coordinates of each block, and
        ``blocks`` arrays of any strides (or whatever has ``__dlpack__`` on the host). They are copied once. With
        ``comm`` (see ``on``) each rank gives some of the blocks, any of them, and each goes to the rank that stores it.

        >>> import numpy as np, tessera as ts
        >>> t = ts.Tensor.from_blocks([[2, 1], [2, 2]], [(0, 1), (1, 0)], [np.eye(2), np.ones((1, 2))])
        >>> t.to_numpy()
        array([[0., 0., 1., 0.],
               [0., 0., 0., 1.],
               [1., 1., 0., 0.]])
        """
        from ._einsum import as_array

        sizes = as_tilings(tilings)
        places = as_coords(coords, sizes)
        arrays = [as_array(x, f"block {i}") for i, x in enumerate(blocks)]
        if len(arrays) != len(places):
            raise UserError(f"{len(arrays)} blocks, but coordinates of {len(places)}")
        numbers, kind = _ordinals(places, sizes), None if dtype is None else np.dtype(dtype).name
        ranks = ranks_of(comm)
        if ranks is not None:
            return cls(_core.Tensor.from_blocks_on(ranks, sizes, numbers, arrays, kind, threads))
        return cls(_core.Tensor.from_blocks(sizes, numbers, arrays, kind, threads))

    @classmethod
    def from_dense(cls, array: Any, tile: str | int | Sequence[Sequence[int]] = "auto", drop: float = 0.0,
                   comm: Any = None) -> Tensor:
        """From an array (with ``comm``: the same on all ranks). Tiles whose norm is at most ``drop`` are not stored.

        ``tile`` is the tiles' size along each index, the sizes of all tiles (as ``tilings`` has them), or "auto": tiles
        of about 4096 elements.

        >>> import numpy as np, tessera as ts
        >>> ts.Tensor.from_dense(np.eye(8), tile=2)
        Tensor(float64, shape (8, 8), 4 of 16 tiles, 25.00 % dense)
        """
        from ._einsum import as_array

        if is_there(array):
            if comm is not None:
                raise UserError("from_dense: an array on a device is of this process, comm is for those of the host")
            core = tensor_there(array, "the array", _sizes_of_tiles(tile, tuple(int(n) for n in array.shape)))
            return cls(core.filter(float(np.nextafter(drop, np.inf))))
        x = np.ascontiguousarray(as_array(array, "the array")).reshape(np.shape(array))
        sizes = _sizes_of_tiles(tile, x.shape)
        return cls(_core.Tensor.from_dense(sizes, x, drop, ranks_of(comm)))

    @classmethod
    def random(cls, tilings: Sequence[Sequence[int]], coords: ArrayLike | None = None, norms: ArrayLike = 1.0,
               seed: int = 0, dtype: DTypeLike = "float64", threads: int = 0, comm: Any = None) -> Tensor:
        """Uniform random numbers, the same for a seed on every machine. Without ``coords`` every tile is nonzero.

        >>> import tessera as ts
        >>> ts.Tensor.random([[2, 3], [4, 4]], coords=[(0, 0), (1, 1)], seed=1)
        Tensor(float64, shape (5, 8), 2 of 4 tiles, 50.00 % dense)
        """
        sizes = as_tilings(tilings)
        places = every_tile(sizes) if coords is None else as_coords(coords, sizes)
        return cls(_core.Tensor.random(sizes, _ordinals(places, sizes), as_norms(norms, len(places)), seed,
                                       np.dtype(dtype).name, threads, ranks_of(comm)))

    # What a tensor is.

    @property
    def tilings(self) -> list[list[int]]:
        """The sizes of the tiles of each index."""
        return self._core.tilings

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each index."""
        return tuple(sum(sizes) for sizes in self.tilings)

    @property
    def ndim(self) -> int:
        return len(self._core.tilings)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self._core.dtype)

    @property
    def coords(self) -> np.ndarray:
        """Tile coordinates of the nonzero blocks, one row each, in ascending order."""
        counts = tuple(len(sizes) for sizes in self.tilings)
        ordinals = self._core.ordinals
        if not counts:
            return np.zeros([len(ordinals), 0], np.int64)
        return np.stack(np.unravel_index(ordinals, counts), axis=-1).astype(np.int64).reshape(-1, len(counts))

    @property
    def norms(self) -> np.ndarray:
        """Frobenius norms of the nonzero blocks, in the order of ``coords``."""
        return self._core.norms

    @property
    def blocks(self) -> list[np.ndarray | DeviceArray | None]:
        """The nonzero blocks, in the order of ``coords``: read-only views, nothing is copied. None where another rank
        stores the block; a DeviceArray, for ``cupy.from_dlpack`` and the like, where a device does.

        >>> import tessera as ts
        >>> t = ts.Tensor.random([[2, 3], [4]], seed=1)
        >>> ts.Tensor.from_blocks(t.tilings, t.coords, t.blocks).checksum == t.checksum
        True
        """
        return [self._block(slot) for slot in range(self._core.tile_count)]

    @property
    def density(self) -> float:
        """The share of elements in nonzero blocks."""
        return self._core.density

    @property
    def nbytes(self) -> int:
        """Bytes of the elements of nonzero blocks."""
        return self._core.elements * self.dtype.itemsize

    @property
    def checksum(self) -> str:
        """Of tilings, nonzero tiles and bits: equal for bitwise equal tensors, on every machine."""
        return f"{self._core.checksum:016x}"

    def tile(self, *coords: int) -> np.ndarray | DeviceArray:
        """One block, by its tile coordinates: a read-only view, of zeros where the block is zero. A DeviceArray where a
        device stores it.

        >>> import numpy as np, tessera as ts
        >>> ts.Tensor.from_dense(np.eye(4), tile=2).tile(1, 1)
        array([[1., 0.],
               [0., 1.]])
        """
        sizes = self._core.tilings
        if len(coords) == 1 and isinstance(coords[0], (tuple, list, np.ndarray)):
            coords = tuple(coords[0])
        places = as_coords([coords], sizes)
        slot = self._core.find(int(_ordinals(places, sizes)[0]))
        if slot is not None:
            block = self._block(slot)
            if block is None:
                raise UserError(f"tile {tuple(int(i) for i in coords)} is stored by rank {self._core.owner(slot)}; "
                                "gather() brings all of them to one")
            return block
        if self.symmetry:
            raise UserError(f"tile {tuple(int(i) for i in coords)} is not among those that are stored, and the tensor has the "
                            f"symmetry '{self.symmetry}'; desymmetrise() has all")
        return np.broadcast_to(self.dtype.type(0), tuple(s[int(i)] for s, i in zip(sizes, coords)))

    def to_numpy(self, out: np.ndarray | None = None) -> np.ndarray:
        """The dense array, zeros included: a new one, or ``out`` (of any strides)."""
        if out is None:
            out = np.zeros(self.shape, self.dtype)
        else:
            if not isinstance(out, np.ndarray) or out.shape != self.shape or out.dtype != self.dtype:
                raise UserError(f"out is a {_core.described(out)}; a {self.dtype} array of shape {self.shape} is needed")
            out[...] = 0
        self._on_host().to_dense(out)
        return out

    def _on_host(self) -> _core.Tensor:
        return _core.to_host(self._core) if self.devices else self._core

    def _block(self, slot: int) -> np.ndarray | DeviceArray | None:
        device = _core.device_of(self._core, slot) if self.devices else -1
        if device < 0:
            return self._core.tile(slot)
        at = np.unravel_index(self._core.ordinals[slot], tuple(len(sizes) for sizes in self.tilings))
        return DeviceArray(self._core, slot, tuple(s[int(i)] for s, i in zip(self.tilings, at)), device)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an HDF5 file, which h5py reads too; an old file is replaced in one step."""
        _files().save(self._on_host(), os.fspath(path))

    # Symmetry: of blocks that follow from each other by exchanging indices one is stored.

    @property
    def symmetry(self) -> str:
        """Relations such as "ij=ji", "ij=-ji", "ij=ji*" or "ijab=jiba"; "" where there is none."""
        return self._core.symmetry

    def with_symmetry(self, relations: str, tolerance: float = 0.0) -> Tensor:
        """The blocks that are stored with this symmetry, which the tensor has up to ``tolerance`` times its norm.

        >>> import numpy as np, tessera as ts
        >>> s = ts.Tensor.from_dense(np.ones((4, 4)), tile=2).with_symmetry("ij=ji")
        >>> s
        Tensor(float64, shape (4, 4), 3 of 4 tiles, 75.00 % dense, ij=ji)
        >>> bool((s.to_numpy() == 1).all())
        True
        """
        return Tensor(self._core.with_symmetry(relations, float(tolerance)))

    def desymmetrise(self) -> Tensor:
        """All blocks, without symmetry."""
        return Tensor(self._core.desymmetrise())

    # On devices.

    @property
    def devices(self) -> list[int]:
        """The GPUs that store it; none: the host does."""
        return _core.devices_of(self._core)

    def to_devices(self, devices: Sequence[int] = (0,), memory: int | str | None = None) -> Tensor:
        """The same tensor in the memory of GPUs (of ``memory`` bytes each; what does not fit stays on the host).

        What is contracted of such tensors is computed there and stays there; nothing is loaded or stored.

        >>> t = ts.Tensor.random([[64] * 8] * 2, seed=1).to_devices([0])      # doctest: +SKIP
        >>> ts.contract("ij,jk->ik", t, t)[0].to_host()                       # doctest: +SKIP
        """
        from ._contract import as_bytes

        try:
            numbers = [int(d) for d in devices]
        except (TypeError, ValueError):
            raise UserError(f"devices {devices!r}: numbers of GPUs are needed, as [0]") from None
        if not numbers:
            raise UserError("to_devices: there is no device; to_host() brings a tensor to the host")
        return Tensor(_core.to_devices(self._core, numbers, as_bytes(memory, "memory")))

    def to_host(self) -> Tensor:
        """The same tensor in the memory of the host."""
        return Tensor(_core.to_host(self._core)) if self.devices else self

    # On several ranks.

    @property
    def ranks(self) -> int:
        """How many processes store it together."""
        return self._core.ranks

    def on(self, comm: Any, threads: int = 0) -> Tensor:
        """The same tensor, which every rank has whole, stored by all ranks of a communicator of mpi4py together.

        Each keeps its own tiles; ``coords``, ``norms`` and ``shape`` stay those of all. Whatever makes, contracts, saves
        or sums such tensors is collective: every rank calls it, in the same order, and gets the bits of one rank alone.

        >>> from mpi4py import MPI                                          # doctest: +SKIP
        >>> t = ts.Tensor.random([[8] * 4] * 2, seed=1).on(MPI.COMM_WORLD)  # doctest: +SKIP
        >>> ts.contract("ij,jk->ik", t, t)[0].checksum                      # doctest: +SKIP
        """
        ranks = ranks_of(comm)
        return self if ranks is None else Tensor(self._core.deal(ranks, threads))

    def gather(self, root: int = 0) -> Tensor:
        """The whole tensor in the process of rank ``root``; on the others one of the same tilings without tiles."""
        return Tensor(self._core.gather(root))

    # Algebra.

    def norm(self) -> float:
        """The Frobenius norm."""
        return self._core.norm

    def filter(self, threshold: float) -> Tensor:
        """Without the blocks whose norm is below the threshold."""
        return Tensor(self._core.filter(threshold))

    def astype(self, dtype: DTypeLike) -> Tensor:
        """With elements of another type; complex to real only where every imaginary part is zero."""
        return Tensor(self._core.convert(np.dtype(dtype).name))

    def transpose(self, axes: Sequence[int] | None = None) -> Tensor:
        """Index d of the result is index ``axes[d]`` of this; all reversed without ``axes``."""
        from ._einsum import transpose

        return transpose(self, axes)

    def equals(self, other: Tensor) -> bool:
        """Same tilings, same nonzero blocks, same bits."""
        return self._core.equals(other._core)

    def __add__(self, other: Tensor) -> Tensor:
        return self._sum(1, other, 1)

    def __sub__(self, other: Tensor) -> Tensor:
        return self._sum(1, other, -1)

    def __mul__(self, factor: complex) -> Tensor:
        if not isinstance(factor, (int, float, complex, np.number)):
            return NotImplemented
        return self._sum(factor, self, 0)

    __rmul__ = __mul__

    def __truediv__(self, divisor: complex) -> Tensor:
        return self * (1 / divisor)

    def __neg__(self) -> Tensor:
        return self * -1

    def _sum(self, alpha: complex, other: Tensor, beta: complex) -> Tensor:
        if not isinstance(other, Tensor):
            return NotImplemented
        return Tensor(_core.add(complex(alpha), self._core, complex(beta), other._core))

    # For a person.

    def __repr__(self) -> str:
        total = int(np.prod([len(sizes) for sizes in self.tilings], dtype=np.int64))
        return (f"Tensor({self.dtype}, shape {self.shape}, {self._core.tile_count:,} of {total:,} tiles, "
                f"{100 * self.density:.2f} % dense{', ' if self.symmetry else ''}{self.symmetry})")

    def _repr_html_(self) -> str:
        return html(self)

    def __reduce__(self) -> tuple:
        if self.ranks > 1:
            raise UserError(f"a tensor on {self.ranks} ranks cannot be pickled; gather() brings it to one")
        blocks = [b.copy() for b in self.to_host().blocks]
        return (_unpickled, (self.tilings, self.coords, blocks, self.dtype.name, self.symmetry))


def _unpickled(tilings: Any, coords: Any, blocks: Any, dtype: str, symmetry: str = "") -> Tensor:
    tensor = Tensor.from_blocks(tilings, coords, blocks, dtype)
    return Tensor(tensor._core.from_stored(symmetry)) if symmetry else tensor


class TileInfo(NamedTuple):
    """Which tile a function is to fill.

    >>> import tessera as ts
    >>> ts.TileInfo(coords=(1, 0), shape=(2, 3), begin=(2, 0)).begin
    (2, 0)
    """

    coords: tuple[int, ...]  # of the tile
    shape: tuple[int, ...]
    begin: tuple[int, ...]  # the first element along each index


class Generated:
    """A tensor that is never stored: ``generated`` makes it.

    >>> import tessera as ts
    >>> ts.generated([[2, 2], [3]], None, 10.0, lambda info, out: out.fill(1))
    Generated(float64, shape (4, 3))
    """

    __slots__ = ("_core", "_tilings", "dtype")

    def __init__(self, core: Any, tilings: list[list[int]], dtype: np.dtype) -> None:
        self._core, self._tilings, self.dtype = core, tilings, dtype

    @property
    def tilings(self) -> list[list[int]]:
        """The sizes of the tiles of each index."""
        return self._tilings

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(sum(sizes) for sizes in self._tilings)

    @property
    def ndim(self) -> int:
        return len(self._tilings)

    def __repr__(self) -> str:
        return f"Generated({self.dtype}, shape {self.shape})"


def generated(tilings: Sequence[Sequence[int]], coords: ArrayLike | None, norms: ArrayLike,
              fill: Callable[[TileInfo, np.ndarray], Any], dtype: DTypeLike = "float64") -> Generated:
    """A tensor whose tiles are made when a contraction needs them, by ``fill(info, out)``.

    ``fill`` writes the tile ``info`` into the array ``out``; it must depend on the tile alone, and is called under the
    GIL from several threads. ``norms`` are upper bounds of the tiles' norms. Without ``coords`` every tile is nonzero.

    >>> import numpy as np, tessera as ts
    >>> def fill(info, out):
    ...     out[...] = info.begin[0]
    >>> v = ts.generated([[2, 2], [3]], None, 10.0, fill)
    >>> ts.contract("ij,jk->ik", v, ts.Tensor.from_dense(np.ones((3, 1)), tile=3))[0].to_numpy()
    array([[0.],
           [0.],
           [6.],
           [6.]])
    """
    sizes = as_tilings(tilings)
    places = every_tile(sizes) if coords is None else as_coords(coords, sizes)

    def call(at: list[int], extents: list[int], begin: list[int], out: np.ndarray) -> None:
        fill(TileInfo(tuple(at), tuple(extents), tuple(begin)), out)

    core = _core.generated(sizes, _ordinals(places, sizes), as_norms(norms, len(places)), call, np.dtype(dtype).name)
    return Generated(core, sizes, np.dtype(dtype))


def load(path: str | os.PathLike[str], threads: int = 0, comm: Any = None, name: str | None = None) -> Tensor:
    """The tensor of a file that ``save`` or the command line wrote; its elements, norms and checksum are verified.

    With ``comm`` (see ``Tensor.on``) rank 0 reads it for all ranks. Files of TeNPy are read too, where h5py is installed:
    ``name`` says which array of the file, where it has several. Its blocks are the tiles, in the order of its legs; charges
    and labels are left behind.

    >>> import os, tempfile, tessera as ts
    >>> t = ts.Tensor.random([[2, 3], [4]], seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:              # doctest: +SKIP
    ...     t.save(os.path.join(folder, "t.h5"))
    ...     ts.load(os.path.join(folder, "t.h5")).equals(t)
    True
    >>> b = ts.load("psi.h5", name="/psi/tensors/3")               # doctest: +SKIP
    """
    from ._tenpy import load as load_of_tenpy

    if name is None:
        try:
            return Tensor(_files().load(os.fspath(path), threads, ranks_of(comm)))
        except UserError:
            found = load_of_tenpy(os.fspath(path), None, threads, comm)
            if found is None:
                raise
    else:
        found = load_of_tenpy(os.fspath(path), name, threads, comm)
    return found


def dot(x: Tensor, y: Tensor) -> complex:
    """The sum of conj(x) y: the same bits on any number of threads.

    >>> import numpy as np, tessera as ts
    >>> x = ts.Tensor.from_dense(np.arange(4.0), tile=2)
    >>> ts.dot(x, x)
    14.0
    """
    return _core.dot(_stored(x, "x"), _stored(y, "y"))


def norm(x: Tensor) -> float:
    """The Frobenius norm.

    >>> import numpy as np, tessera as ts
    >>> ts.norm(ts.Tensor.from_dense(np.array([3.0, 4.0])))
    5.0
    """
    return _stored(x, "x").norm


def _files() -> Any:
    if not hasattr(_core, "save"):
        raise BackendUnavailable("this build has no files: HDF5 and libpng were missing")
    return _core


def _stored(x: Any, name: str) -> _core.Tensor:
    if not isinstance(x, Tensor):
        raise UserError(f"{name} is a {_core.described(x)}; a Tensor is needed")
    return x._core


def as_tilings(tilings: Any) -> list[list[int]]:
    """Checked: whole numbers, each at least 1."""
    out = []
    try:
        for d, sizes in enumerate(tilings):
            out.append([int(n) for n in sizes])
            if any(int(n) != n or n < 1 for n in sizes):
                raise UserError(f"tilings: index {d} has tiles of {list(sizes)}; whole numbers from 1 on are needed")
    except TypeError:
        raise UserError(f"tilings {tilings!r}: the sizes of the tiles of each index are needed, as [[6, 6, 4], [8, 8]]"
                        ) from None
    return out


def as_coords(coords: Any, tilings: list[list[int]]) -> np.ndarray:
    """Checked tile coordinates, one row for each tile."""
    rank = len(tilings)
    try:
        given = np.asarray(coords)
        if given.shape == (0,):
            given = np.zeros((0, rank), np.int64)
        whole = given.astype(np.int64)
    except (TypeError, ValueError):
        raise UserError(f"coords are no array of whole numbers with {rank} columns") from None
    if whole.ndim != 2 or whole.shape[1] != rank:
        raise UserError(f"coords have shape {given.shape}; one row of {rank} for each tile is needed")
    if given.dtype.kind not in "iu" and not np.array_equal(whole, given):
        raise UserError(f"coords are of type {given.dtype}; whole numbers are needed")
    counts = np.array([len(sizes) for sizes in tilings], np.int64)
    wrong = ((whole < 0) | (whole >= counts)).any(axis=1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise UserError(f"coords: tile {i} is at {tuple(whole[i].tolist())}, but there are {tuple(counts.tolist())} "
                        "tiles")
    return whole


def as_norms(norms: Any, count: int) -> np.ndarray:
    try:
        out = np.ascontiguousarray(norms, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise UserError("norms are neither a number nor an array of numbers") from None
    if np.ndim(norms) > 1 or (np.ndim(norms) == 1 and len(out) != count):
        raise UserError(f"norms have shape {np.shape(norms)}; one number for all tiles, or one for each of {count}")
    return out if np.ndim(norms) or count == 0 else np.full(count, out[0])


def every_tile(tilings: list[list[int]]) -> np.ndarray:
    counts = tuple(len(sizes) for sizes in tilings)
    return np.indices(counts).reshape(len(counts), -1).T.astype(np.int64)


def _ordinals(places: np.ndarray, tilings: list[list[int]]) -> np.ndarray:
    if not tilings:
        return np.zeros(len(places), np.int64)
    counts = tuple(len(sizes) for sizes in tilings)
    return np.ascontiguousarray(np.ravel_multi_index(tuple(places.T), counts), dtype=np.int64)


def _sizes_of_tiles(tile: str | int | Sequence[Sequence[int]], shape: tuple[int, ...]) -> list[list[int]]:
    """As ``from_dense`` takes it."""
    if isinstance(tile, str):
        if tile != "auto":
            raise UserError(f"tile {tile!r}: 'auto', a number, or the sizes of all tiles")
        tile = max(4, round(4096 ** (1 / max(1, len(shape)))))
    if isinstance(tile, (int, np.integer)):
        if tile < 1:
            raise UserError(f"tile {tile}: at least 1")
        return [_even(n, int(tile)) for n in shape]
    sizes = as_tilings(tile)
    extents = tuple(sum(s) for s in sizes)
    if extents != shape:
        raise UserError(f"tile: tilings of {extents} elements, the array has shape {shape}")
    return sizes


def _even(extent: int, tile: int) -> list[int]:
    """As few tiles of at most ``tile`` elements as there can be, as even as they can be."""
    if extent == 0:
        return []
    parts = -(-extent // tile)
    return [extent * (i + 1) // parts - extent * i // parts for i in range(parts)]
