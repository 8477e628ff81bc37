"""The processes of a run: two keepers, and clients that write, and act as operators do."""

from typing import TYPE_CHECKING, Any, Final

from raykeeper.client.core.compound_operations import create_if_missing
from raykeeper.client.recipes.primitives import set_value
from raykeeper.clusters.healing.vocabulary import Cause, HealSettings, ServerLocation
from raykeeper.clusters.keeper_journal import Journal
from raykeeper.clusters.member_journal import LOCK, MemberJournal
from raykeeper.clusters.member_steps import vocabulary
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import Create
from tests.simulation.keepers.judge import Judge
from tests.simulation.keepers.keeper_script import KeeperScript
from tests.simulation.keepers.plans import KEEPERS
from tests.simulation.keepers.ray_cluster import RayCluster
from tests.simulation.plan import Fault, FaultKind, Plan
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE, Scenario, span
from tests.simulation.recipes.script import Pause, Script

if TYPE_CHECKING:
    from tests.simulation.checks import Checks
    from tests.simulation.node import Node

DRAIN_SHARE: Final = 0.04
STALE_AFTER_S: Final = 3_600


class KeeperScenario(Scenario):
    """One run with two keepers."""

    cluster: RayCluster
    judge: Judge
    locations: dict[ServerId, ServerLocation]
    """Where a launch has started the servers."""
    settings: HealSettings
    stand_share: float
    drain_cause = Cause.DRAINED
    change_ms = 0
    is_over = False
    """Whether every vote is back after the faults, so that keepers may end."""

    def prepare(self, plan: Plan, slots: "list[Node]", checks: "Checks") -> None:
        """Make the cluster on which the servers run."""
        keeper = plan.keeper
        assert keeper is not None
        self.cluster = RayCluster(keeper, self.schedule, slots, self.truth)
        self.judge = Judge(keeper, self.schedule, checks, self.cluster, self.counts)
        actors = self.cluster.actors.items()
        self.locations = {
            server: ServerLocation(actor.node.name, actor.node.name) for server, actor in actors
        }
        self.stand_share, self.change_ms = keeper.stand_share, keeper.change_ms
        self.settings = HealSettings(
            heal_after_ms=Millis(keeper.heal_after_ms),
            pause_ms=Millis(keeper.pause_ms),
            moves_per_hour=keeper.moves_per_hour,
            node_age_ms=Millis(keeper.node_age_ms),
            vote_wait_ms=Millis(keeper.vote_wait_ms),
            stale_after_s=STALE_AFTER_S,
        )

    def look(self) -> None:
        """Check what was committed, after each step."""
        self.judge.look()

    def scripts(self, process: Process) -> list[Script]:
        """Return the script of a keeper, or of a client that writes."""
        if process.member.number <= KEEPERS:
            return [KeeperScript(process, self, self.settings).run()]
        if self.change_ms and process.member.number == KEEPERS + 1:
            return [self._write(process), self._change_members(process)]
        return [self._write(process)]

    def stand_still(self, process: Process, lasts_ms: int) -> None:
        """Let a process stand still from now on."""
        fault = Fault(0, FaultKind.CLIENT_FREEZES, process.member.number, lasts_ms=lasts_ms)
        self.schedule.after(0, lambda: None if self.is_ending else self.inject(fault))

    def may_stay(self) -> set[str]:
        """Return the znodes that may remain: those that were written."""
        return {ABOVE, *(f"{ABOVE}/{member.name}" for member in self.members)}

    def _write(self, process: Process) -> Script:
        random = process.random
        path = f"{ABOVE}/{process.member.name}"
        journal: Journal[object] = Journal(process)
        yield create_if_missing(Create(path, b"", 0))
        while not self.is_over:
            yield Pause(span(random, 100, 1_000))
            yield set_value(path, f"{process.name}".encode())
            self.counts["recipe.written"] += 1
            may_drain = not self.is_ending and not self.change_ms
            if may_drain and random.random() < DRAIN_SHARE:
                node = random.choice(sorted(self.cluster.nodes))
                yield journal.drain(node)
                self.counts["recipe.drained"] += 1
                yield Pause(span(random, 500, 10_000))
                yield journal.end_drain(node)

    def _change_members(self, process: Process) -> Script:
        """Leave a change of the members open for a while, which is to remove the last voter."""
        journal: MemberJournal[Any] = MemberJournal(process)
        yield journal.create_paths()
        held = yield process.lock(LOCK, process.name.encode()).acquire()
        if (yield journal.read_plan()) is None:
            voters = tuple(self.cluster.slots)
            yield journal.begin(
                held,
                vocabulary.Plan(
                    text=f"remove server {voters[-1]}",
                    begun_by=process.name,
                    before=vocabulary.Members(voters),
                    target=vocabulary.Members(voters[:-1]),
                ),
            )
        yield Pause(self.change_ms)
        yield journal.end(held)
        self.counts["recipe.changes_ended"] += 1
        yield held.release()
