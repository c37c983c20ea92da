"""A tensor as a notebook shows it: a line of figures and a picture of its blocks."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Sequence

import numpy as np

if TYPE_CHECKING:
    from ._tensor import Tensor

_SIDE = 240  # pixels, at most


def html(tensor: Tensor) -> str:
    """The blocks as a matrix: the first half of the indices are rows, the others columns."""
    rows = max(1, tensor.ndim // 2) if tensor.ndim else 0
    image = picture(tensor)
    data = base64.b64encode(_png(image)).decode()
    sizes = " x ".join(f"{sum(s):,} in {len(s)} tiles" for s in tensor.tilings)
    return (f"<div><b>Tensor</b> {tensor.dtype}, {sizes}<br>{len(tensor.norms):,} nonzero blocks, "
            f"{100 * tensor.density:.2f} % dense, {tensor.nbytes:,} bytes, norm {tensor.norm():.6g}<br>"
            f'<img style="border:1px solid #888;image-rendering:pixelated" alt="its blocks, {rows} of {tensor.ndim} '
            f'indices as rows" src="data:image/png;base64,{data}"></div>')


def picture(tensor: Tensor) -> np.ndarray:
    """Grey levels: white where there is no block, darker where the elements are larger."""
    tilings, coords, norms = tensor.tilings, tensor.coords, tensor.norms
    cut = max(1, len(tilings) // 2)
    row_sizes, rows = _joined(tilings[:cut], coords[:, :cut])
    column_sizes, columns = _joined(tilings[cut:], coords[:, cut:])
    row_edges, column_edges = _edges(row_sizes), _edges(column_sizes)
    image = np.full((max(1, row_edges[-1]), max(1, column_edges[-1])), 255, np.uint8)
    if len(norms) == 0:
        return image
    sizes = np.asarray(row_sizes)[rows] * np.asarray(column_sizes)[columns]
    mean = np.log10(np.maximum(norms / np.sqrt(sizes), 1e-300))
    span = mean.max() - mean.min()
    shades = (190 - (130 if span < 1e-3 else 190 * (mean - mean.min()) / span) * np.ones(len(norms))).astype(np.uint8)
    for r, c, shade in zip(rows, columns, shades):
        part = image[row_edges[r] : max(row_edges[r] + 1, row_edges[r + 1]),
                     column_edges[c] : max(column_edges[c] + 1, column_edges[c + 1])]
        np.minimum(part, shade, out=part)
    return image


def _joined(tilings: Sequence[Sequence[int]], coords: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Several indices as one: the sizes of its tiles, and each block's number among them."""
    sizes = np.ones(1, np.int64)
    number = np.zeros(len(coords), np.int64)
    for d, tiling in enumerate(tilings):
        sizes = np.multiply.outer(sizes, np.asarray(tiling, np.int64)).reshape(-1)
        number = number * len(tiling) + coords[:, d]
    return sizes.tolist(), number


def _edges(sizes: Sequence[int]) -> list[int]:
    """Where each tile begins, in pixels."""
    total = sum(sizes)
    pixels = _SIDE if total > _SIDE // 4 else total * 4
    ends = np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])
    return (ends * pixels // max(1, total)).tolist()


def _png(image: np.ndarray) -> bytes:
    height, width = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = b"".join(b"\0" + row.tobytes() for row in image)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))
