"""symmray's block contractions, and with them quimb's, through Tessera.

>>> import tessera.symmray                                              # doctest: +SKIP
>>> tessera.symmray.enable()                                            # doctest: +SKIP

From then on symmray's sparse arrays of NumPy blocks (abelian and fermionic; the signs stay symmray's) are contracted by
Tessera. Arrays of other blocks, and those that Tessera refuses (other element types, NaN), go symmray's own way.
"""

from __future__ import annotations

import string
from typing import Any, Callable, Hashable, Sequence

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

    if threads != _threads:
        _known.clear()
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

    if not isinstance(b, common.SparseArrayCommon) or not a.num_blocks or not b.num_blocks:
        return own_way()
    left, axes_a, axes_b, right = parse_tensordot_axes(axes, a.ndim, b.ndim)
    if max(a.ndim, b.ndim, len(left) + len(right)) > _MOST_INDICES:
        return own_way()
    if common.DEBUG:  # symmray.utils.set_debug: the checks that its own contraction makes
        a.check()
        b.check()
        a.check_with(b, axes_a, axes_b)
    try:
        indices, sectors, blocks = _contract(a, b, left, axes_a, axes_b, right)
    except _OwnWay:
        return own_way()
    if not indices and not preserve_array:
        return blocks[0] if blocks else 0.0
    c = a.new_with(indices=tuple(indices), charge=a.symmetry.combine(a.charge, b.charge),
                   blocks=dict(zip(sectors, blocks)), label=maybe_keep_label(a.label, b.label))
    if common.DEBUG:
        c.check()
        c.check_chargemaps_aligned()
    return c


class _OwnWay(Exception):
    """Tessera does not do this one."""


def _contract(a: Any, b: Any, left: Sequence[int], axes_a: Sequence[int], axes_b: Sequence[int],
              right: Sequence[int]) -> tuple[list[Any], list[tuple[Hashable, ...]], list[Any]]:
    """Indices of the result, and its sectors with their blocks."""
    sectors_a, sectors_b = tuple(a.sectors), tuple(b.sectors)
    sizes_a = tuple([tuple(index.chargemap.items()) for index in a.indices])
    sizes_b = tuple([tuple(index.chargemap.items()) for index in b.indices])
    # All but the elements follows from these. Two arrays of a calculation meet again and again.
    key = (axes_a, axes_b, sizes_a, sizes_b, sectors_a, sectors_b)
    known = _known.get(key)
    try:
        if known is None:
            known = _Known(sizes_a, sizes_b, left, axes_a, axes_b, right, sectors_a, sectors_b)
            while len(_known) >= _MOST_KNOWN:
                _known.pop(next(iter(_known)), None)
            _known[key] = known
        blocks = known.contract(list(a.get_all_blocks()), list(b.get_all_blocks()))
    except UserError:
        raise _OwnWay from None
    kept = [a.indices[i] for i in left] + [b.indices[j] for j in right]
    return [index.drop_charges(gone) if gone else index for index, gone in zip(kept, known.gone)], known.sectors, blocks


class _Known:
    """A contraction without its elements: places of blocks, plan, sectors of the result."""

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
        labels = "".join([_LETTERS[i] for i in left] + [labels_b[j] for j in right])
        kept = [maps_a[i] for i in left] + [maps_b[j] for j in right]
        self.contract = _core.BlockContraction(f"{_LETTERS[: len(maps_a)]},{''.join(labels_b)}->{labels}",
                                               *_places(maps_a, sectors_a), *_places(maps_b, sectors_b), _threads)
        self.sectors = [_sector(ordinal, kept) for ordinal in self.contract.ordinals]
        # Charges of each index that no block of the result has.
        self.gone = [set(sizes).difference(sector[i] for sector in self.sectors) for i, sizes in enumerate(kept)]


def _sector(ordinal: int, maps: list[dict[Hashable, int]]) -> tuple[Hashable, ...]:
    """The charges of a tile by its row-major number."""
    sector = []
    for sizes in reversed(maps):
        ordinal, at = divmod(ordinal, len(sizes))
        sector.append(list(sizes)[at])
    return tuple(reversed(sector))


def _places(maps: list[dict[Hashable, int]], sectors: Sequence[Sequence[Hashable]]) -> tuple[list[list[int]], list[int]]:
    """Tilings, charges as they stand, and the row-major number of each block's tile."""
    places, stride = [], 1
    for sizes in reversed(maps):
        places.append({charge: n * stride for n, charge in enumerate(sizes)})
        stride *= len(sizes)
    places.reverse()
    ordinals = [sum(place[charge] for place, charge in zip(places, sector)) for sector in sectors]
    return [list(sizes.values()) for sizes in maps], ordinals


_known: dict[Any, _Known] = {}
