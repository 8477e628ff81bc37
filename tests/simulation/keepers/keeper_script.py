"""A keeper in the simulator: the steps of `KeeperLoop`, on a simulated session and a simulated Ray.

The journal is the real one, on the real core of a client. Each call of Ray takes time. An
act follows its check after a while, in which the keeper may stand still: as in a thread of its own,
it is done even if the session has ended meanwhile.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from raykeeper.client.recipes.election import Leadership
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.healing.keeper_loop import KeeperLoop
from raykeeper.clusters.healing.move_steps import MoveError
from raykeeper.clusters.healing.vocabulary import (
    Act,
    AskNodes,
    ForgetDrains,
    HealSettings,
    KeeperStep,
    Kill,
    Log,
    Observe,
    Pause,
    ReadClock,
    RemoveStaleFolders,
    SaveLocations,
    SetFolderAside,
    Start,
    Stop,
    Survey,
    View,
    WriteDecision,
)
from raykeeper.clusters.keeper_journal import ELECTION, Journal
from raykeeper.clusters.keeper_view import make_survey, make_view
from raykeeper.clusters.voting_disks import find_voting_disks
from raykeeper.zab.ids import Millis
from tests.simulation.keepers.judge import Judge
from tests.simulation.keepers.ray_cluster import Actor, RayCluster
from tests.simulation.recipes import script
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.script import GaveUpError, Script, Within

if TYPE_CHECKING:
    from tests.simulation.keepers.scenario import KeeperScenario

CALL_MS = 30
"""How long a call of Ray takes, at most."""
POLL_MS = 10
STAND_MS = (50, 1_000, 6_000, 12_000)
"""How long a keeper stands still between its check and its act."""


class _Outcome(Struct):
    """What became of an act: its answer, or why it was not possible."""

    answer: Any = None
    error: MoveError | None = None


class KeeperScript:
    """One process of a keeper."""

    def __init__(
        self, process: Process, scenario: "KeeperScenario", settings: HealSettings
    ) -> None:
        self.process = process
        self.loop: KeeperLoop | None = None
        self.leadership: Leadership[Any] | None = None
        self.view: View | None = None
        """The last look."""
        self.looked_at = 0
        """When the actors were listed that the last look shows."""
        self._scenario = scenario
        self._cluster: RayCluster = scenario.cluster
        self._judge: Judge = scenario.judge
        self._settings = settings
        self._journal: Journal[Any] = Journal(process)
        self._config = EnsembleConfig(name="sim", servers=len(scenario.cluster.slots))
        self._random = process.random

    def run(self) -> Script:
        """Stand for election, and lead when elected, until the scenario is over."""
        process, scenario = self.process, self._scenario
        yield self._journal.create_paths()
        latch = process.leader_latch(ELECTION, process.name.encode())
        yield latch.start()
        while not scenario.is_over:
            try:
                self.leadership = yield Within(latch.wait(), 300)
            except GaveUpError:
                continue
            scenario.counts["recipe.elected"] += 1
            yield from self._lead()
        yield latch.close()

    def _lead(self) -> Script:
        entries = yield self._journal.read_entries()
        locations = yield self._journal.read_locations()
        locations = {**self._scenario.locations, **locations}
        loop = self.loop = KeeperLoop(self._settings, entries, locations, self.process.now())
        steps = loop.steps()
        step = next(steps)
        while not self._scenario.is_over:
            try:
                answer = yield from self._do(step)
            except MoveError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)

    def _do(self, step: KeeperStep) -> Generator[Any, Any, Any]:
        assert self.leadership is not None and self.loop is not None
        match step:
            case ReadClock():
                return self.process.now()
            case Observe():
                return (yield from self._look())
            case Pause():
                yield script.Pause(step.ms)
            case SaveLocations():
                return (yield self._journal.save_locations(self.leadership, step.locations))
            case AskNodes():
                return (yield from self._survey())
            case WriteDecision():
                self._scenario.say(self.process, f"decides {step.decision}")
                self._judge.decides(self, step.decision)
                return (yield self._journal.write_decision(self.leadership, step.decision))
            case ForgetDrains():
                yield self._journal.forget_dead_drains(step.nodes)
            case Log():
                self._scenario.counts["recipe.folders_named"] += 1
            case _:
                return (yield from self._act(step))
        return None

    def _call(self) -> script.Pause:
        return script.Pause(self._random.randint(0, CALL_MS))

    def _look(self) -> Generator[Any, Any, View]:
        cluster = self._cluster
        drained = yield self._journal.read_drains()
        assert self.leadership is not None
        self.leadership.lost.check()
        alive = {node.name: node.is_alive for node in cluster.nodes.values()}
        yield self._call()
        looked_at = self._scenario.schedule.now
        actors = {server: actor.actor_id for server, actor in sorted(cluster.actors.items())}
        yield self._call()
        answers = {
            server: cluster.status(server) if server in cluster.actors else "it is dead"
            for server in actors
        }
        leaving = dict.fromkeys(drained, self._scenario.drain_cause)
        self.view = make_view(self._config.voter_ids, alive, leaving, {}, actors, answers)
        self.looked_at = looked_at
        self._scenario.counts["recipe.changes_seen"] += bool(self.view.changing)
        return self.view

    def _survey(self) -> Generator[Any, Any, Survey]:
        assert self.leadership is not None and self.loop is not None
        cluster = self._cluster
        locations = self.loop.healing.locations
        time_ms = yield self._journal.save_locations(self.leadership, locations)
        reports = [cluster.report(node) for node in cluster.nodes.values() if node.is_alive]
        yield self._call()
        answers = {server: cluster.status(server) for server in sorted(cluster.actors)}
        return make_survey(
            self._config, self._config.voter_ids, reports, {}, answers, Millis(time_ms)
        )

    # Acts.

    def _act(self, step: Act) -> Generator[Any, Any, Any]:
        assert self.leadership is not None
        checks = 2 if isinstance(step, Kill) else 1
        for _ in range(checks):
            self.leadership.lost.check()
        outcome: list[_Outcome] = []
        handlers: dict[type[Act], Callable[[Any], Any]] = {
            Stop: self._stop,
            Kill: self._kill,
            Start: self._start,
            SetFolderAside: self._set_aside,
            RemoveStaleFolders: lambda _step: [],
        }

        def do() -> None:
            self._scenario.say(self.process, f"does {step}")
            try:
                outcome.append(_Outcome(handlers[type(step)](step)))
            except MoveError as error:
                outcome.append(_Outcome(error=error))

        self._later(do)
        while not outcome:
            yield script.Pause(POLL_MS)
        if outcome[0].error is not None:
            raise outcome[0].error
        return outcome[0].answer

    def _later(self, act: Callable[[], None]) -> None:
        """Act after a while; a killed process does not, one that stands still does afterwards."""
        member, random = self.process.member, self._random
        delay_ms = random.randint(0, CALL_MS)
        if not self._scenario.is_ending and random.random() < self._scenario.stand_share:
            self._scenario.stand_still(self.process, random.choice(STAND_MS))

        def do() -> None:
            if not self.process.is_killed and not member._waits(do):
                act()

        self._scenario.schedule.after(delay_ms, do)

    def _stop(self, step: Stop) -> None:
        actor, slot = self._running(step), self._cluster.slots[step.server]
        if actor is None or slot.server is None or slot.is_frozen or not actor.node.is_reached:
            return
        assert self.leadership is not None
        if slot.server.knows_lost(self.leadership.path, self.leadership.token):
            self._scenario.counts["recipe.stops_refused"] += 1
            raise MoveError("another keeper leads")
        self._judge.ends(self, actor)
        slot.crash()

    def _kill(self, step: Kill) -> None:
        actor = self._running(step)
        if actor is not None:
            self._judge.ends(self, actor)
            self._cluster.kill(step.server)

    def _running(self, step: Stop | Kill) -> Actor | None:
        """Return the actor that is meant, if it is still there."""
        actor = self._cluster.actors.get(step.server)
        return actor if actor is not None and self._is_meant(actor, step.actor) else None

    @staticmethod
    def _is_meant(actor: Actor, actor_id: str) -> bool:
        return actor.actor_id == actor_id

    def _start(self, step: Start) -> None:
        cluster = self._cluster
        nodes = [node for name in step.nodes if (node := cluster.nodes[name]).works]
        if not nodes:
            raise MoveError("the new node is gone")
        if not step.has_disk:
            answers = {server: cluster.status(server) for server in sorted(cluster.actors)}
            voting = find_voting_disks(self._config.voter_ids, answers)
            if doubt := voting.doubt_about(step.server):
                raise MoveError(doubt)
        self._judge.starts(self, step, nodes[0])
        cluster.start(step.server, nodes[0])

    def _set_aside(self, step: SetFolderAside) -> str | None:
        node = self._cluster.nodes[step.node]
        disk = node.machine.disks.get(step.server)
        if not node.works:
            raise MoveError("the node is gone")
        if disk is None or disk.disk == step.voting_disk:
            return None
        if disk.is_locked:
            raise MoveError("the folder is in use")
        if not self._is_untouched(disk.incarnation, step.incarnation):
            return None
        self._judge.sets_aside(step.server, disk)
        node.machine.stale.append(node.machine.disks.pop(step.server))
        self._scenario.counts["recipe.set_aside"] += 1
        return f"{step.server}.stale"

    @staticmethod
    def _is_untouched(incarnation: int, expected: int) -> bool:
        return incarnation == expected
