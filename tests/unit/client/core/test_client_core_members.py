"""ClientCore: which servers there are, by what each tells and by a list of those that run."""

from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.client.core.effects import (
    CloseLink,
    KeepServers,
    ListServers,
    OpenLink,
    OpenSearchLink,
)
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import ConnectReply, ServerFrame
from raykeeper.znodes.requests import SessionId
from tests.unit.client.wire import CONNECTED, OFFER, READ_ONLY, SESSION, SUSPENDED, S, Wire, Z

ACCEPTED = ConnectReply(0, SESSION, Millis(S), Z[1], 0)
NO_MEMBER = ConnectReply(
    Code.CONNECTION_LOSS, SessionId(0), Millis(0), Z[1], 0, detail="server 9 is no member"
)


def members(version: int, voters: tuple[int, ...], observers: tuple[int, ...] = ()) -> MemberList:
    disks: dict[ServerId, DiskId] = {ServerId(each): FOUNDING_DISK for each in voters}
    return MemberList(Zxid(version), disks, tuple(map(ServerId, observers)))


def kept(*servers: int) -> KeepServers:
    return KeepServers(tuple(map(ServerId, servers)))


def frame(told: MemberList) -> ServerFrame:
    return ServerFrame(0, Z[2], [], members=told)


def dialed(effects: list[Any]) -> int:
    (opening,) = [effect for effect in effects if isinstance(effect, OpenLink)]
    return opening.server


def tried(wire: Wire, count: int) -> list[int]:
    """The servers that are tried after the loss of one that served, each of which fails."""
    servers = [dialed(wire.failed())]
    while len(servers) < count:
        servers.append(dialed(wire.failed()))
    return sorted(servers)


def test_a_client_goes_to_the_servers_of_the_list_that_it_is_told() -> None:
    wire = Wire(servers=3)
    wire.start()
    wire.opened()
    told = replace(ACCEPTED, members=members(7, (2, 4, 5), (6,)))
    assert wire.told(told) == [kept(2, 4, 5, 6), CONNECTED]
    assert wire.core.members == told.members
    wire.items()
    assert tried(wire, 4) == [2, 4, 5, 6]


def test_a_list_of_the_servers_that_are_known_changes_nothing() -> None:
    wire = Wire(servers=3)
    wire.start()
    wire.opened()
    told = members(0, (1, 2), (3,))
    assert wire.told(replace(ACCEPTED, members=told)) == [CONNECTED]
    assert wire.core.members == told


def test_a_newer_list_comes_with_any_frame_and_an_older_one_is_ignored() -> None:
    wire = Wire(servers=3).serving()
    assert wire.told(frame(members(7, (1, 2, 3, 4)))) == [kept(1, 2, 3, 4)]
    assert wire.told(frame(members(7, (1, 2)))) == []
    assert wire.told(frame(members(6, (1, 2, 3)))) == []
    assert wire.told(frame(members(8, (4,)))) == [kept(4)]
    assert tried(wire, 1) == [4]


def test_a_server_that_is_no_member_is_left_at_once_and_tells_the_list() -> None:
    wire = Wire(servers=1)
    wire.start()
    wire.opened()
    keeping, closing, opening = wire.told(replace(NO_MEMBER, members=members(7, (5,))))
    assert (keeping, opening) == (kept(5), OpenLink(ServerId(5)))
    assert closing == CloseLink("server 9 is no member")


def test_after_a_vain_cycle_the_servers_that_run_are_tried_at_once() -> None:
    wire = Wire(servers=2).serving()
    wire.items()
    wire.failed()
    assert dialed(wire.failed()) in (1, 2)
    wire.failed()
    wire.core.servers_listed([ServerId(2), ServerId(7)], wire.now)
    assert wire.effects() == [OpenLink(ServerId(7))]
    assert wire.failed() == [ListServers()]  # it was the last one of this cycle
    again = [dialed(wire.at(wire.core.deadline() or 0).wake())]
    again += [dialed(wire.failed()), dialed(wire.failed())]
    assert sorted(again) == [1, 2, 7]


def test_the_list_of_a_server_replaces_what_was_only_listed() -> None:
    wire = Wire(servers=1)
    wire.start()
    assert wire.failed() == [ListServers()]
    wire.core.servers_listed([ServerId(7), ServerId(8)], wire.now)
    wire.effects()
    wire.opened()
    assert wire.told(ACCEPTED) == [CONNECTED]
    wire.items()
    assert tried(wire, 1) == [1]
    wire.failed()
    wire.core.servers_listed([ServerId(7)], wire.now)
    assert wire.effects() == [OpenLink(ServerId(7))]


@pytest.mark.parametrize("listed", [(), (1, 2)])
def test_a_list_without_news_does_not_end_the_pause(listed: tuple[int, ...]) -> None:
    wire = Wire(servers=2)
    wire.start()
    wire.failed()
    assert wire.failed() == [ListServers()]
    due = wire.core.deadline()
    wire.core.servers_listed(map(ServerId, listed), wire.now)
    assert wire.effects() == [] and wire.core.deadline() == due
    wire.at(due or 0).wake()
    wire.failed()
    assert wire.failed() == [ListServers()]  # it is asked again


def test_a_list_that_comes_too_late_is_ignored() -> None:
    wire = Wire(servers=1)
    wire.start()
    assert wire.failed() == [ListServers()]
    wire.at(wire.core.deadline() or 0).wake()
    wire.opened()
    wire.connected()
    wire.core.servers_listed([ServerId(9)], wire.now)
    assert wire.effects() == []
    wire.items()
    assert wire.failed() == [SUSPENDED, OpenLink(ServerId(1))]
    ended = Wire(servers=1)
    ended.start()
    ended.failed()
    ended.close()
    ended.core.servers_listed([ServerId(9)], ended.now)
    assert ended.effects() == []


def test_while_another_server_is_dialed_a_list_waits_for_its_turn() -> None:
    wire = Wire(servers=1)
    wire.start()
    wire.failed()
    wire.at(wire.core.deadline() or 0).wake()
    wire.core.servers_listed([ServerId(9)], wire.now)
    assert wire.effects() == []
    assert dialed(wire.failed()) == 9


def test_a_client_of_given_servers_stays_with_them() -> None:
    wire = Wire(servers=2, learns_servers=False)
    wire.start()
    wire.failed()
    assert wire.failed() == []  # nothing is listed
    wire.at(wire.core.deadline() or 0).wake()
    wire.opened()
    told = replace(ACCEPTED, members=members(7, (4,)))
    assert wire.told(told) == [CONNECTED] and wire.core.members == told.members
    wire.items()
    assert tried(wire, 2) == [1, 2]


def test_the_search_for_a_leader_asks_the_servers_of_the_newest_list() -> None:
    wire = Wire(servers=1, read_only=True)
    wire.start()
    wire.opened()
    wire.offered()
    wire.at(wire.core.deadline() or 0).wake()
    wire.opened()
    alone = replace(OFFER, members=members(0, (1,)))
    assert wire.told(alone) == [READ_ONLY]
    assert wire.wake() == []  # there is no other server
    assert wire.told(ServerFrame(0, ZERO, [], members=members(7, (1, 4)))) == [kept(1, 4)]
    assert wire.wake() == [OpenSearchLink(ServerId(4))]
    assert wire.told(ServerFrame(0, ZERO, [], members=members(8, (1, 5)))) == [kept(1, 5)]
    wire.search_failed()
    wire.at(wire.core.deadline() or 0)
    asked = [effect for _ in range(9) for effect in wire.at(wire.now + 1_000).wake()]
    assert OpenSearchLink(ServerId(5)) in asked and OpenSearchLink(ServerId(4)) not in asked


def test_the_server_that_the_search_finds_tells_the_list_too() -> None:
    """It believes that the client knows this list, and tells it once."""
    wire = Wire(servers=1, read_only=True)
    wire.start()
    wire.opened()
    wire.offered()
    wire.at(wire.core.deadline() or 0).wake()
    wire.opened()
    assert wire.told(replace(OFFER, members=members(7, (1, 4)))) == [kept(1, 4), READ_ONLY]
    assert wire.wake() == [OpenSearchLink(ServerId(4))]
    wire.search_opened()
    told = wire.search_told(replace(ACCEPTED, members=members(8, (4, 5))))
    assert kept(4, 5) in told and CONNECTED in told
    assert wire.core.members == members(8, (4, 5))
    assert not [effect for effect in told if isinstance(effect, OpenSearchLink)]
