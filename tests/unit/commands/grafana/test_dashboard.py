"""The dashboard, and the expressions of the alert rules: what they name exists.

`tests/wheel/test_metrics.py` has a real Prometheus answer the expressions.
"""

import re
from typing import Any

import pytest
import yaml

from raykeeper.actors.disk import storage_trace_events
from raykeeper.actors.metric_samples import SERVER_LABELS, SERVER_METRICS
from raykeeper.actors.sidecars import SNAPSHOTTER_CALL_FAILED, TRACKER_CALL_FAILED
from raykeeper.actors.step_times import StepTimes
from raykeeper.client.process_metrics import CLIENT_METRICS
from raykeeper.clusters.healing.vocabulary import Cause, MoveStep
from raykeeper.clusters.keeper_metrics import KEEPER_LABELS, KEEPER_METRICS
from raykeeper.commands.grafana.dashboard import dashboard, expressions
from raykeeper.commands.grafana.provisioning import alerts_text
from raykeeper.server import server_trace_events

RULES: list[dict[str, Any]] = yaml.safe_load(alerts_text())["groups"][0]["rules"]
LABELS = {
    **{metric.exported: {*metric.labels, *SERVER_LABELS} for metric in SERVER_METRICS},
    **{metric.exported: {*metric.labels, *KEEPER_LABELS} for metric in KEEPER_METRICS},
    **{metric.exported: set(metric.labels) for metric in CLIENT_METRICS},
}
SELECTOR = re.compile(r"(ray_raykeeper_\w+)(?:\{([^}]*)\})?")
VALUES = {
    "role": {"leader", "follower", "observer", "looking"},
    "type": {"read", "update"},
    "stage": {*StepTimes().by_stage, "quorum"},
    "note": {
        value
        for module in (server_trace_events, storage_trace_events)
        for name, value in vars(module).items()
        if name.isupper()
    }
    | {TRACKER_CALL_FAILED, SNAPSHOTTER_CALL_FAILED},
    "step": {step.value for step in MoveStep},
    "cause": {cause.value for cause in Cause},
}
"""The values that labels may have, of those that are written out."""


def faults_of(expression: str) -> list[str]:
    """What an expression names that no server or client exports."""
    faults = []
    selectors = SELECTOR.findall(expression)
    assert selectors, expression
    there = {"le"}
    for metric, matchers in selectors:
        if metric not in LABELS:
            faults.append(metric)
            continue
        there |= LABELS[metric]
        for label, value in re.findall(r'(\w+)\s*(?:=~|!=|!~|=)\s*"([^"]*)"', matchers):
            if label not in LABELS[metric]:
                faults.append(f"{metric}{{{label}}}")
            elif label in VALUES:
                faults += sorted(set(value.split("|")) - VALUES[label])
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        faults += [label for label in re.split(r",\s*", labels) if label not in there]
    return faults


@pytest.mark.parametrize("expression", [*expressions(), *(rule["expr"] for rule in RULES)])
def test_an_expression_names_metrics_and_labels_that_exist(expression: str) -> None:
    assert faults_of(expression) == []


@pytest.mark.parametrize(
    ("expression", "faults"),
    [
        ("rate(ray_raykeeper_requests[1m])", ["ray_raykeeper_requests"]),
        ('ray_raykeeper_role{rule="leader"}', ["ray_raykeeper_role{rule}"]),
        ('ray_raykeeper_role{role="chief"} == 1', ["chief"]),
        ("sum by (ensemble, stage) (ray_raykeeper_role)", ["stage"]),
        ('sum by (server) (ray_raykeeper_client_handles{ensemble="a"})', ["server"]),
    ],
)
def test_an_expression_that_names_others_is_noticed(expression: str, faults: list[str]) -> None:
    assert faults_of(expression) == faults


def test_every_metric_of_servers_that_can_be_plotted_is_in_the_dashboard_or_an_alert() -> None:
    text = " ".join([*expressions(), *(rule["expr"] for rule in RULES)])
    named = {name for name, _ in SELECTOR.findall(text)}
    told = {
        # They say how a server is, which `status` shows with more words.
        *("ray_raykeeper_is_active", "ray_raykeeper_is_read_only", "ray_raykeeper_has_vote"),
        "ray_raykeeper_linked_servers",
        # Others of their kind say the same.
        *("ray_raykeeper_packets_received_total", "ray_raykeeper_packets_sent_total"),
        *("ray_raykeeper_gc_seconds_total", "ray_raykeeper_gc_collections_total"),
        *("ray_raykeeper_election_seconds_total", "ray_raykeeper_txns_proposed_total"),
        "ray_raykeeper_keeper_elections_total",
        *(metric for metric in LABELS if metric.endswith("_sum_total")),
    }
    assert LABELS.keys() - named - told == set()


def test_no_two_panels_have_one_number_or_lie_on_each_other() -> None:
    panels = dashboard()["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_line_has_a_legend_of_labels_that_its_expression_keeps() -> None:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]
