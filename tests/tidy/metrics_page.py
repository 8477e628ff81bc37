"""The tables of docs/METRICS.md, made of the metrics in the code.

    python -m tests.tidy.metrics_page

rewrites them between their marks; a test compares.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from raykeeper.actors.metric_samples import SERVER_LABELS, SERVER_METRICS
from raykeeper.client.process_metrics import CLIENT_LABELS, CLIENT_METRICS
from raykeeper.clusters.keeper_metrics import KEEPER_LABELS, KEEPER_METRICS
from raykeeper.links.ray_metrics import Metric

PAGE = Path(__file__).parents[2] / "docs/METRICS.md"
TABLES: dict[str, tuple[tuple[str, ...], tuple[Metric, ...]]] = {
    "servers": (SERVER_LABELS, SERVER_METRICS),
    "clients": (CLIENT_LABELS, CLIENT_METRICS),
    "keepers": (KEEPER_LABELS, KEEPER_METRICS),
}


def table_of(metrics: Iterable[Metric]) -> str:
    """The rows of some metrics, in the order of the code."""
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        name, kind = metric.exported, metric.kind.value
        rows.append(f"| `{name}` | {kind} | {labels} | {metric.meaning} |")
    return "\n".join(rows)


def with_tables(page: str) -> str:
    """The page with the tables of the code."""
    for name, (_, metrics) in TABLES.items():
        marks = rf"(<!-- {name} -->\n\n).*?(\n\n<!-- end -->)"
        page, count = re.subn(marks, rf"\g<1>{table_of(metrics)}\g<2>", page, flags=re.S)
        assert count == 1, f"the page has {count} tables of {name}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
