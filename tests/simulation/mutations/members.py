"""Members that change: lists that do not count or count too long, said once, two at a time."""

from collections.abc import Callable, Iterable
from typing import Any

from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.member_changes import MemberChanges
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.members import Members, Seat
from raykeeper.zab.quorum import Quorum
from raykeeper.znodes.state import State
from tests.simulation.members.plans import MEMBERS
from tests.simulation.mutations.mutation import Mutation, instead


def _count_by(lists: Callable[[Members], Iterable[MemberList]]) -> Any:
    def make(right: Any) -> Any:
        def update(self: Members) -> None:
            right(self)
            self._in_force = tuple(Quorum(each.voters.items()) for each in lists(self))

        return update

    return make


def _newest_alone(self: Members) -> list[MemberList]:
    return [[self.newest, *self._logged][-1]]


def _with_removed(right: Any) -> Any:
    def update(self: Members) -> None:
        before = getattr(self, "_in_force", ())
        right(self)
        for quorum in self._in_force:
            quorum.voters |= {seat for each in before for seat in each.voters}

    return update


def _recall_by_one(self: Members, healthy: Iterable[Seat], uncertain: Iterable[Seat]) -> bool:
    return self._in_force[0].covers_all_acked(set(healthy), set(uncertain))


def _say_once(self: LeaderRequestProcessor) -> None:
    if self._changes.needs_repeat:
        self._changes.repeated(self._context.state.zxid)


NEVER = instead(property(lambda self: False))

MUTATIONS = [
    Mutation(
        "members",
        "the new list counts alone when it is logged",
        [(Members, "_update", _count_by(_newest_alone))],
        100,
        MEMBERS,
    ),
    Mutation(
        "members",
        "the new list counts only when it is delivered",
        [(Members, "_update", _count_by(lambda self: [self.newest]))],
        100,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a list is said once",
        [(LeaderRequestProcessor, "say_members_again", instead(_say_once))],
        50,
        MEMBERS,
    ),
    Mutation(
        "members",
        "two changes are open",
        [(MemberChanges, name, NEVER) for name in ("is_open", "is_unsaid")],
        50,
        MEMBERS,
    ),
    Mutation(
        "members",
        "the next step does not wait until the list was said again",
        [(MemberChanges, "may_propose", instead(property(lambda self: True)))],
        50,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a removed server counts",
        [(Members, "_update", _with_removed)],
        100,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a list that others have delivered is not used",
        [(Members, "learn_delivered", instead(lambda self, members: False))],
        100,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a server is promoted while it is synchronized",
        [(MemberChanges, "_obstacle_to_promotion", instead(lambda self, server, learner: ""))],
        100,
        MEMBERS,
    ),
    Mutation(
        "members",
        "uncertain disks are recalled by one of two lists",
        [(Members, "covers_all_acked", instead(_recall_by_one))],
        200,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a server stops before the list without it was said again",
        [(State, "is_list_said_again", instead(property(lambda self: True)))],
        50,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a step is over before its list was said again",
        [(MemberChanges, "open_step", instead(property(lambda self: "")))],
        100,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a logged list counts on after its role",
        [(Members, "forget_logged_lists", instead(lambda self: None))],
        50,
        MEMBERS,
    ),
    Mutation(
        "members",
        "a request that is wrong is granted",
        [(MemberChanges, "_fault_of", instead(lambda self, op, members: ""))],
        50,
        MEMBERS,
    ),
]
