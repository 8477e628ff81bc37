"""The fuzzy snapshot, its publication, and what is sent to a learner."""

from typing import Any

from raykeeper.server.effects import PublishSnapshot, SnapshotFinish
from raykeeper.server.events import SnapshotPublished
from raykeeper.server.snapshot_streams import SnapshotStreams
from raykeeper.zab.history import History
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.zab.learners import Learners
from raykeeper.znodes.sessions import SessionTable
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.tree import Tree
from tests.harness.sim_disk import SimDisk
from tests.simulation.mutations.mutation import Mutation


def _publish_without_the_log(right: Any) -> Any:
    def is_synced_to(self: History, zxid: Zxid) -> bool:
        return True

    return is_synced_to


def _publish_first(right: Any) -> Any:
    def submit(self: SimDisk, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, PublishSnapshot):
                self._publish(effect.zxid)
                self._deliver([SnapshotPublished(effect.zxid)])
        right(self, [x for x in effects if not isinstance(x, PublishSnapshot)])

    return submit


def _real_where_its_walk_began(right: Any) -> Any:
    def write_chunk(self: SnapshotStreams, stream: Any) -> None:
        right(self, stream)
        if self._own is None:
            self._context.out[-1] = SnapshotFinish(stream.zxid, stream.zxid)
            self._finished = (stream.zxid, stream.zxid)

    return write_chunk


def _claims_its_end(right: Any) -> Any:
    def finish(self: SnapshotLoader, zxid: Zxid, consistent_at: Zxid) -> Any:
        state = right(self, zxid, consistent_at)
        state.zxid = consistent_at
        return state

    return finish


def _without_sessions(right: Any) -> Any:
    def visit(self: SnapshotWalk, records: Any) -> None:
        kept = len(records)
        right(self, records)
        for record in records[kept + 1 :]:
            records.remove(record)
            self._session_count -= 1

    return visit


def _without_outcomes(right: Any) -> Any:
    def add(self: SnapshotLoader, record: Any) -> None:
        record.reply_cache.clear()
        right(self, record)

    return add


def _replay_counts_again(right: Any) -> Any:
    def record(self: SessionTable, session: Any, number: int, acked: int, outcome: Any) -> None:
        if number <= session.last_number:
            session.reply_cache[number] = outcome
        right(self, session, number, acked, outcome)

    return record


def _parent_of_a_missing_child(right: Any) -> Any:
    def delete(self: Tree, zxid: Zxid, path: str) -> Any:
        if path not in self.znodes:
            return None  # nothing to delete, so the parent does not change (ZOOKEEPER-3125)
        return right(self, zxid, path)

    return delete


def _tail_from_the_end(right: Any) -> Any:
    def snapshot_end(self: Learners, learner: Any, consistent_at: Zxid) -> None:
        learner.snapshot_zxid = consistent_at
        right(self, learner, consistent_at)

    return snapshot_end


def _installed_as_real(right: Any) -> Any:
    def install(self: History, zxid: Any, _consistent_at: Any, tail: Any) -> None:
        known, self._known_committed = self._known_committed, ZERO
        right(self, zxid, zxid, tail)
        self._known_committed = known

    return install


MUTATIONS = [
    Mutation(
        "snapshots",
        "a snapshot is published before the log is synced to its end",
        [(History, "is_synced_to", _publish_without_the_log), (SimDisk, "submit", _publish_first)],
        200,
    ),
    Mutation(
        "snapshots",
        "a snapshot is written as the state where its walk began",
        [(SnapshotStreams, "_write_chunk", _real_where_its_walk_began)],
        200,
    ),
    Mutation(
        "snapshots",
        "a snapshot is loaded as the state at its last zxid",
        [(SnapshotLoader, "finish", _claims_its_end)],
        100,
    ),
    Mutation(
        "snapshots",
        "a snapshot lacks sessions",
        [(SnapshotWalk, "_visit_sessions", _without_sessions)],
        100,
    ),
    Mutation(
        "snapshots",
        "a snapshot lacks outcomes",
        [(SnapshotLoader, "_add_session", _without_outcomes)],
        100,
    ),
    Mutation(
        "snapshots",
        "a replayed outcome is recorded again",
        [(SessionTable, "record", _replay_counts_again)],
        200,
    ),
    Mutation(
        "snapshots",
        "a replayed deletion of a missing child leaves the parent as it is",
        [(Tree, "delete", _parent_of_a_missing_child)],
        300,
    ),
    Mutation(
        "snapshots",
        "a learner gets the transactions from the end of the walk on",
        [(Learners, "snapshot_end", _tail_from_the_end)],
        200,
    ),
    Mutation(
        "snapshots",
        "a received tree counts as consistent too early",
        [(History, "install", _installed_as_real)],
        400,
    ),
]
