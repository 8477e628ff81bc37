"""PNG plots of an experiment. They need matplotlib, which the extra `bench` installs."""

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raykeeper.bench.results import Row

Points = Sequence[tuple[float, float]]
_SIZE, _DPI = (8.0, 5.0), 120


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def curves(
    rows: Iterable[Row], x: str, y: str, names: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each curve; the columns `names` form its label."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if x in row and y in row:
            label = ", ".join(_label(name, row[name]) for name in names if row.get(name, "") != "")
            found.setdefault(label, []).append((float(row[x]), float(row[y])))
    return {label: sorted(points) for label, points in found.items()}


def _label(name: str, value: object) -> str:
    return str(value) if isinstance(value, str) else f"{value} {name.replace('_', ' ')}"


def plot_curves(
    path: Path,
    title: str,
    lines: Mapping[str, Points],
    axes: tuple[str, str],
    *,
    marks: Mapping[str, float] | None = None,
    is_log: bool = False,
    is_log_x: bool = False,
) -> None:
    """Plot one line for each entry; `marks` are vertical lines with a name."""
    # Imported here: matplotlib is optional and takes a second to import.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    plot = figure.subplots()
    for label, points in lines.items():
        plot.plot([x for x, _ in points], [y for _, y in points], label=label, marker=".")
    for name, moment in (marks or {}).items():
        plot.axvline(moment, color="gray", linewidth=0.8, linestyle=":")
        plot.annotate(
            name, (moment, 1), xycoords=("data", "axes fraction"), fontsize=7, rotation=90, va="top"
        )
    plot.set(title=title, xlabel=axes[0], ylabel=axes[1])
    if is_log:
        plot.set_yscale("log")
    else:
        plot.set_ylim(bottom=0)
    if is_log_x:
        plot.set_xscale("log")
    if lines:
        plot.legend(fontsize=8)
    plot.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=_DPI)


def plot_bars(
    path: Path,
    title: str,
    panels: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    is_log: bool = False,
) -> None:
    """Plot panels one below the other, keyed by the labels of their y axes.

    Each panel has a group of bars for each entry, and in it one bar for each series.
    """
    from matplotlib.figure import Figure

    width, height = _SIZE
    figure = Figure(figsize=(width, height * (1 + len(panels)) / 2), layout="constrained")
    figure.suptitle(title)
    plots = figure.subplots(len(panels), squeeze=False)[:, 0]
    for plot, (label, bars) in zip(plots, panels.items(), strict=True):
        _draw_bars(plot, bars)
        plot.set_ylabel(label)
        if is_log:
            plot.set_yscale("log")
        plot.margins(y=0.15)
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=_DPI)


def _draw_bars(plot: Any, bars: Mapping[str, Mapping[str, float]]) -> None:
    series = list(dict.fromkeys(name for group in bars.values() for name in group))
    width = 0.8 / max(1, len(series))
    for index, name in enumerate(series):
        places = [place for place, group in enumerate(bars.values()) if name in group]
        heights = [group[name] for group in bars.values() if name in group]
        offset = (index - (len(series) - 1) / 2) * width
        drawn = plot.bar([place + offset for place in places], heights, width, label=name)
        plot.bar_label(drawn, fmt="%.3g", fontsize=6)
    plot.set_xticks(range(len(bars)), list(bars))
