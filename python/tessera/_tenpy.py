"""Arrays of TeNPy in its HDF5 files, by h5py: what TeNPy itself writes them with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._errors import BackendUnavailable, UserError
from ._tensor import Tensor


def load(path: str, name: str | None, threads: int, comm: Any) -> Tensor | None:
    """The array at ``name``, or the only one there is; None where the file has none and no name is given."""
    try:
        import h5py
    except ImportError:
        if name is None:
            return None
        raise BackendUnavailable("load: TeNPy's files are read by h5py, which is not installed") from None
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if name is None:
            return None
        raise UserError(f"{path}: {error}") from None
    with file:
        if name is None:
            names = _arrays(file)
            if not names:
                return None
            if len(names) > 1:
                shown = ", ".join(repr(n) for n in names[:6]) + (", ..." if len(names) > 6 else "")
                raise UserError(f"{path}: it has {len(names)} arrays of TeNPy, name one of {shown}")
            name = names[0]
        if not isinstance(name, str):
            raise UserError(f"name {name!r} is no text")
        group = file.get(name)
        if not _is_array(group):
            raise UserError(f"{path}: {name!r} is no array of TeNPy (np_conserved.Array)")
        try:
            return _tensor(group, threads, comm)
        except (KeyError, AttributeError, TypeError, IndexError, OSError) as error:
            raise UserError(f"{path}: {name!r} is not as TeNPy writes its arrays: {error}") from None
        except UserError as error:
            raise UserError(f"{path}: {name!r}: {error}") from None


def _is_array(group: Any) -> bool:
    def text(key: str) -> str:
        value = group.attrs.get(key, "")
        return value.decode() if isinstance(value, bytes) else str(value)

    return hasattr(group, "keys") and text("class") == "Array" and text("module").endswith("np_conserved")


def _arrays(file: Any) -> list[str]:
    if _is_array(file):
        return ["/"]
    found: list[str] = []
    file.visititems(lambda name, item: found.append("/" + name) if _is_array(item) else None)
    return found


def _sizes(leg: Any, d: int) -> list[int]:
    kept = leg.attrs.get("format", "blocks")
    kept = kept.decode() if isinstance(kept, bytes) else kept
    if kept == "blocks":
        slices = leg["slices"][()]
    elif kept == "compact":
        ends = leg["blockcharges"][()]
        slices = np.append(ends[:1, 0], ends[:, 1])
    else:
        raise UserError(f"leg {d} is kept as {kept!r}, which does not say its blocks")
    return np.diff(slices).tolist()


def _tensor(group: Any, threads: int, comm: Any) -> Tensor:
    legs = group["legs"]
    tilings = [_sizes(legs[str(d)], d) for d in range(len(legs))]
    places = group["block_inds"][()].reshape(-1, len(tilings))
    blocks = [group["blocks"][str(n)][()] for n in range(len(places))]
    dtype = np.result_type(*blocks) if blocks else np.float64
    if dtype.char not in "fdFD":
        raise UserError(f"its elements are {dtype}")
    blocks = [np.asarray(x, dtype) for x in blocks]
    return Tensor.from_blocks(tilings, places, blocks, dtype, threads, comm)

