"""A world whose servers change their programs, and the rules that it checks.

    An older program never starts on a disk that holds the raise of a level, or a snapshot of it.
    The level is raised only after every server has run a program that knows it.
    What a server writes is of the format of the level that its disk requires, at most.
    When all have the newest program, the level is raised.

An older program is the same code with an older `newest_level`: it ends at a transaction of a newer
one, and refuses its snapshots, as the real one does.
"""

import msgspec

from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN, FeatureLevel
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.snapshot import SNAPSHOT_FORMATS
from raykeeper.znodes.txns import level_required_by
from tests.harness.schedule import Trace
from tests.harness.sim_disk import SimDisk
from tests.simulation.node import Node
from tests.simulation.plan import Plan
from tests.simulation.world import World

_BACK_MS = 40
"""How long after a disk was marked servers go back, at most."""
_AGAIN_MS = 800
"""How long until they are upgraded again."""
_GOES_BACK_MAX = 4


class UpgradeWorld(World):
    """The general world, with programs that change."""

    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        super().__init__(plan, trace)
        assert plan.upgrade is not None
        self._random = self.schedule.stream("upgrade")
        self._behind = self.schedule.stream("upgrade.behind")
        self._leaves_one_behind = plan.upgrade.leaves_one_behind
        self._upgraded: dict[int, None] = {}
        self._went_back = 0
        self._is_over = False
        for node in self.nodes:
            node.newest_level = LEVEL_MIN
            node.on_started = self._on_started
            node.on_marked = self._on_marked
        for change in plan.upgrade.changes:
            self.schedule.after(
                change.at_ms,
                lambda change=change: self._change(change.server_id, FeatureLevel(change.level)),
            )

    def _change(self, server_id: int, level: FeatureLevel) -> None:
        """Stop a server, and start it with another program."""
        node = self.nodes[server_id - 1]
        if self._is_over or node.newest_level == level:
            return
        self.schedule.say(f"server {server_id} gets the program of level {level}")
        self.checks.counts["upgrades" if level == LEVEL_MAX else "downgrades"] += 1
        if node.is_up:
            node.crash()
        node.newest_level = level
        self.schedule.after(self._random.randint(0, 30), node.start)

    def _on_started(self, node: Node) -> None:
        if node.newest_level == LEVEL_MAX:
            self._upgraded[node.server_id] = None
        else:
            self._check_is_readable(node.disk)

    def _check_is_readable(self, disk: SimDisk) -> None:
        """Check that an older program finds nothing that it does not know."""
        txns = [txn for _, txn in disk.log]
        assert level_required_by(Zxid(1), txns) == LEVEL_MIN, (
            "Upgrade: an older program starts on a log that holds the raise"
        )
        for snapshot in disk.snapshots:
            _check_format(snapshot.chunks, LEVEL_MIN)

    def _on_marked(self, node: Node) -> None:
        """Check that all know the level; perhaps send some back just now."""
        missing = [each.server_id for each in self.nodes if each.server_id not in self._upgraded]
        assert not missing, f"Upgrade: the level is raised, and servers {missing} never knew it"
        self.checks.counts["marked"] += 1
        self._leave_behind(node)
        upgrade = self.plan.upgrade
        assert upgrade is not None
        is_drawn = self._random.random() < upgrade.back_share
        if self._is_over or not is_drawn or self._went_back >= _GOES_BACK_MAX:
            return
        self._went_back += 1
        at_ms = self._random.randint(0, _BACK_MS)
        for each in self._random.sample(self.nodes, self._random.randint(1, len(self.nodes))):
            back, again = (each.server_id, LEVEL_MIN), (each.server_id, LEVEL_MAX)
            self.schedule.after(at_ms, lambda back=back: self._change(*back))
            self.schedule.after(
                at_ms + self._random.randint(1, _AGAIN_MS), lambda again=again: self._change(*again)
            )

    def _leave_behind(self, marked: Node) -> None:
        """Once in a run, have another server go back, whose disk the raise has not reached.

        Nothing on its disk keeps the older program from starting: only whom it follows does.
        """
        unmarked = [
            node
            for node in self.nodes
            if node is not marked and node.is_up and node.disk.level == LEVEL_MIN
        ]
        if self._is_over or not self._leaves_one_behind or not unmarked:
            return
        self._leaves_one_behind = False
        behind = self._behind.choice(unmarked).server_id
        self.checks.counts["left_behind"] += 1
        self.schedule.after(0, lambda: self._change(behind, LEVEL_MIN))
        self.schedule.after(
            self._behind.randint(1, _AGAIN_MS), lambda: self._change(behind, LEVEL_MAX)
        )

    def _finish_work(self) -> None:
        """Give every server the newest program, and check what is on the disks till then."""
        for node in self.nodes:
            for snapshot in node.disk.snapshots:
                _check_format(snapshot.chunks, node.disk.level)
            if node.newest_level != LEVEL_MAX:
                self._change(node.server_id, LEVEL_MAX)
            elif not node.is_up:
                self.schedule.after(0, node.start)
        self._is_over = True

    def _look_around(self) -> None:
        """Check that the level is raised everywhere."""
        bound_ms = Millis(self.schedule.now + self.plan.timing.converge_ms)
        done = self.schedule.run_until(bound_ms, self._is_raised)
        assert done, f"Upgrade: the level is not raised in the end: {self._why()}"
        for node in self.nodes:
            assert node.disk.level == LEVEL_MAX, f"Upgrade: {node.server_id} is not marked"

    def _is_raised(self) -> bool:
        return all(
            node.server is not None and node.server.state.level == LEVEL_MAX for node in self.nodes
        )


def _check_format(chunks: list[bytes], level: FeatureLevel) -> None:
    found = msgspec.msgpack.decode(chunks[0])[0][1]
    assert found <= SNAPSHOT_FORMATS[level], (
        f"Upgrade: a snapshot of format {found} where only level {level} is required"
    )
