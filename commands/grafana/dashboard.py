"""The dashboard: rows of panels, each with its expressions, as the JSON that Grafana reads.

The expressions name the metrics as Ray exports them (docs/METRICS.md). `$ensemble` is chosen at the
top of the dashboard; `$__rate_interval` is Grafana's. A test has Prometheus answer each of them.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

UID: Final = "raykeeper"
TITLE: Final = "Raykeeper"
FILE: Final = "raykeeper_grafana_dashboard.json"
_OF: Final = 'ensemble=~"$ensemble"'
_RATE: Final = "[$__rate_interval]"
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Panel(Struct, frozen=True):
    """A plot: each expression with the legend of its lines."""

    title: str
    unit: str
    """Grafana's name of a unit."""
    lines: tuple[tuple[str, str], ...]
    meaning: str = ""


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate(ray_raykeeper_{metric}_total{{{_OF}{more}}}{_RATE}))"


def _gauge(metric: str, by: str = "ensemble, server", more: str = "") -> str:
    return f"max by ({by}) (ray_raykeeper_{metric}{{{_OF}{more}}})"


def _quantile(share: str, metric: str, by: str, more: str = "") -> str:
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', f'{by}, le', more)})"


def _mean(metric: str, by: str, more: str = "") -> str:
    count = _rate(f"{metric}_bucket", by, f'{more}, le="+Inf"')
    return f"{_rate(f'{metric}_sum', by, more)} / ({count} > 0)"


def _plot(title: str, unit: str, *lines: tuple[str, str], meaning: str = "") -> Panel:
    return Panel(title, unit, lines, meaning)


_SERVER: Final = "{{ensemble}}/{{server}}"
ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "The ensemble",
        (
            _plot(
                "Role",
                "none",
                (f"{_gauge('role', 'ensemble, server, role')} == 1", _SERVER + " {{role}}"),
                meaning="One line for each server, with its role.",
            ),
            _plot(
                "Voters that have everything",
                "none",
                (_gauge("synced_voters", "ensemble"), "{{ensemble}} synchronized"),
                (_gauge("voters", "ensemble"), "{{ensemble}} voters"),
            ),
            _plot("Epoch", "none", (_gauge("epoch"), _SERVER)),
            _plot(
                "Elections in 15 minutes",
                "none",
                (
                    f"sum by (ensemble, server) "
                    f"(increase(ray_raykeeper_elections_total{{{_OF}}}[15m]))",
                    _SERVER,
                ),
            ),
            _plot("Length of the last election", "s", (_gauge("last_election_seconds"), _SERVER)),
            _plot(
                "Lag of the followers",
                "none",
                (_gauge("follower_lag_txns", "ensemble, follower"), "{{ensemble}}/{{follower}}"),
                meaning="Transactions that a follower has not acknowledged.",
            ),
        ),
    ),
    (
        "Requests",
        (
            _plot("Requests by kind", "reqps", (_rate("requests", "kind"), "{{kind}}")),
            _plot("Requests by server", "reqps", (_rate("requests", "ensemble, server"), _SERVER)),
            _plot(
                "Errors by outcome",
                "reqps",
                (_rate("requests", "kind, outcome", ', outcome!="ok"'), "{{kind}} {{outcome}}"),
                meaning="Many are expected: a lock that is taken is node_exists.",
            ),
            _plot(
                "Time of a request",
                "s",
                (_quantile("0.5", "request_seconds", "type"), "{{type}} p50"),
                (_quantile("0.99", "request_seconds", "type"), "{{type}} p99"),
            ),
            _plot(
                "Time of a stage, p99",
                "s",
                (_quantile("0.99", "stage_seconds", "stage"), "{{stage}}"),
                meaning="Of steps and forces, not of single requests; see docs/METRICS.md.",
            ),
            _plot("Waiting requests", "none", (_gauge("outstanding_requests"), _SERVER)),
        ),
    ),
    (
        "Disk",
        (
            _plot(
                "Time of a force",
                "s",
                (_mean("stage_seconds", "ensemble, server", ', stage="force"'), f"{_SERVER} mean"),
                (
                    _quantile("0.99", "stage_seconds", "ensemble, server", ', stage="force"'),
                    f"{_SERVER} p99",
                ),
            ),
            _plot(
                "Log and snapshots",
                "bytes",
                (_gauge("log_bytes"), f"{_SERVER} log"),
                (_gauge("snapshot_bytes"), f"{_SERVER} snapshots"),
            ),
            _plot(
                "Free space",
                "percentunit",
                (f"{_gauge('disk_free_bytes')} / ({_gauge('disk_bytes')} > 0)", _SERVER),
            ),
            _plot("Transactions", "ops", (_rate("txns_applied", "ensemble, server"), _SERVER)),
        ),
    ),
    (
        "Sessions and the tree",
        (
            _plot("Sessions", "none", (_gauge("sessions", "ensemble"), "{{ensemble}}")),
            _plot("Connections", "none", (_gauge("connections"), _SERVER)),
            _plot("Watches", "none", (_gauge("watches"), _SERVER)),
            _plot(
                "Znodes",
                "none",
                (_gauge("znodes", "ensemble"), "{{ensemble}}"),
                (_gauge("ephemerals", "ensemble"), "{{ensemble}} ephemeral"),
            ),
            _plot("Size of the tree", "bytes", (_gauge("data_bytes", "ensemble"), "{{ensemble}}")),
        ),
    ),
    (
        "Processes",
        (
            _plot("Memory", "bytes", (_gauge("memory_bytes"), _SERVER)),
            _plot("Processor", "percentunit", (_rate("cpu_seconds", "ensemble, server"), _SERVER)),
            _plot(
                "Open files",
                "percentunit",
                (f"{_gauge('open_files')} / ({_gauge('open_files_max')} > 0)", _SERVER),
            ),
            _plot(
                "Longest pause",
                "s",
                (_gauge("loop_pause_seconds"), f"{_SERVER} event loop"),
                (_gauge("gc_pause_seconds"), f"{_SERVER} garbage collector"),
            ),
            _plot("Log lines", "ops", (_rate("notes", "note"), "{{note}}")),
            _plot(
                "Failed calls of session tracker and snapshotter",
                "ops",
                (
                    _rate(
                        "notes",
                        "ensemble, server, note",
                        ', note=~"tracker.call_failed|snapshotter.call_failed"',
                    ),
                    _SERVER + " {{note}}",
                ),
                meaning="After each the server looks the actor up, or starts it, anew.",
            ),
        ),
    ),
    (
        "The keeper",
        (
            _plot(
                "State",
                "none",
                (_gauge("keeper_leads", "ensemble"), "{{ensemble}} is elected"),
                (_gauge("keeper_is_moving", "ensemble"), "{{ensemble}} moves a server"),
                (_gauge("keeper_is_blocked", "ensemble"), "{{ensemble}} should and cannot"),
                meaning="Nothing without heal_after_s. `raykeeper status` says why it cannot.",
            ),
            _plot(
                "Steps of moves in an hour",
                "none",
                (
                    f"sum by (ensemble, step, cause) "
                    f"(increase(ray_raykeeper_keeper_moves_total{{{_OF}}}[1h]))",
                    "{{ensemble}} {{step}} ({{cause}})",
                ),
            ),
            _plot(
                "Time since its start",
                "s",
                (_gauge("keeper_uptime_seconds", "ensemble"), "{{ensemble}}"),
                meaning="Ray starts a keeper again whose process or node has died.",
            ),
        ),
    ),
    (
        "Clients",
        (
            _plot(
                "Requests",
                "reqps",
                (_rate("client_requests", "kind, outcome"), "{{kind}} {{outcome}}"),
            ),
            _plot(
                "Handles",
                "none",
                (f"sum by (ensemble) (ray_raykeeper_client_handles{{{_OF}}})", "{{ensemble}}"),
                (
                    f"sum by (ensemble) (ray_raykeeper_client_unconnected_handles{{{_OF}}})",
                    "{{ensemble}} without a connection",
                ),
            ),
            _plot(
                "Connects, reconnects and lost sessions",
                "ops",
                (_rate("client_connects", "ensemble"), "{{ensemble}} connects"),
                (_rate("client_reconnects", "ensemble"), "{{ensemble}} reconnects"),
                (_rate("client_lost_sessions", "ensemble"), "{{ensemble}} lost sessions"),
            ),
            _plot(
                "Share of time without a connection",
                "percentunit",
                (_rate("client_unconnected_seconds", "ensemble"), "{{ensemble}}"),
                meaning="Of all handles together: 2 are two handles that have none.",
            ),
            _plot(
                "Waits of recipes, p99",
                "s",
                (
                    "histogram_quantile(0.99, sum by (recipe, operation, prefix, le) "
                    f"(rate(ray_raykeeper_client_wait_seconds_bucket_total{_RATE})))",
                    "{{recipe}}.{{operation}} {{prefix}}",
                ),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the document that Grafana reads."""
    return {
        "uid": UID,
        "title": TITLE,
        "tags": ["raykeeper", "ray"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": list(_panels()),
    }


def expressions() -> Iterator[str]:
    """Yield every expression of every panel."""
    for _, panels in ROWS:
        for panel in panels:
            for expression, _ in panel.lines:
                yield expression


def _variables() -> list[dict[str, Any]]:
    ensembles = "label_values(ray_raykeeper_role, ensemble)"
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "hide": 0},
        {
            "name": "ensemble",
            "type": "query",
            "datasource": _DATASOURCE,
            "definition": ensembles,
            "query": {"query": ensembles, "refId": "ensembles"},
            "refresh": 2,
            "includeAll": True,
            "allValue": ".*",
            "multi": True,
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]


def _panels() -> Iterator[dict[str, Any]]:
    number = y = 0
    for heading, panels in ROWS:
        number += 1
        at = {"h": 1, "w": _WIDTH * _COLUMNS, "x": 0, "y": y}
        yield {"id": number, "type": "row", "title": heading, "gridPos": at, "panels": []}
        y += 1
        for place, panel in enumerate(panels):
            number += 1
            row, column = divmod(place, _COLUMNS)
            at = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": y + row * _HEIGHT}
            yield _panel_document(number, panel, at)
        y += -(-len(panels) // _COLUMNS) * _HEIGHT


def _panel_document(number: int, panel: Panel, at: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _DATASOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _DATASOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for place, (expression, legend) in enumerate(panel.lines)
        ],
    }
