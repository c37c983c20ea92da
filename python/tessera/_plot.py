"""Time lines, where matplotlib is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from ._errors import BackendUnavailable, UserError

if TYPE_CHECKING:
    from . import _core

# A colour for each kind of work.
_COLOURS = {"compute": "tab:blue", "make": "tab:green", "load": "tab:orange", "store": "tab:red", "copy": "tab:purple",
            "send": "tab:brown", "receive": "tab:pink", "merge": "tab:olive", "plan": "tab:gray", "finish": "tab:cyan"}
_MOST_LANES = 64

Bars = Sequence[tuple[str, str, float, float]]  # line, what, begin, end


def plot_trace(trace: _core.Trace, axes: Any = None) -> Any:
    lanes = trace.lanes
    if not lanes:
        raise UserError("the trace is empty: trace=True keeps one, of devices and links, or of a simulation")
    names = [f"rank {rank} {kind} {index}" for rank, kind, index in lanes]
    return _draw([(names[lane], what, begin, end) for lane, what, begin, end, _ in trace.spans], axes)


def plot_report(report: _core.Report, axes: Any = None) -> Any:
    if len(report.trace):
        return plot_trace(report.trace, axes)
    bars = []
    now = 0.0
    for n, step in enumerate(report.steps or [report], 1):
        for what, seconds in (("plan", step.plan_seconds), ("compute", step.execute_seconds)):
            bars.append((f"step {n}", what, now, now + seconds))
            now += seconds
    return _draw(bars, axes)


def plot_simulation(simulation: _core.Simulation, axes: Any = None) -> Any:
    if len(simulation.trace):
        return plot_trace(simulation.trace, axes)
    return _draw([(f"rank {n}", "compute", 0.0, end) for n, end in enumerate(simulation.rank_seconds)], axes)


def _draw(bars: Bars, axes: Any) -> Any:
    try:
        from matplotlib import pyplot  # type: ignore[import-not-found]
    except ImportError:
        raise BackendUnavailable("plots need matplotlib, which is not installed") from None
    lines = list(dict.fromkeys(line for line, *_ in bars))
    if len(lines) > _MOST_LANES:
        lines = lines[:_MOST_LANES]
    if axes is None:
        axes = pyplot.subplots(figsize=(8, 1 + 0.25 * len(lines)))[1]
    place = {line: n for n, line in enumerate(lines)}
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for line, what, begin, end in bars:
        if line in place:
            spans.setdefault((place[line], what), []).append((begin, end - begin))
    shown = set()
    for (row, what), pieces in spans.items():
        label = None if what in shown else what
        shown.add(what)
        axes.broken_barh(pieces, (row - 0.4, 0.8), facecolors=_COLOURS.get(what.split("_")[0], "tab:gray"), label=label)
    axes.set_yticks(range(len(lines)), lines)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return axes
