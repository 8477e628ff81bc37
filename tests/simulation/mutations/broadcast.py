"""Acks and commits: rules Z3, Z6 and Z7."""

from typing import Any

from raykeeper.zab import leader_broadcast
from raykeeper.zab.effects import DiscardSnapshot, ReceiveSnapshot, Send
from raykeeper.zab.follower_broadcast import FollowerBroadcast
from raykeeper.zab.follower_recovery import FollowerRecovery
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.learners import Learners, Stage
from raykeeper.zab.messages import Ack, Commit, UpToDate
from raykeeper.zab.quorum import Quorum
from tests.harness.sim_disk import SimDisk
from tests.simulation.mutations.mutation import Mutation, instead


def _ack_before_sync(right: Any) -> Any:
    def on_proposals(self: FollowerBroadcast, batch: Any) -> None:
        right(self, batch)
        if self._history.logged > self._acked:
            self._acked = self._history.logged
            self._out.append(Send(self.leader, Ack(self._acked)))

    return on_proposals


def _ack_more_than_is_synced(right: Any) -> Any:
    def log_synced(self: FollowerBroadcast) -> None:
        # One transaction is on disk, so all count as synced.
        logged = self._history.logged
        if logged > self._acked:
            self._acked = logged
            self._out.append(Send(self.leader, Ack(logged)))

    return log_synced


def _leader_counts_what_it_logged(right: Any) -> Any:
    def commit(self: LeaderBroadcast) -> None:
        history = self._history
        synced, history.synced = history.synced, history.logged
        right(self)
        history.synced = synced

    return commit


def _one_less_than_a_quorum(self: Quorum[Any], cursors: Any) -> int:
    ordered = sorted([each for voter, each in cursors if voter in self.voters], reverse=True)
    wanted = max(1, self.size - 1)
    return ordered[wanted - 1] if len(ordered) >= wanted else 0


def _commit_not_clipped(self: LeaderBroadcast) -> None:
    history = self._history
    commit = self._quorum_value(history.synced, lambda x: x.acked)
    if commit <= history.delivered:
        return
    history.deliver(commit)
    for learner in self.learners:
        self._out.append(Send(learner.server_id, Commit(commit)))


def _up_to_date_with_all(self: LeaderBroadcast, learner: Any) -> None:
    # Everything that was sent, committed or not.
    self._out.append(Send(learner.server_id, UpToDate(learner.sent)))


def _ack_of_new_leader_covers_all(right: Any) -> Any:
    def follow(self: Learners, learner: Any, ack: Any, now: Any) -> None:
        right(self, learner, ack, now)
        learner.acked = learner.sent

    return follow


def _count_those_without_a_vote(right: Any) -> Any:
    def greet(self: Learners, sender: Any, info: Any, now: Any) -> None:
        right(self, sender, info, now)
        members, here = self._settings.members, self._by_id[sender]
        if not here.has_vote:
            absent = set(members.newest.voters.items()).difference(x.seat for x in self)
            absent.discard(self._settings.seat)
            here.seat = min(absent, default=here.seat)  # it counts in the place of another one
            here.has_vote = True

    return greet


def _no_bound(_right: Any) -> Any:
    return property(lambda self: 1 << 40)


def _old_log_goes_first(right: Any) -> Any:
    def perform(self: SimDisk, effect: Any) -> Any:
        if isinstance(effect, ReceiveSnapshot):
            self.log, self.snapshots = [], []
        return right(self, effect)

    return perform


def _chunks_of_an_earlier_one_stay(right: Any) -> Any:
    def perform(self: SimDisk, effect: Any) -> Any:
        kept = self._incoming
        event = right(self, effect)
        if isinstance(effect, ReceiveSnapshot | DiscardSnapshot):
            self._incoming = kept
        return event

    return perform


def _epoch_before_the_snapshot(right: Any) -> Any:
    def on_snapshot(self: FollowerRecovery, message: Any) -> None:
        right(self, message)
        self._history.save_epochs(self._history.accepted, self._history.accepted)

    return on_snapshot


def _no_proposals_while_synchronizing(self: LeaderBroadcast, txns: Any, now: Any) -> None:
    first = self.next_zxid()
    self._history.append(first, txns)
    for learner in self.learners:
        if learner.stage is Stage.FOLLOWING:
            learner.sent = self._history.logged
            self._out.append(Send(learner.server_id, leader_broadcast.Proposals(first, txns)))


MUTATIONS = [
    Mutation(
        "Z3",
        "a follower acknowledges before its disk has it",
        [(FollowerBroadcast, "_on_proposals", _ack_before_sync)],
    ),
    Mutation(
        "Z3",
        "an ack covers the logged and not only the synced transactions",
        [(FollowerBroadcast, "log_synced", _ack_more_than_is_synced)],
        100,
    ),
    Mutation(
        "Z3",
        "the leader counts itself before its disk has it",
        [(LeaderBroadcast, "_commit", _leader_counts_what_it_logged)],
        100,
    ),
    Mutation(
        "Z3",
        "one less than a quorum commits",
        [(Quorum, "quorum_value", instead(_one_less_than_a_quorum))],
    ),
    Mutation(
        "Z3",
        "a commit is sent before the ack of NEWLEADER",
        [(LeaderBroadcast, "_commit", instead(_commit_not_clipped))],
    ),
    Mutation(
        "Z3",
        "UPTODATE commits everything that was sent",
        [(LeaderBroadcast, "_send_up_to_date", instead(_up_to_date_with_all))],
        100,
    ),
    Mutation(
        "Z3",
        "the ack of NEWLEADER covers later proposals",
        [(Learners, "on_ack_new_leader", _ack_of_new_leader_covers_all)],
        200,
    ),
    Mutation(
        "Z3",
        "an observer's acks count",
        [(Learners, "on_follower_info", _count_those_without_a_vote)],
        100,
    ),
    Mutation(
        "Z3",
        "a synchronizing follower misses new proposals",
        [(LeaderBroadcast, "propose", instead(_no_proposals_while_synchronizing))],
    ),
    Mutation(
        "Z6",
        "the counter of an epoch has no bound",
        [(LeaderBroadcast, "counter_left", _no_bound)],
        100,
    ),
    Mutation(
        "Z7",
        "the epoch is saved before its snapshot",
        [(FollowerRecovery, "_on_snapshot", _epoch_before_the_snapshot)],
        500,
    ),
    # The store keeps this rule; here the simulated disk does.
    Mutation(
        "Z7",
        "the old log is deleted when a snapshot begins to arrive",
        [(SimDisk, "_perform", _old_log_goes_first)],
        200,
    ),
    Mutation(
        "Z7",
        "half of a snapshot is kept for the next one",
        [(SimDisk, "_perform", _chunks_of_an_earlier_one_stay)],
        500,
    ),
]
