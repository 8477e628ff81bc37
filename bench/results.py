"""The rows of an experiment as a CSV file, ratios between systems, and facts about the machine."""

import csv
import os
import platform
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

Value = str | int | float
Row = Mapping[str, Value]
"""A measurement of `system` with `client`; the other columns depend on the experiment."""
OURS = "raykeeper"
_FORCES = 50


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write one line for each row, with a column for each field that any row has, in order."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(
            {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )


class Ratio(NamedTuple):
    """Two rows compared in one column."""

    of: str
    """The values of the columns in which both rows agree."""
    value: str
    ours: str
    theirs: str
    """The system and the client of each row."""
    our_value: float
    their_value: float
    ratio: float
    """Our value divided by theirs."""


def ratios(rows: Sequence[Row], by: Sequence[str], values: Sequence[str]) -> Iterator[Ratio]:
    """Compare each of our rows with each row of another system that agrees with it in `by`."""
    for mine in rows:
        for other in rows:
            is_pair = mine["system"] == OURS != other["system"]
            if not is_pair or _key(mine, by) != _key(other, by):
                continue
            of = ", ".join(_shown(name, mine[name]) for name in by if name in mine)
            for value in values:
                if value in mine and other.get(value):
                    a, b = float(mine[value]), float(other[value])
                    yield Ratio(of, value, _who(mine), _who(other), a, b, a / b)


def _who(row: Row) -> str:
    return f"{row['system']} ({row['client']})"


def _key(row: Row, by: Sequence[str]) -> tuple[Value | None, ...]:
    return tuple(row.get(name) for name in by)


def _shown(name: str, value: Value) -> str:
    return value if isinstance(value, str) else f"{value} {name}"


def machine_facts(folder: Path) -> dict[str, Value]:
    """Return facts that the numbers depend on; `folder` holds the data of the servers."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / (1 << 30), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "fdatasync_ms": round(_fdatasync_ms(folder), 3),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _fdatasync_ms(folder: Path) -> float:
    """Return the median milliseconds that the disk takes to force 4 KB."""
    path = folder / "forced"
    taken = []
    with path.open("wb") as file:
        for _ in range(_FORCES):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1000)
    path.unlink()
    return statistics.median(taken)
