"""From what an operator asks for to a plan, and from a plan to its undoing.

A newcomer gets an id that no folder has, for it starts with an empty one, and that no founder had:
with an empty log every server begins with the list of the founding, and one that stands in it
would wait to be dialed by others that know it no more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.clusters.member_steps.vocabulary import MemberChangeError, Members, Plan
from raykeeper.zab.ids import SERVER_ID_MAX, ServerId


class Known(Struct, frozen=True, kw_only=True):
    """What is known of the ensemble when a change is planned."""

    members: Members
    leader: ServerId | None = None
    working: tuple[ServerId, ...] = ()
    """The servers that answer and are in step."""
    running: tuple[ServerId, ...] = ()
    """The servers of which Ray has an actor."""
    taken_ids: frozenset[ServerId] = frozenset()
    """Those of the founders, of servers that run, and of folders on live nodes."""
    level_problem: str = ""
    """Why the feature level in force allows no change; "" if it does."""


class Request(Struct, frozen=True, kw_only=True):
    """A change that an operator asks for: each number is `None` where it stays as it is."""

    voters: int | tuple[ServerId, ...] | None = None
    """How many there are to be, or which."""
    observers: int | tuple[ServerId, ...] | None = None
    replaced: dict[ServerId, ServerId] = {}
    """For a newcomer the member whose place it takes."""
    ended: tuple[ServerId, ...] = ()
    """Servers to end that run and are no members."""


def plan_change(request: Request, known: Known, begun_by: str) -> Plan | None:
    """Return the plan of a change; None if the members are as asked for.

    Growing takes the lowest free ids. Shrinking keeps the servers that work, and
    the leader; of others those with low ids.

    Raises:
        MemberChangeError: it makes no sense, or the feature level allows no change; nothing was
            planned.
    """
    before = known.members
    named = request.observers if isinstance(request.observers, tuple) else ()
    present = [server for server in before.voters if server not in named]
    voters = _chosen("voter", present, request.voters, known, named)
    present = [server for server in before.observers if server not in voters]
    observers = _chosen("observer", present, request.observers, known, voters)
    target = Members(voters, observers)
    _check(target, request)
    if target == before and not request.ended:
        return None
    if known.level_problem:
        raise MemberChangeError(known.level_problem)
    newcomers = tuple(server for server in target.servers if server not in before.servers)
    for server in newcomers:
        check_new_id(server, known)
    return Plan(
        text=describe(before, target, request),
        begun_by=begun_by,
        before=before,
        target=target,
        newcomers=_sorted((*newcomers, *request.ended)),
        replaced=_places(before, target, request.replaced),
    )


def addition(server: ServerId | None, known: Known, *, is_observer: bool) -> Request:
    """Return the request to add a server; None: with the lowest free id.

    Raises:
        MemberChangeError: that id cannot be given.
    """
    members = known.members
    added = free_id(known) if server is None else server
    check_new_id(added, known)
    if is_observer:
        return Request(observers=_sorted((*members.observers, added)))
    return Request(voters=_sorted((*members.voters, added)))


def removal(server: ServerId, known: Known) -> Request:
    """Return the request to remove a member, or to end a server that runs and is none.

    A client may have taken it out of the list, which ends no actor.

    Raises:
        MemberChangeError: it is neither, or the only voter.
    """
    members = known.members
    if server in known.running and server not in members.servers:
        return Request(ended=(server,))
    _check_member(server, members)
    if members.voters == (server,):
        raise MemberChangeError(f"server {server} is the only voter: an ensemble needs one")
    return Request(
        voters=tuple(each for each in members.voters if each != server),
        observers=tuple(each for each in members.observers if each != server),
    )


def replacement(old: ServerId, new: ServerId | None, known: Known) -> Request:
    """Return the request to put a server, by default a newcomer, in the place of a member.

    `new` may be an observer that takes the place of a voter.

    Raises:
        MemberChangeError: `old` is no member, or `new` cannot take its place.
    """
    members = known.members
    _check_member(old, members)
    added = free_id(known) if new is None else new
    is_voter = old in members.voters
    if not (is_voter and added in members.observers):
        check_new_id(added, known)
    kept = [each for each in members.observers if each not in (added, old)]
    if not is_voter:
        return Request(observers=_sorted((*kept, added)), replaced={added: old})
    voters = [each for each in members.voters if each != old]
    return Request(voters=_sorted((*voters, added)), observers=tuple(kept), replaced={added: old})


def promotion(server: ServerId, known: Known) -> Request:
    """Return the request to give an observer a vote.

    Raises:
        MemberChangeError: it is no observer.
    """
    members = known.members
    _check_member(server, members)
    if server in members.voters:
        raise MemberChangeError(f"server {server} is a voter already")
    return Request(
        voters=_sorted((*members.voters, server)),
        observers=tuple(each for each in members.observers if each != server),
    )


def demotion(server: ServerId, known: Known) -> Request:
    """Return the request to make a voter an observer.

    Raises:
        MemberChangeError: it is no voter, or the only one.
    """
    members = known.members
    _check_member(server, members)
    if server in members.observers:
        raise MemberChangeError(f"server {server} is an observer already")
    if members.voters == (server,):
        raise MemberChangeError(f"server {server} is the only voter: an ensemble needs one")
    return Request(
        voters=tuple(each for each in members.voters if each != server),
        observers=_sorted((*members.observers, server)),
    )


def undone(plan: Plan, members: Members) -> Plan:
    """Return the plan by which a change goes back, from the present members.

    A server that has left does not come back: its folder is of no use. The one in its place stays.
    """
    heirs = {old: new for new, old in plan.replaced.items()}

    def back(kind: Iterable[ServerId]) -> list[ServerId]:
        now = [server if server in members.servers else heirs.get(server) for server in kind]
        return [server for server in now if server in members.servers]

    voters = back(plan.before.voters)
    observers = [server for server in back(plan.before.observers) if server not in voters]
    return replace(
        plan,
        target=Members(_sorted(voters), _sorted(observers)),
        is_undone=True,
    )


def left_for_good(plan: Plan, members: Members) -> tuple[ServerId, ...]:
    """Return the servers that have left by a plan, and do not come back if it is undone."""
    return tuple(server for server in plan.before.servers if server not in members.servers)


def free_id(known: Known) -> ServerId:
    """Return the lowest id that can be given to a newcomer.

    Raises:
        MemberChangeError: there is none.
    """
    taken = known.taken_ids.union(known.members.servers)
    for number in range(1, SERVER_ID_MAX + 1):
        if number not in taken:
            return ServerId(number)
    raise MemberChangeError(f"all ids of servers up to {SERVER_ID_MAX} are taken")


def check_new_id(server: ServerId, known: Known) -> None:
    """Check that an id can be given to a newcomer.

    Raises:
        MemberChangeError: it is out of range or taken.
    """
    if not 1 <= server <= SERVER_ID_MAX:
        raise MemberChangeError(f"{server} is no id of a server, expected 1 to {SERVER_ID_MAX}")
    if server in known.members.servers:
        raise MemberChangeError(f"server {server} is a member already: {known.members}")
    if server in known.taken_ids:
        raise MemberChangeError(
            f"the id {server} is taken: by a founder, a server that runs, or a folder, which you "
            f"may remove if its server has left; the lowest free one is {free_id(known)}"
        )


def describe(before: Members, target: Members, request: Request) -> str:
    """Return a change in words."""
    both = [(new, old) for new, old in sorted(request.replaced.items()) if new in target.servers]
    parts = [f"put server {new} in the place of server {old}" for new, old in both]
    named = {each for pair in both for each in pair}
    for verb, servers in (
        ("add", [x for x in target.servers if x not in before.servers]),
        ("promote", [x for x in target.voters if x in before.observers]),
        ("demote", [x for x in target.observers if x in before.voters]),
        ("remove", [x for x in before.servers if x not in target.servers]),
        ("end", request.ended),
    ):
        left = [each for each in servers if each not in named]
        kinds = "" if verb != "add" else _kinds(left, target)
        if left:
            parts.append(f"{verb} server {', '.join(map(str, left))}{kinds}")
    return ", ".join(parts)


def _kinds(added: Collection[ServerId], target: Members) -> str:
    observers = [server for server in added if server in target.observers]
    if not observers:
        return ""
    if len(observers) == len(added):
        return " as observer"
    return f" ({', '.join(map(str, observers))} as observer)"


def _chosen(
    kind: str,
    present: Sequence[ServerId],
    asked: int | tuple[ServerId, ...] | None,
    known: Known,
    others: Collection[ServerId],
) -> tuple[ServerId, ...]:
    """Return the servers of a kind: `present` ones, those named, or so many as asked for."""
    if asked is None:
        return tuple(present)
    if isinstance(asked, tuple):
        return _sorted(asked)
    fewest = 1 if kind == "voter" else 0
    if asked < fewest:
        raise MemberChangeError(f"{asked} {kind}s are too few: {fewest} or more are expected")
    if asked <= len(present):
        order = sorted(
            present,
            key=lambda each: (each != known.leader, each not in known.working, each),
        )
        return _sorted(order[:asked])
    grown = list(present)
    while len(grown) < asked:
        taken = known.taken_ids.union(grown, others)
        grown.append(free_id(replace(known, taken_ids=taken)))
    return _sorted(grown)


def _places(
    before: Members, target: Members, named: Mapping[ServerId, ServerId]
) -> dict[ServerId, ServerId]:
    """Return whose place each server takes that is to vote: one leaves for one that comes."""
    coming = [each for each in target.voters if each not in before.voters]
    leaving = [each for each in before.voters if each not in target.servers]
    places = {new: old for new, old in named.items() if new in coming and old in leaving}
    heirs = [server for server in coming if server not in places]
    free = [server for server in leaving if server not in places.values()]
    places |= dict(zip(heirs, free, strict=False))
    return dict(sorted(places.items()))


def _check(target: Members, request: Request) -> None:
    both = [server for server in target.voters if server in target.observers]
    if both:
        raise MemberChangeError(f"server {both[0]} cannot be both a voter and an observer")
    if not target.voters:
        raise MemberChangeError("an ensemble needs a voter")
    for servers in (request.voters, request.observers):
        if isinstance(servers, tuple) and len({*servers}) < len(servers):
            raise MemberChangeError(f"{', '.join(map(str, servers))} names a server twice")
    if len(target.servers) > SERVER_ID_MAX:
        raise MemberChangeError(f"an ensemble has at most {SERVER_ID_MAX} servers")


def _check_member(server: ServerId, members: Members) -> None:
    if server not in members.servers:
        raise MemberChangeError(f"server {server} is not a member; there are {members}")


def _sorted(servers: Iterable[ServerId]) -> tuple[ServerId, ...]:
    return tuple(sorted(servers))
