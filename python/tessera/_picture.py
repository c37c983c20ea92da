"""Tensors, plans and reports as a notebook shows them: a picture of blocks, and tables."""

from __future__ import annotations

import base64
import html as _html
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _core

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


def table(title: str, rows: Sequence[tuple[str, Any]], more: str = "") -> str:
    lines = "".join(f'<tr><td style="text-align:left">{_html.escape(name)}</td><td style="text-align:left">'
                    f"{_html.escape(str(value))}</td></tr>" for name, value in rows)
    return f"<div><b>{_html.escape(title)}</b><table>{lines}</table>{more}</div>"


def plan_html(spec: str, text: str, explained: str) -> str:
    """The main figures as a table, what explain() says below it."""
    plan = json.loads(text)
    rows: list[tuple[str, Any]] = []
    if "steps" in plan and isinstance(plan["steps"], list):  # of many operands
        rows += [(f"step {n}", step.get("spec", "")) for n, step in enumerate(plan["steps"], 1)]
        rows.append(("work", number(plan.get("flops", 0.0), "flop")))
    else:
        for name in "abc":
            rows.append((name.upper(), f"{plan['tiles'][name]:,} tiles, {100 * plan['density'][name]:.2f} % dense, "
                                       f"{_core.format_bytes(plan['bytes'][name])}"))
        rows.append(("work", f"{number(plan['flops'], 'flop')} in {plan['products']:,} products"))
        rows.append(("algorithm", f"{plan['algorithm']}: {plan['reason']}"))
        rows.append(("where", f"{plan['ranks']} ranks, {plan['devices_per_rank'] or 'no'} devices on each"))
        rows.append(("memory", f"{_core.format_bytes(plan['peak_bytes']['host'])} of "
                               f"{_core.format_bytes(plan['budget_bytes']['host'])}"))
        if plan["bytes"]["sent"]:
            rows.append(("sent", _core.format_bytes(plan["bytes"]["sent"])))
    return table(f"Plan {spec}", rows, f"<details><summary>explain()</summary><pre>{_html.escape(explained)}</pre></details>")


def report_html(report: _core.Report) -> str:
    seconds = report.plan_seconds + report.execute_seconds
    rows = [("work", f"{number(report.flops, 'flop')} in {report.products:,} products"),
            ("time", f"{seconds:.3g} s ({report.plan_seconds:.2g} s planning), {report.threads} threads"),
            ("rate", f"{number(report.flops / report.execute_seconds if report.execute_seconds else 0.0, 'flop/s')}"),
            ("algorithm", report.algorithm), ("memory", _core.format_bytes(report.peak_host_bytes))]
    if report.dropped_tiles or report.left_out:
        rows.append(("left out", f"{report.dropped_tiles:,} tiles, norm at most {report.left_out:.3g}"))
    if report.ranks > 1:
        rows.append(("ranks", f"{report.ranks}, {_core.format_bytes(report.sent_bytes)} sent"))
    if report.devices:
        rows.append(("devices", f"{report.devices}, {_core.format_bytes(report.peak_device_bytes)} at most"))
    return table("Report", rows)


def simulation_html(simulation: _core.Simulation) -> str:
    return table("Simulation", [("time", f"{simulation.seconds:.4g} s"), ("rate", f"{simulation.tflops:.4g} Tflop/s"),
                                ("transfers hidden", f"{100 * simulation.overlap:.0f} %"),
                                ("ranks", len(simulation.rank_seconds))])


def number(value: float, unit: str) -> str:
    """As 10.6 Mflop."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if abs(value) < 999.5:
            break
        value /= 1000
    return f"{value:.3g} {prefix}{unit}"
