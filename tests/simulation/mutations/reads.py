"""Read points and watches: rules Z4 and Z5."""

from typing import Any

from raykeeper.server.connection import PendingSync
from raykeeper.server.server import Server
from raykeeper.server.snapshot_install import SnapshotInstall
from raykeeper.zab.effects import ReadIndex
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.learners import Stage
from raykeeper.znodes.watch_replay import WatchReplay
from tests.simulation.mutations.mutation import Mutation, instead


def _by_its_own_word(self: LeaderBroadcast, token: int) -> None:
    self._out.append(ReadIndex(token, self._history.delivered))


def _join_the_probe_under_way(self: LeaderBroadcast, token: int) -> None:
    in_flight = bool(self._probes)
    number = self._ping_number if in_flight else self._ping_number + 1
    self._probes.append((number, token, self._history.delivered))
    if not in_flight:
        self._ping()
    self._answer_probes()


def _one_pong_is_enough(self: LeaderBroadcast) -> None:
    confirmed = max([x.last_pong for x in self.learners if x.has_vote], default=self._ping_number)
    while self._probes and self._probes[0][0] <= confirmed:
        _, token, zxid = self._probes.popleft()
        self._out.append(ReadIndex(token, zxid))
    if self._probes and confirmed == self._ping_number:
        self._ping()


def _due_at_once(right: Any) -> Any:
    def start(self: PendingSync, xid: int, connection: Any) -> None:
        right(self, xid, connection)
        self.read_index = ZERO

    return start


def _serve_always(self: Server) -> None:
    if not self._clients.is_serving_reads:
        self._clients.is_serving_reads = True
        self._clients.resume_all()


def _observers_keep_contact(self: LeaderBroadcast, now: Millis) -> Millis:
    heard = [x.last_received_at for x in self.learners if x.stage is Stage.FOLLOWING]
    ordered, others = sorted([now, *heard], reverse=True), len(self._settings.members.voters) // 2
    return Millis(ordered[others] if len(ordered) > others else 0)


def _heard_when_it_was_established(right: Any) -> Any:
    def init(self: LeaderBroadcast, *arguments: Any) -> None:
        right(self, *arguments)
        for learner in self.learners:
            learner.last_received_at = self._established_at

    return init


def _serve_a_mixture(right: Any) -> Any:
    return property(lambda self: True)


MUTATIONS = [
    Mutation(
        "Z4",
        "a leader confirms read points by its own word",
        [(LeaderBroadcast, "read_index", instead(_by_its_own_word))],
        100,
    ),
    Mutation(
        "Z4",
        "a request joins an outstanding probe",
        [(LeaderBroadcast, "read_index", instead(_join_the_probe_under_way))],
        200,
    ),
    Mutation(
        "Z4",
        "one follower's pong confirms the leader",
        [(LeaderBroadcast, "_answer_probes", instead(_one_pong_is_enough))],
        200,
    ),
    Mutation(
        "Z4",
        "a sync does not wait for the leader",
        [(PendingSync, "__init__", _due_at_once)],
        100,
    ),
    Mutation(
        "Z5",
        "reads are answered without contact to a leader",
        [(Server, "_update_read_serving", instead(_serve_always))],
        300,
    ),
    Mutation(
        "Z5",
        "an observer keeps a leader in contact",
        [(LeaderBroadcast, "last_quorum_contact", instead(_observers_keep_contact))],
        500,
    ),
    Mutation(
        "Z5",
        "a newly established leader counts as just heard",
        [(LeaderBroadcast, "__init__", _heard_when_it_was_established)],
        500,
    ),
    Mutation(
        "Z5",
        "watches are not evaluated again after a snapshot",
        [(WatchReplay, "events_from_state", instead(lambda self, watches, since: []))],
        200,
    ),
    Mutation(
        "Z5",
        "a fuzzy tree is served before it is consistent",
        [(SnapshotInstall, "is_consistent", _serve_a_mixture)],
        200,
    ),
]
