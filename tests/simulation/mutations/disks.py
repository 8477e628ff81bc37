"""Faults of disks: rules D1 to D6, and digests.

If the store keeps a rule, the simulated disk has the fault, because it has the same contract.
"""

from typing import Any

from raykeeper.links.hello import Fence
from raykeeper.server.digest_comparison import DigestComparison
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.zab.effects import SaveEpochs, Send
from raykeeper.zab.follower_broadcast import FollowerBroadcast
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK
from raykeeper.zab.learners import Learners
from raykeeper.zab.looking import Looking
from raykeeper.zab.members import Members
from raykeeper.zab.messages import Ack
from raykeeper.zab.quorum import Quorum
from raykeeper.zab.settings import Settings
from tests.harness.sim_disk import SimDisk
from tests.simulation.mutations.mutation import Change, Mutation, instead


def _lower_is_as_good(self: Fence, server: Any, incarnation: Any) -> bool:
    self._newest[server] = incarnation
    return True


def _the_same_again(right: Any) -> Any:
    def open_disk(self: SimDisk, *arguments: Any) -> Any:
        before = self.incarnation
        recovered = right(self, *arguments)
        self.incarnation = before or 1
        return recovered

    return open_disk


def _founding_again(right: Any) -> Any:
    def repair(self: SimDisk) -> None:
        right(self)
        self.disk = FOUNDING_DISK
        self.is_replaced = False

    return repair


def _named_seat(members: Members, server: Any, disk: Any) -> Any:
    return server, members.newest.voters.get(server, disk)


def _founding_seat(members: Members, server: Any, disk: Any) -> Any:
    return _named_seat(members, server, disk) if disk == FOUNDING_DISK else (server, disk)


def _learner_on(seat_of: Any) -> Any:
    def wrong(right: Any) -> Any:
        def greet(self: Learners, sender: Any, info: Any, now: Any) -> None:
            right(self, sender, info, now)
            self._by_id[sender].seat = seat_of(self._settings.members, sender, info.disk)

        return greet

    return wrong


def _self_on(seat_of: Any) -> Any:
    return property(lambda self: seat_of(self.members, self.server_id, self.disk))


def _vote_on(seat_of: Any) -> Any:
    def wrong(right: Any) -> Any:
        return lambda self, server, disk: right(self, *seat_of(self, server, disk))

    return wrong


def _count_on(seat_of: Any) -> list[Change]:
    return [
        (Members, "has_vote", _vote_on(seat_of)),
        (Learners, "on_follower_info", _learner_on(seat_of)),
        (Settings, "seat", instead(_self_on(seat_of))),
    ]


def _as_soon_as_it_comes(right: Any) -> Any:
    def greet(self: Learners, sender: Any, info: Any, now: Any) -> None:
        right(self, sender, info, now)
        members = self._settings.members
        self._by_id[sender].seat = _named_seat(members, sender, info.disk)
        self._by_id[sender].has_vote = members.is_voter(sender)

    return greet


def _as_good_as_any(self: Quorum[Any], healthy: Any, uncertain: Any) -> bool:
    return self.is_quorum({*healthy, *uncertain})


def _certain_with_a_promise(right: Any) -> Any:
    def epochs_saved(self: History, accepted: Any, current: Any) -> None:
        right(self, accepted, current)
        self.is_uncertain = False

    return epochs_saved


def _mark_goes_with_a_promise(right: Any) -> Any:
    def perform(self: SimDisk, effect: Any) -> Any:
        event = right(self, effect)
        if isinstance(effect, SaveEpochs):
            self.is_uncertain = False
        return event

    return perform


def _never_uncertain(right: Any) -> Any:
    def flip_last(self: SimDisk) -> bool:
        flipped: bool = right(self)
        self.is_uncertain = False
        return flipped

    return flip_last


def _cut_at_the_bad_record(right: Any) -> Any:
    def open_disk(self: SimDisk, *arguments: Any) -> Any:
        if self._is_corrupt:
            self.log = [entry for entry in self.log if entry[0] < self._bad]  # type: ignore[operator]
            self.committed = self._mark = min(self._mark, self.last)
            self._bad = None
        return right(self, *arguments)

    return open_disk


def _failed_and_gone_on(right: Any) -> Any:
    def complete(self: SimDisk, work: int, count: int) -> None:
        if work == self._work and self.fails_write:
            self.fails_write = False
            _CACHED[self] = self.last
        right(self, work, count)

    return complete


def _read_from_the_cache(right: Any) -> Any:
    def crash(self: SimDisk) -> None:
        before = self.last
        right(self)
        if self.last > before:
            _CACHED[self] = before

    return crash


_CACHED: dict[SimDisk, Any] = {}
"""Where the part of a log begins that is in the page cache only."""


def _power_is_lost(right: Any) -> Any:
    def crash(self: SimDisk) -> None:
        upto = _CACHED.pop(self, None)
        if upto is not None:
            self.log = [entry for entry in self.log if entry[0] <= upto]
            self._queue.clear()
        right(self)

    return crash


def _ack_while_paused(right: Any) -> Any:
    def on_proposals(self: FollowerBroadcast, batch: Any) -> None:
        right(self, batch)
        if self._history.is_paused:
            self._out.append(Send(self.leader, Ack(self._history.logged)))

    return on_proposals


def _as_if_there_were_space(right: Any) -> Any:
    # Nothing more is prepared, and what was prepared before is not proposed: either is enough.
    def wrong(self: LeaderRequestProcessor) -> Any:
        history = self._context.peer.history
        has_room, history.has_disk_space = history.has_disk_space, True
        result = right(self)
        history.has_disk_space = has_room
        return result

    return wrong


def _the_fewest(right: Any) -> Any:
    def agreed(self: DigestComparison) -> int | None:
        if right(self) is None:
            return None
        told = list(self._digests.values())
        return min(told, key=told.count)

    return agreed


MUTATIONS = [
    Mutation(
        "D1",
        "the lock excludes no process",
        [(SimDisk, "_lock", instead(lambda self: None))],
    ),
    Mutation(
        "D1",
        "an older incarnation is admitted",
        [(Fence, "admit", instead(_lower_is_as_good))],
        200,
    ),
    Mutation(
        "D1",
        "an incarnation is not raised at a start",
        [(SimDisk, "_open", _the_same_again)],
        200,
    ),
    Mutation(
        "D2",
        "an emptied folder counts as a founding disk",
        [(SimDisk, "repair", _founding_again)],
    ),
    Mutation(
        "D3",
        "a voter counts on any disk",
        _count_on(_named_seat),
        200,
    ),
    Mutation(
        "D3",
        "the vote is granted as soon as a server connects",
        [(Learners, "on_follower_info", _as_soon_as_it_comes)],
        200,
    ),
    Mutation(
        "D3",
        "the old disk counts beside the new one",
        _count_on(_founding_seat),
        200,
    ),
    Mutation(
        "D3",
        "servers that lost their promises are not remembered",
        [(Looking, "_take_note_of", instead(lambda self, sender, message: None))],
        200,
    ),
    Mutation(
        "D4",
        "uncertain logs count as healthy",
        [(Quorum, "covers_all_acked", instead(_as_good_as_any))],
        200,
    ),
    Mutation(
        "D4",
        "a promise makes an uncertain log certain",
        [
            (History, "epochs_saved", _certain_with_a_promise),
            (SimDisk, "_perform", _mark_goes_with_a_promise),
        ],
        200,
    ),
    Mutation(
        "D4",
        "a bad last batch is cut without a mark",
        [(SimDisk, "flip_last", _never_uncertain)],
        200,
    ),
    Mutation(
        "D4",
        "a corrupted old record counts as a torn end",
        [(SimDisk, "open", _cut_at_the_bad_record)],
        200,
    ),
    Mutation(
        "D5",
        "a failed write counts as done",
        [(SimDisk, "_complete", _failed_and_gone_on), (SimDisk, "crash", _power_is_lost)],
        200,
    ),
    Mutation(
        "D5",
        "data read at the start were in the page cache only",
        [(SimDisk, "crash", _power_is_lost), (SimDisk, "crash", _read_from_the_cache)],
        200,
    ),
    Mutation(
        "D6",
        "a follower without disk space goes on acknowledging",
        [(FollowerBroadcast, "_on_proposals", _ack_while_paused)],
    ),
    Mutation(
        "D6",
        "a leader without disk space goes on proposing",
        [
            (LeaderRequestProcessor, "_next_zxid", _as_if_there_were_space),
            (LeaderRequestProcessor, "_count_of_run", _as_if_there_were_space),
        ],
        200,
    ),
    Mutation(
        "D6",
        "a follower without disk space goes on logging",
        [(FollowerBroadcast, "pause", instead(lambda self: None))],
        200,
    ),
    Mutation(
        "digests",
        "a server with a wrong tree goes on serving",
        [(DigestComparison, "on_mismatch", instead(lambda self, zxid: None))],
    ),
    Mutation(
        "digests",
        "the differing server counts as right",
        [(DigestComparison, "_quorum_digest", _the_fewest)],
    ),
]
