"""The promises of the keeper, judged from all nodes, disks, actors and transactions."""

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from raykeeper.clusters.healing.pauses import HOUR_MS
from raykeeper.clusters.healing.vocabulary import Cause, Decision, MoveStep, Start
from raykeeper.clusters.keeper_journal import EVENTS
from raykeeper.clusters.member_steps.vocabulary import decode_plan
from raykeeper.clusters.voting_disks import find_leader
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.paths import MEMBER_PLAN_PATH
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import SimDisk
from tests.simulation.checks import Checks, durability
from tests.simulation.checks.truth import TrueZnode
from tests.simulation.clock import DRIFT_PPM_MAX
from tests.simulation.keepers.ray_cluster import Actor, RayCluster, RayNode
from tests.simulation.plan import KeeperPlan

if TYPE_CHECKING:
    from tests.simulation.keepers.keeper_script import KeeperScript

_QUICKEST: Final = 1 + 2 * DRIFT_PPM_MAX / 1_000_000
"""How much quicker than the world's time a keeper's clock may be."""
DISKS_EVERY: Final = 200
"""Steps between two looks at the disks with votes."""


class Judge:
    """Checks each decision when it is committed, and each act when it is done."""

    def __init__(
        self,
        plan: KeeperPlan,
        schedule: Schedule,
        checks: Checks,
        cluster: RayCluster,
        counts: Counter[str],
    ) -> None:
        """`counts` has how often each event of the scenario happened."""
        self.decisions: list[Decision] = []
        self.begun_ms: list[tuple[int, int]] = []
        """When moves were begun, in the ensemble's time and in the world's."""
        self._ended_ms: dict[ServerId, int] = {}
        """When a keeper has ended an actor of a server last."""
        self.change_ended_ms = 0
        """When the last change of the members was over."""
        self._changing_since: dict[ServerId, int] = {}
        """The servers that an open change of the members is about."""
        self._member_plan: TrueZnode | None = None
        self._plan = plan
        self._schedule = schedule
        self._checks = checks
        self._cluster = cluster
        self._counts = counts
        self._steps = 0

    @property
    def open_move(self) -> Decision | None:
        """The move under way, by all that was committed."""
        last = self.decisions[-1] if self.decisions else None
        is_open = last is not None and last.step in (MoveStep.BEGUN, MoveStep.STARTED)
        return last if is_open else None

    def look(self) -> None:
        """See what was committed, after each step of the world."""
        self._steps += 1
        truth = self._checks.truth
        events = truth.znodes.get(EVENTS)
        while events is not None and events.creates > len(self.decisions):
            znode = truth.znodes[f"{EVENTS}/event-{len(self.decisions):010}"]
            self._decided(msgspec.json.decode(znode.value, type=Decision), znode.ctime)
        plan = truth.znodes.get(MEMBER_PLAN_PATH)
        if plan is not self._member_plan:
            self._member_plan = plan
            change = None if plan is None else decode_plan(plan.value)
            changing = () if change is None else change.changing
            self._changing_since = dict.fromkeys(changing, self._schedule.now)
            self.change_ended_ms = self._schedule.now
        if self._steps % DISKS_EVERY == 0:
            self._disks_hold_all()

    def _decided(self, decision: Decision, time_ms: int) -> None:
        before = self.open_move
        if decision.step is MoveStep.BEGUN:
            assert before is None, f"OneMove: {decision} while {before}"
            self._begins(decision, time_ms)
        else:
            assert before is not None, f"OneMove: {decision} of no move"
            same = decision.server == before.server and decision.target == before.target
            assert same, f"OneMove: {decision} while {before}"
        self.decisions.append(decision)

    def _begins(self, decision: Decision, time_ms: int) -> None:
        source = self._cluster.nodes[decision.source]
        begun = [*self.begun_ms]
        self.begun_ms.append((time_ms, self._schedule.now))
        if decision.cause is not Cause.LOST:
            return
        if source.dead_since is not None:
            lost_ms = (self._schedule.now - source.dead_since) * _QUICKEST
            assert lost_ms >= self._plan.heal_after_ms, f"HealAfter: {decision} after {lost_ms} ms"
        else:
            steps = [each.step for each in self.decisions if each.server == decision.server]
            was_left = steps[-1:] == [MoveStep.UNDONE] or self._was_ended(decision.server)
            assert was_left, f"HealAfter: {decision}, and its node is alive"
        # By one of the clocks: the ensemble's time jumps with its leaders, or stands still.
        ages_ms = [max(time_ms - e, (self._schedule.now - w) * _QUICKEST) for e, w in begun]
        if begun:
            assert ages_ms[-1] >= self._plan.pause_ms, f"Limits: {decision} after {ages_ms[-1]} ms"
        recent = [age_ms for age_ms in ages_ms if age_ms < HOUR_MS]
        most = self._plan.moves_per_hour
        assert len(recent) < most, f"Limits: {decision} is the {len(recent) + 1}th in an hour"

    def _was_ended(self, server: ServerId) -> bool:
        """Return whether the last actor of a server was ended by a keeper, for long enough."""
        ended_ms = self._ended_ms.get(server, self._schedule.now)
        return (self._schedule.now - ended_ms) * _QUICKEST >= self._plan.heal_after_ms

    # Acts.

    def decides(self, keeper: "KeeperScript", decision: Decision) -> None:
        """Check a decision when it is made, by what could be seen then."""
        server, since = decision.server, self._changing_since.get(decision.server)
        is_known = since is not None and since < keeper.looked_at
        assert decision.step is not MoveStep.BEGUN or not is_known, (
            f"Change: {decision}, and a change of the members is about server {server}"
        )

    def ends(self, keeper: "KeeperScript", actor: Actor) -> None:
        """Check the end of an actor."""
        server, view, slot = actor.server, keeper.view, self._cluster.slots[actor.server]
        self._ended_ms[server] = self._schedule.now
        is_seen = actor.since <= keeper.looked_at
        assert is_seen, f"Late: {keeper.process.name} ends server {server}, which it never saw"
        assert view is not None
        if not self._leads(keeper):
            self._counts["recipe.ended_late"] += 1
            return
        move = self.open_move
        assert move is not None and move.server == server, f"OneMove: {server} ends, {move} is open"
        if slot.is_up and actor.node.name != move.target:
            if move.cause is Cause.LOST:
                assert server not in view.linked, f"Heard: the leader hears server {server}"
            others = [voter for voter in view.voting if voter != server]
            most = len(self._cluster.slots) // 2
            assert len(others) > most, f"Majority: {server} is needed beside {others}"

    def starts(self, keeper: "KeeperScript", step: Start, node: RayNode) -> None:
        """Check the start of a server."""
        there = [
            actor.server
            for actor in self._cluster.actors.values()
            if actor.node is node and actor.server != step.server
        ]
        if step.has_disk:
            return
        if self._leads(keeper):
            assert not there, f"Spread: {step} beside {there}"
        answers = {server: self._cluster.answer(server) for server in self._cluster.actors}
        leader = find_leader(tuple(self._cluster.slots), answers)
        assert not leader.doubt, f"Majority: {step} on an empty folder, and {leader.doubt}"

    def sets_aside(self, server: ServerId, disk: SimDisk) -> None:
        """Check that the disk with the vote stays."""
        named = self._cluster.voting_disk(server)
        assert disk.disk != named, f"Aside: the disk with the vote of server {server}"

    def _leads(self, keeper: "KeeperScript") -> bool:
        """Return whether the leadership of a keeper lasts, by all that was committed."""
        held = keeper.leadership
        assert held is not None
        znode = self._checks.truth.znodes.get(held.path)
        return znode is not None and znode.czxid == held.token

    # Disks.

    def _disks_hold_all(self) -> None:
        """Check that what was delivered is on a majority of the disks that have the votes."""
        zab, cluster = self._checks.zab, self._cluster
        if not zab.last:
            return
        disks = []
        for server in cluster.slots:
            holder = cluster.holder(server)
            if holder is None:
                lost = SimDisk(self._schedule)
                lost.is_replaced = True
                disks.append(lost)
            else:
                disks.append(holder.disks[server])
        quorum = len(disks) // 2 + 1
        durability.acked_writes_survive(disks, quorum, zab.last, zab.committed[zab.last])
