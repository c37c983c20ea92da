"""symmray's block contractions, and with them quimb's, through Tessera.

>>> import tessera.symmray                                              # doctest: +SKIP
>>> tessera.symmray.enable()                                            # doctest: +SKIP

From then on symmray's sparse arrays of NumPy blocks (abelian and fermionic; the signs stay symmray's) are contracted by
Tessera. Arrays of other blocks, and those that Tessera refuses (other element types, NaN), go symmray's own way.
"""

from __future__ import annotations

import string
from typing import Any, Callable, Hashable, Sequence

import numpy as np

from . import _core
from ._errors import UserError

_LETTERS = string.ascii_letters
_MOST_INDICES = 16
_MOST_KNOWN = 256  # contractions whose plans are kept

_threads = 0
_original: Callable[..., Any] | None = None


def enable(threads: int = 0) -> None:
    """Routes symmray's block contractions through Tessera; ``disable`` undoes it."""
    global _original, _threads
    from symmray.sparse import sparse_array_common as common  # type: ignore[import-untyped]

    _threads = threads
    if _original is None:
        _original = common.tensordot_abelian
        common.tensordot_abelian = _tensordot


def disable() -> None:
    """symmray's own way again."""
    global _original
    if _original is not None:
        from symmray.sparse import sparse_array_common as common  # type: ignore[import-untyped]

        common.tensordot_abelian = _original
        _original = None


def _tensordot(a: Any, b: Any, axes: Any = 2, mode: str = "auto", preserve_array: bool = False) -> Any:
    """In the place of symmray's tensordot_abelian: the same arguments, the same result."""
    from symmray.array_common import maybe_keep_label, parse_tensordot_axes  # type: ignore[import-untyped]
    from symmray.sparse import sparse_array_common as common  # type: ignore[import-untyped]

    def own_way() -> Any:
        assert _original is not None
        return _original(a, b, axes=axes, mode=mode, preserve_array=preserve_array)

    if not isinstance(b, common.SparseArrayCommon) or not a.num_blocks or not b.num_blocks or common.DEBUG:
        return own_way()
    left, axes_a, axes_b, right = parse_tensordot_axes(axes, a.ndim, b.ndim)
    if max(a.ndim, b.ndim, len(left) + len(right)) > _MOST_INDICES:
        return own_way()
    try:
        kept, sectors, blocks = _contract(a, b, left, axes_a, axes_b, right)
    except _OwnWay:
        return own_way()
    if not kept and not preserve_array:
        return blocks[0] if blocks else 0.0
    indices = []
    for i, index in enumerate(kept):
        gone = set(index.charges).difference(sector[i] for sector in sectors)
        indices.append(index.drop_charges(gone) if gone else index)
    return a.new_with(indices=tuple(indices), charge=a.symmetry.combine(a.charge, b.charge),
                      blocks=dict(zip(sectors, blocks)), label=maybe_keep_label(a.label, b.label))


class _OwnWay(Exception):
    """Tessera does not do this one."""


def _contract(a: Any, b: Any, left: Sequence[int], axes_a: Sequence[int], axes_b: Sequence[int],
              right: Sequence[int]) -> tuple[list[Any], list[tuple[Hashable, ...]], list[np.ndarray]]:
    """Indices of the result, and its sectors with their blocks."""
    blocks_a, blocks_b = list(a.get_all_blocks()), list(b.get_all_blocks())
    dtype = _dtype(blocks_a)
    if (other := _dtype(blocks_b)) is not dtype:
        dtype = np.result_type(dtype, other)
    sectors_a, sectors_b = tuple(a.sectors), tuple(b.sectors)
    sizes_a = tuple(tuple(index.chargemap.items()) for index in a.indices)
    sizes_b = tuple(tuple(index.chargemap.items()) for index in b.indices)
    # All but the elements follows from these. Two arrays of a calculation meet again and again.
    key = (axes_a, axes_b, dtype.char, _threads, sizes_a, sizes_b, sectors_a, sectors_b)
    known = _known.get(key)
    try:
        if known is None:
            known = _Known(sizes_a, sizes_b, left, axes_a, axes_b, right, sectors_a, sectors_b)
        x = _core.Tensor.from_blocks(known.tilings_a, known.ordinals_a, blocks_a, dtype.name, _threads)
        y = _core.Tensor.from_blocks(known.tilings_b, known.ordinals_b, blocks_b, dtype.name, _threads)
        if known.plan is None:
            known.make_plan(x, y)
            while len(_known) >= _MOST_KNOWN:
                _known.pop(next(iter(_known)), None)
            _known[key] = known
        result, _ = known.plan.execute(x, y, None, None)
    except UserError:
        raise _OwnWay from None
    indices = [a.indices[i] for i in left] + [b.indices[j] for j in right]
    return indices, known.sectors(result), result.copies()


def _dtype(blocks: list[Any]) -> np.dtype:
    """That of all blocks; of different ones, the common one."""
    try:
        dtype = blocks[0].dtype
        if all(type(x) is np.ndarray and x.dtype is dtype for x in blocks) and dtype.char in "fdFD":
            return dtype
    except AttributeError:
        raise _OwnWay from None
    if any(type(x) is not np.ndarray or x.dtype.char not in "fdFD" for x in blocks):
        raise _OwnWay
    return np.result_type(*[x.dtype for x in blocks])


class _Known:
    """A contraction without its elements: tilings, places of blocks, plan, sectors of the result."""

    plan: Any = None

    def __init__(self, sizes_a: Any, sizes_b: Any, left: Sequence[int], axes_a: Sequence[int], axes_b: Sequence[int],
                 right: Sequence[int], sectors_a: Any, sectors_b: Any) -> None:
        maps_a, maps_b = [dict(sizes) for sizes in sizes_a], [dict(sizes) for sizes in sizes_b]
        labels_b = list(_LETTERS[len(maps_a) : len(maps_a) + len(maps_b)])
        for i, j in zip(axes_a, axes_b):
            # Of a contracted index, the charges of both sides.
            joined = {**maps_a[i], **maps_b[j]}
            if any(joined[charge] != size for charge, size in maps_a[i].items()):
                raise _OwnWay
            maps_a[i] = maps_b[j] = joined
            labels_b[j] = _LETTERS[i]
        kept = "".join([_LETTERS[i] for i in left] + [labels_b[j] for j in right])
        self.spec = f"{_LETTERS[: len(maps_a)]},{''.join(labels_b)}->{kept}"
        self.tilings_a, self.ordinals_a = _places(maps_a, sectors_a)
        self.tilings_b, self.ordinals_b = _places(maps_b, sectors_b)
        self._charges = [list(maps_a[i]) for i in left] + [list(maps_b[j]) for j in right]
        self._ordinals: np.ndarray | None = None
        self._sectors: list[tuple[Hashable, ...]] = []

    def make_plan(self, x: Any, y: Any) -> None:
        settings = _core.Settings()
        settings.threads = _threads
        self.plan = _core.plan_pair(self.spec, x, y, None, settings)

    def sectors(self, result: Any) -> list[tuple[Hashable, ...]]:
        """Of the result's blocks, in their order."""
        ordinals = result.ordinals
        if self._ordinals is None or not np.array_equal(ordinals, self._ordinals):
            sectors: list[tuple[Hashable, ...]] = []
            for ordinal in ordinals.tolist():
                sector = []
                for charges in reversed(self._charges):
                    ordinal, at = divmod(ordinal, len(charges))
                    sector.append(charges[at])
                sectors.append(tuple(reversed(sector)))
            self._ordinals, self._sectors = ordinals, sectors
        return self._sectors


def _places(maps: list[dict[Hashable, int]], sectors: Sequence[Sequence[Hashable]]) -> tuple[list[list[int]], np.ndarray]:
    """Tilings, charges as they stand, and the row-major number of each block's tile."""
    places, stride = [], 1
    for sizes in reversed(maps):
        places.append({charge: n * stride for n, charge in enumerate(sizes)})
        stride *= len(sizes)
    places.reverse()
    ordinals = [sum(place[charge] for place, charge in zip(places, sector)) for sector in sectors]
    return [list(sizes.values()) for sizes in maps], np.array(ordinals, np.int64)


_known: dict[Any, _Known] = {}
