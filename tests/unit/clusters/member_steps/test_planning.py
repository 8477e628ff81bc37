"""From a request to a plan: which servers come, go, and take whose place; and what is refused."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from raykeeper.clusters.member_steps.planning import (
    Known,
    Request,
    addition,
    demotion,
    free_id,
    left_for_good,
    plan_change,
    promotion,
    removal,
    replacement,
    undone,
)
from raykeeper.clusters.member_steps.vocabulary import (
    MemberChangeError,
    Members,
    Plan,
    decode_plan,
    how_to_go_on,
)
from raykeeper.zab.ids import SERVER_ID_MAX, ServerId


def ids(*numbers: int) -> tuple[ServerId, ...]:
    return tuple(ServerId(number) for number in numbers)


def members(voters: tuple[int, ...], observers: tuple[int, ...] = ()) -> Members:
    return Members(ids(*voters), ids(*observers))


THREE = Known(
    members=members((1, 2, 3)), leader=ServerId(3), working=ids(1, 2, 3), taken_ids=frozenset()
)
OBSERVED = replace(THREE, members=members((1, 2, 3), (4,)))
FIVE = replace(THREE, members=members((1, 2, 3, 4, 5)), working=ids(1, 3, 4, 5), leader=ServerId(4))
ALONE = replace(THREE, members=members((1,), (2,)))
LEFT_BEHIND = replace(THREE, running=ids(1, 2, 3, 4))
TAKEN = replace(THREE, taken_ids=frozenset(ids(4, 6)))


def added(known: Known) -> Request:
    return addition(None, known, is_observer=False)


def plan(request: Request, known: Known) -> Plan:
    made = plan_change(request, known, "me")
    assert made is not None
    assert (made.before, made.begun_by, made.is_undone) == (known.members, "me", False)
    return made


@pytest.mark.parametrize(
    ("known", "request_of", "voters", "observers", "replaced", "text"),
    [
        # One server.
        (THREE, added, (1, 2, 3, 4), (), {}, "add server 4"),
        (TAKEN, added, (1, 2, 3, 5), (), {}, "add server 5"),
        (
            THREE,
            lambda k: addition(ServerId(9), k, is_observer=True),
            (1, 2, 3),
            (9,),
            {},
            "add server 9 as observer",
        ),
        (THREE, lambda k: removal(ServerId(2), k), (1, 3), (), {}, "remove server 2"),
        (OBSERVED, lambda k: removal(ServerId(4), k), (1, 2, 3), (), {}, "remove server 4"),
        # One that a client has taken out of the list, and that has not ended.
        (LEFT_BEHIND, lambda k: removal(ServerId(4), k), (1, 2, 3), (), {}, "end server 4"),
        (OBSERVED, lambda k: promotion(ServerId(4), k), (1, 2, 3, 4), (), {}, "promote server 4"),
        (THREE, lambda k: demotion(ServerId(1), k), (2, 3), (1,), {}, "demote server 1"),
        # In the place of another.
        (
            THREE,
            lambda k: replacement(ServerId(2), None, k),
            (1, 3, 4),
            (),
            {4: 2},
            "put server 4 in the place of server 2",
        ),
        (
            OBSERVED,
            lambda k: replacement(ServerId(2), ServerId(4), k),
            (1, 3, 4),
            (),
            {4: 2},
            "put server 4 in the place of server 2",
        ),
        (
            OBSERVED,
            lambda k: replacement(ServerId(4), ServerId(5), k),
            (1, 2, 3),
            (5,),
            {},
            "put server 5 in the place of server 4",
        ),
        # Numbers: newcomers get free ids; the leader and those that work stay.
        (THREE, lambda _: Request(voters=5), (1, 2, 3, 4, 5), (), {}, "add server 4, 5"),
        (
            THREE,
            lambda _: Request(voters=4, observers=2),
            (1, 2, 3, 4),
            (5, 6),
            {},
            "add server 4, 5, 6 (5, 6 as observer)",
        ),
        (OBSERVED, lambda _: Request(voters=4), (1, 2, 3, 5), (4,), {}, "add server 5"),
        (FIVE, lambda _: Request(voters=3), (1, 3, 4), (), {}, "remove server 2, 5"),
        (FIVE, lambda _: Request(voters=1), (4,), (), {}, "remove server 1, 2, 3, 5"),
        (OBSERVED, lambda _: Request(observers=0), (1, 2, 3), (), {}, "remove server 4"),
        # Names: one that leaves makes room for one that comes.
        (
            THREE,
            lambda _: Request(voters=ids(3, 5, 4)),
            (3, 4, 5),
            (),
            {4: 1, 5: 2},
            "add server 4, 5, remove server 1, 2",
        ),
        (
            THREE,
            lambda _: Request(observers=ids(1)),
            (2, 3),
            (1,),
            {},
            "demote server 1",
        ),
        (
            OBSERVED,
            lambda _: Request(voters=ids(1, 2, 4), observers=ids(3)),
            (1, 2, 4),
            (3,),
            {},
            "promote server 4, demote server 3",
        ),
    ],
)  # fmt: skip
def test_a_request_becomes_a_plan(
    known: Known,
    request_of: Callable[[Known], Request],
    voters: tuple[int, ...],
    observers: tuple[int, ...],
    replaced: dict[int, int],
    text: str,
) -> None:
    made = plan(request_of(known), known)
    assert made.target == members(voters, observers)
    assert made.replaced == replaced
    assert made.text == text
    new = {*voters, *observers, *made.changing} - {*known.members.servers}
    assert made.newcomers == tuple(sorted(new))


@pytest.mark.parametrize("asked", [Request(), Request(voters=3, observers=0)])
def test_what_is_so_already_needs_no_plan(asked: Request) -> None:
    assert plan_change(asked, THREE, "me") is None


@pytest.mark.parametrize(
    ("known", "request_of", "words"),
    [
        (THREE, lambda k: addition(ServerId(0), k, is_observer=True), "0 is no id of a server"),
        (THREE, lambda k: addition(ServerId(255), k, is_observer=True), "expected 1 to 254"),
        (THREE, lambda k: addition(ServerId(3), k, is_observer=True), "3 is a member already"),
        (
            TAKEN,
            lambda k: addition(ServerId(6), k, is_observer=False),
            "the id 6 is taken: by a founder, a server that runs, or a folder, which you may "
            "remove if its server has left; the lowest free one is 5",
        ),
        (THREE, lambda k: removal(ServerId(7), k), "7 is not a member; there are voters 1, 2, 3"),
        (OBSERVED, lambda k: removal(ServerId(7), k), "voters 1, 2, 3 and observers 4"),
        (ALONE, lambda k: removal(ServerId(1), k), "server 1 is the only voter"),
        (ALONE, lambda k: demotion(ServerId(1), k), "server 1 is the only voter"),
        (ALONE, lambda k: demotion(ServerId(2), k), "server 2 is an observer already"),
        (ALONE, lambda k: promotion(ServerId(1), k), "server 1 is a voter already"),
        (ALONE, lambda k: promotion(ServerId(5), k), "server 5 is not a member"),
        (THREE, lambda k: demotion(ServerId(5), k), "server 5 is not a member"),
        (THREE, lambda k: replacement(ServerId(5), None, k), "server 5 is not a member"),
        (THREE, lambda k: replacement(ServerId(1), ServerId(2), k), "2 is a member already"),
        (OBSERVED, lambda k: replacement(ServerId(4), ServerId(4), k), "4 is a member already"),
        (THREE, lambda _: Request(voters=0), "0 voters are too few: 1 or more are expected"),
        (THREE, lambda _: Request(observers=-1), "-1 observers are too few: 0"),
        (THREE, lambda _: Request(voters=()), "an ensemble needs a voter"),
        (THREE, lambda _: Request(voters=ids(1, 1)), "1, 1 names a server twice"),
        (THREE, lambda _: Request(observers=ids(4, 4)), "4, 4 names a server twice"),
        (
            THREE,
            lambda _: Request(voters=ids(1, 2), observers=ids(2)),
            "server 2 cannot be both a voter and an observer",
        ),
        (THREE, lambda _: Request(voters=255), "all ids of servers up to 254 are taken"),
        (
            THREE,
            lambda _: Request(voters=tuple(map(ServerId, range(1, 256)))),
            "an ensemble has at most 254 servers",
        ),
        (TAKEN, lambda _: Request(voters=ids(1, 6)), "the id 6 is taken"),
    ],
)
def test_what_makes_no_sense_is_refused(
    known: Known, request_of: Callable[[Known], Request], words: str
) -> None:
    with pytest.raises(MemberChangeError) as raised:
        plan_change(request_of(known), known, "me")
    assert words in str(raised.value)


def test_ids_are_given_to_one_server_at_a_time() -> None:
    every = replace(THREE, taken_ids=frozenset(map(ServerId, range(1, SERVER_ID_MAX + 1))))
    with pytest.raises(MemberChangeError, match="all ids of servers up to 254 are taken"):
        free_id(every)
    assert free_id(TAKEN) == 5


GROWS = plan(Request(voters=5), THREE)
SWAPS = plan(replacement(ServerId(2), None, THREE), THREE)
SHRINKS = plan(Request(voters=3, observers=1), FIVE)


@pytest.mark.parametrize(
    ("done", "now", "back"),
    [
        (GROWS, members((1, 2, 3)), members((1, 2, 3))),
        (GROWS, members((1, 2, 3, 4), (5,)), members((1, 2, 3))),
        # Server 2 has left: the one in its place stays.
        (SWAPS, members((1, 2, 3), (4,)), members((1, 2, 3))),
        (SWAPS, members((1, 3, 4)), members((1, 3, 4))),
        # Server 5 has left, and nobody is in its place.
        (SHRINKS, members((1, 2, 3, 4), (6,)), members((1, 2, 3, 4))),
        (
            plan(demotion(ServerId(1), THREE), THREE),
            members((2, 3), (1,)),
            members((1, 2, 3)),
        ),
        (plan(promotion(ServerId(4), OBSERVED), OBSERVED), members((1, 2, 3, 4)), OBSERVED.members),
    ],
)
def test_what_can_be_undone_is(done: Plan, now: Members, back: Members) -> None:
    again = undone(done, now)
    assert (again.target, again.is_undone, again.newcomers) == (back, True, done.newcomers)
    assert undone(again, now) == again
    gone = {*done.before.servers} - {*now.servers}
    assert left_for_good(done, now) == tuple(sorted(gone))


def test_a_plan_is_read_as_it_was_written() -> None:
    assert decode_plan(msgspec.json.encode(SWAPS)) == SWAPS
    assert decode_plan(b"") is None
    assert decode_plan(b'{"text": "add server 4"}') is None


def test_what_has_not_ended_says_how_to_go_on_or_back() -> None:
    ways = "Go on with `raykeeper members resume e`, or back with `raykeeper members undo e`"
    assert how_to_go_on("e", SWAPS) == f"'{SWAPS.text}', begun by me. {ways}"
    back = undone(SWAPS, members((1, 2, 3), (4,)))
    assert str(back) == f"back to voters 1, 2, 3 from '{SWAPS.text}', begun by me"


def test_a_plan_names_the_servers_that_it_is_about() -> None:
    assert GROWS.changing == (4, 5)
    assert SWAPS.changing == (2, 4)
    assert undone(SWAPS, members((1, 3, 4))).changing == (2, 4)
    assert plan(demotion(ServerId(1), THREE), THREE).changing == (1,)


def test_nothing_is_planned_before_the_level_that_allows_it() -> None:
    early = replace(THREE, level_problem="level 1 is in force")
    with pytest.raises(MemberChangeError, match="level 1 is in force"):
        plan_change(added(early), early, "me")
    assert plan_change(Request(voters=3), early, "me") is None
