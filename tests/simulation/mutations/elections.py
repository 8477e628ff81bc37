"""Elections: rules Z1 and Z2, and discovery."""

from typing import Any

from raykeeper.zab.follower_recovery import FollowerRecovery
from raykeeper.zab.history import History
from raykeeper.zab.leader_recovery import LeaderRecovery
from raykeeper.zab.looking import AwaitDisk, Looking
from raykeeper.zab.messages import AckEpoch, Vote
from raykeeper.zab.peer import Peer
from raykeeper.zab.phases import FollowerPhase
from raykeeper.zab.transitions import DiskIdle
from tests.simulation.mutations.mutation import Mutation, instead


def _settle_at_once(self: AwaitDisk) -> None:
    self.outcome = DiskIdle()


def _keep_notifications(self: Looking, peer: Any, now: Any) -> None:
    self._check(now)


def _vote_of_what_is_logged(right: Any) -> Any:
    def start(self: Looking, settings: Any, history: History, *rest: Any) -> None:
        # Draining was skipped: the log counts as synced already.
        synced, history.synced = history.synced, history.logged
        right(self, settings, history, *rest)
        history.synced = synced

    return start


def _never_decide_by_time(right: Any) -> Any:
    def check(self: Looking, now: Any) -> None:
        finalize, self._finalize_at = self._finalize_at, None
        right(self, now)
        self._finalize_at = self._finalize_at or finalize

    return check


def _promise_in_memory(self: FollowerRecovery, message: Any) -> None:
    history = self._history
    self.phase = FollowerPhase.PROMISED
    if message.epoch > history.accepted:
        history.promised_to = self.leader
        history.accepted = message.epoch
    self._send_ack_epoch(promised=True)


def _current_with_the_promise(right: Any) -> Any:
    def promise(self: History, epoch: Any, leader: Any) -> None:
        self.promised_to = leader
        self.save_epochs(epoch, epoch)

    return promise


def _count_every_promise(right: Any) -> Any:
    return lambda self, promised: right(self, True)


def _one_above_its_own(right: Any) -> Any:
    def on_follower_info(self: LeaderRecovery, sender: Any, info: Any, now: Any) -> None:
        heard = self._highest_accepted
        right(self, sender, info, now)
        self._highest_accepted = heard

    return on_follower_info


def _accept_any_history(self: LeaderRecovery, learner: Any, ack: AckEpoch) -> None:
    self.learners.on_ack_epoch(learner, ack)


def _by_number(_right: Any) -> Any:
    return property(lambda self: (0, 0, self.is_willing, self.leader))


def _epoch_first(right: Any) -> Any:
    def begin(self: FollowerRecovery, message: Any) -> None:
        history = self._history
        history.save_epochs(history.accepted, history.accepted)
        right(self, message)

    return begin


def _confirm_when_saved(right: Any) -> Any:
    def confirm(self: FollowerRecovery) -> None:
        if self._history._saving is None:
            right(self)

    return confirm


def _lead_without_a_quorum(self: LeaderRecovery, stage: Any) -> bool:
    return any(x.stage >= stage for x in self.learners)


def _majority_of_one(right: Any) -> Any:
    def check(self: Any, *arguments: Any) -> None:
        quorum = self._settings.members._electors
        size, quorum.size = quorum.size, 1
        try:
            right(self, *arguments)
        finally:
            quorum.size = size

    return check


MUTATIONS = [
    Mutation(
        "Z1",
        "a link down keeps its peer's notifications",
        [(Looking, "link_down", instead(_keep_notifications))],
        200,
    ),
    Mutation(
        "Z1",
        "the wait for linked voters never ends",
        [(Looking, "_check", _never_decide_by_time)],
    ),
    Mutation(
        "Z2",
        "a role is left without draining the log",
        [
            (AwaitDisk, "check", instead(_settle_at_once)),
            (Looking, "__init__", _vote_of_what_is_logged),
        ],
    ),
    Mutation(
        "Z2",
        "the current epoch is saved before its log",
        [
            (FollowerRecovery, "_on_diff", _epoch_first),
            (FollowerRecovery, "_on_trunc", _epoch_first),
            (FollowerRecovery, "_confirm", _confirm_when_saved),
        ],
        200,
    ),
    Mutation(
        "discovery",
        "the current epoch is saved together with the promise",
        [(History, "promise", _current_with_the_promise)],
        500,
    ),
    Mutation(
        "discovery",
        "a promise is not saved before it is given",
        [(FollowerRecovery, "_on_leader_info", instead(_promise_in_memory))],
    ),
    Mutation(
        "discovery",
        "an epoch that was promised to another leader is promised again",
        # The leader proposes such an epoch only if it ignores the promises.
        [
            (FollowerRecovery, "_send_ack_epoch", _count_every_promise),
            (LeaderRecovery, "_on_follower_info", _one_above_its_own),
        ],
        200,
    ),
    Mutation(
        "discovery",
        "a follower with a newer history is accepted",
        # The election is only an oracle, and mostly right: here the highest server id wins.
        [
            (LeaderRecovery, "_on_ack_epoch", instead(_accept_any_history)),
            (Vote, "rank", _by_number),
        ],
        200,
    ),
    Mutation(
        "discovery",
        "one promise is enough",
        # The election, an oracle, lets servers lead without followers.
        [
            (LeaderRecovery, "_check_epoch", _majority_of_one),
            (LeaderRecovery, "_check_promises", _majority_of_one),
            (Looking, "_check", _majority_of_one),
        ],
        200,
    ),
    Mutation(
        "synchronization",
        "a leader is established without a quorum",
        [(LeaderRecovery, "_has_quorum_at", instead(_lead_without_a_quorum))],
    ),
    Mutation(
        "election",
        "a server goes on following a leader without a link",
        [(Peer, "link_down", instead(lambda self, peer, now: self.links.pop(peer, None)))],
    ),
]
