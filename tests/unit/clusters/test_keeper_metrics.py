"""What a keeper tells of itself: numbers of a moment, and counts of what it has decided."""

from msgspec.structs import replace

from raykeeper.clusters.healing.vocabulary import Cause, Entry, MoveStep
from raykeeper.clusters.keeper_metrics import KEEPER_METRICS, KeeperMetrics
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.links.ray_metrics import Samples
from raykeeper.zab.ids import Millis
from tests.harness.decisions import BEGUN


def told(metrics: KeeperMetrics, status: KeeperStatus) -> dict[str, float]:
    """The numbers without labels, by the end of their names."""
    samples: Samples = metrics.samples(status, 7.0)
    return {
        name.removeprefix("raykeeper_keeper_"): value
        for (name, labels), value in samples.items()
        if not labels
    }


def entry(step: MoveStep) -> Entry:
    return Entry(1, Millis(0), replace(BEGUN, step=step))


def test_a_keeper_that_waits_to_be_elected_is_not_blocked() -> None:
    assert told(KeeperMetrics(), KeeperStatus(leads=False, problem="no server answers")) == {
        "leads": 0,
        "is_blocked": 0,
        "is_moving": 0,
        "elections": 0,
        "uptime_seconds": 7.0,
    }


def test_an_elected_keeper_that_does_not_what_it_should_is_blocked() -> None:
    metrics = KeeperMetrics()
    metrics.elected()
    found = told(metrics, KeeperStatus(leads=True, problem="no node fits server 3"))
    assert (found["leads"], found["is_blocked"], found["elections"]) == (1, 1, 1)
    assert told(metrics, KeeperStatus(leads=True))["is_blocked"] == 0


def test_a_move_is_under_way_until_it_is_done_or_undone() -> None:
    moving = {
        step: told(KeeperMetrics(), KeeperStatus(leads=True, entries=[entry(step)]))["is_moving"]
        for step in MoveStep
    }
    assert moving == {
        MoveStep.BEGUN: 1,
        MoveStep.STARTED: 1,
        MoveStep.DONE: 0,
        MoveStep.UNDONE: 0,
    }


def test_decisions_are_counted_by_step_and_cause() -> None:
    metrics = KeeperMetrics()
    for step, cause in (
        (MoveStep.BEGUN, Cause.LOST),
        (MoveStep.UNDONE, Cause.LOST),
        (MoveStep.BEGUN, Cause.LOST),
        (MoveStep.BEGUN, Cause.DRAINED),
    ):
        metrics.decided(replace(BEGUN, step=step, cause=cause))
    samples = metrics.samples(KeeperStatus(leads=True), 0.0)
    moves = {labels: n for (name, labels), n in samples.items() if name.endswith("_moves")}
    assert moves == {
        ("begun", "lost"): 2,
        ("undone", "lost"): 1,
        ("begun", "drained"): 1,
    }
    labels = {metric.name: len(metric.labels) for metric in KEEPER_METRICS}
    assert {name: len(values) for name, values in samples} == labels
