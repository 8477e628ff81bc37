"""The vocabulary of changes of the members: the plan in the tree, what is seen, and the acts."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId


class MemberChangeError(RayKeeperError):
    """Raised when the members cannot be changed as asked, or the change cannot go on.

    The message says what is in the way. If a change has begun, it says how to go on with it and how
    to go back; the ensemble works meanwhile.
    """


class Members(Struct, frozen=True):
    """Voters and observers, both in order."""

    voters: tuple[ServerId, ...]
    observers: tuple[ServerId, ...] = ()

    @property
    def servers(self) -> tuple[ServerId, ...]:
        """All of them, in order."""
        return tuple(sorted((*self.voters, *self.observers)))

    def __str__(self) -> str:
        voters = f"voters {', '.join(map(str, self.voters))}"
        if not self.observers:
            return voters
        return f"{voters} and observers {', '.join(map(str, self.observers))}"


class Plan(Struct, frozen=True, kw_only=True):
    """A change of the members, as it stands in the tree from before its first act to its end."""

    text: str
    """Such as "add server 4"."""
    begun_by: str
    """The process that began it."""
    before: Members
    """Those when it began."""
    target: Members
    newcomers: tuple[ServerId, ...] = ()
    """The servers that it starts; also of a plan that is undone."""
    replaced: dict[ServerId, ServerId] = {}
    """For a server that is to vote the voter whose place it takes."""
    nodes: dict[ServerId, str] = {}
    """For a newcomer the Ray node that the operator has named."""
    is_undone: bool = False
    """Whether it goes back: then `target` is what it goes back to."""

    @property
    def changing(self) -> tuple[ServerId, ...]:
        """The servers that come or go, or get or lose a vote."""
        both = {*self.before.servers, *self.target.servers, *self.newcomers}
        stay = {*self.before.voters} & {*self.target.voters}
        stay |= {*self.before.observers} & {*self.target.observers}
        return tuple(sorted(both - stay))

    def __str__(self) -> str:
        back = f"back to {self.target} from " if self.is_undone else ""
        return f"{back}{self.text!r}, begun by {self.begun_by}"


def how_to_go_on(name: str, plan: Plan) -> str:
    """Return which change of an ensemble has not ended, and how to go on with it, or back."""
    return (
        f"{plan}. Go on with `raykeeper members resume {name}`, or back with `raykeeper members "
        f"undo {name}`"
    )


def decode_plan(value: bytes) -> Plan | None:
    """Return a plan as it stands in the tree; None if the value is none."""
    try:
        return msgspec.json.decode(value, type=Plan)
    except msgspec.MsgspecError:
        return None


class ServerView(Struct, frozen=True, kw_only=True):
    """A server of which Ray has an actor."""

    problem: str = ""
    """Why it does not follow, or does not log; empty if it leads, or follows and logs."""
    is_lost: bool = False
    """Whether nothing is left of it: it does not answer, and no node has its folder."""


class View(Struct, frozen=True, kw_only=True):
    """What is seen of the ensemble at about one moment."""

    members: Members
    leader: ServerId | None = None
    """One with a majority behind it; None if none is known."""
    doubt: str = ""
    """Why `leader` is None."""
    open_step: str = ""
    """The step that the leader has not ended; empty if none is open."""
    servers: Mapping[ServerId, ServerView] = {}


class Wait(Struct, frozen=True):
    """Wait for what the text says is missing."""

    reason: str


class Start(Struct, frozen=True):
    """Start a server that is no member: from its folder, or from one that is formatted for it."""

    server: ServerId
    node: str
    """The Ray node on which it must run; empty: any that the settings allow."""
    is_again: bool = False
    """Whether Ray still has an actor of it, of which nothing is left."""


class Step(Struct, frozen=True):
    """Ask the leader for a step of the member list; 0 is none. See `Reconfig`."""

    joining: ServerId = ServerId(0)
    leaving: ServerId = ServerId(0)
    as_observer: bool = False

    def __str__(self) -> str:
        if self.leaving and self.joining:
            return f"server {self.joining} takes the place of server {self.leaving}"
        if self.leaving:
            return f"server {self.leaving} leaves"
        kind = "an observer" if self.as_observer else "a voter"
        return f"server {self.joining} becomes {kind}"


class HandOver(Struct, frozen=True):
    """Have `to` lead instead of `leader`, which is about to lose its vote."""

    leader: ServerId
    to: ServerId


class End(Struct, frozen=True):
    """End the actors of a server that is no member, once it has ended by itself."""

    server: ServerId


class Done(Struct, frozen=True):
    """The members are those of the plan."""


Act = Wait | Start | Step | HandOver | End | Done
