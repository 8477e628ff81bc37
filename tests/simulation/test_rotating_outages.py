"""Rotating outages have their intended effect: servers that get snapshots, and minimal quorums."""

from collections.abc import Iterator

import pytest

from raykeeper.server.server_trace_events import SNAPSHOT_INSTALLED
from raykeeper.server.snapshot_install import SnapshotInstall
from raykeeper.zab.effects import AdoptSnapshot
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.watch_replay import WatchReplay
from raykeeper.znodes.watches import Fired, WatchTable
from tests.simulation import rotating_outages
from tests.simulation.draw import draw_plan
from tests.simulation.plan import FaultKind, Plan
from tests.simulation.triggers import Reaction
from tests.simulation.world import World


def outages(*, timed: bool) -> Iterator[Plan]:
    """Return the plans of this kind of the first seeds."""
    for plan in filter(None, map(rotating_outages.draw_rotating_outages, range(200))):
        if any(fault.kind is FaultKind.CUT for fault in plan.faults) is timed:
            yield plan


def test_some_seeds_have_an_outage_and_always_the_same() -> None:
    seeds = [
        seed for seed in range(200) if rotating_outages.draw_rotating_outages(seed) is not None
    ]
    assert 0.5 * rotating_outages.SHARE < len(seeds) / 200 < 2 * rotating_outages.SHARE
    for seed in seeds:
        drawn, plan = draw_plan(seed), rotating_outages.draw_rotating_outages(seed)
        assert plan is not None
        assert (drawn.servers, drawn.faults) == (plan.servers, plan.faults)


def test_a_returning_server_receives_a_snapshot_while_clients_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fuzzy, fired, adopting = [], [], []
    adopt, by_state = SnapshotInstall.install, WatchReplay.events_from_state

    def adopts(self: SnapshotInstall, effect: AdoptSnapshot) -> None:
        fuzzy.append(effect.consistent_at > effect.zxid)
        adopting.append(effect)
        adopt(self, effect)
        adopting.clear()

    def shows(self: WatchReplay, watches: WatchTable, since: Zxid) -> list[Fired]:
        events = by_state(self, watches, since)
        fired.append(bool(adopting and events))
        return events

    monkeypatch.setattr(SnapshotInstall, "install", adopts)
    monkeypatch.setattr(WatchReplay, "events_from_state", shows)
    for plan, _ in zip(outages(timed=True), range(8), strict=False):
        World(plan).run()
    assert any(fuzzy) and any(fired)


def test_the_next_outage_meets_a_server_in_recovery() -> None:
    switches = [plan for plan, _ in zip(outages(timed=False), range(8), strict=False)]
    assert all(
        f.reaction == Reaction.SWITCH_MINORITY.value for plan in switches for f in plan.faults
    )
    reports = [World(plan).run() for plan in switches]
    assert sum(report.faults.get(FaultKind.TRIGGERED.value, 0) for report in reports) > len(reports)
    assert any(report.notes.get(SNAPSHOT_INSTALLED) for report in reports)
