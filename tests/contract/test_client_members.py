"""Steps of the member list and the reading of it, by both clients."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from raykeeper.client import EnsembleConfig, EventType
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    NewConfigNoQuorumError,
    NoAuthError,
)
from raykeeper.links.contract import LinkEvents, LinkUnreachable
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.requests import AddAuth, Reconfig
from tests.contract.client_handles import SUPER, Open, Room, open_awaited, open_blocking
from tests.contract.test_clients import connect
from tests.harness.caller import Caller

__all__ = ["connect"]

VOTERS = {1: "", 2: "", 3: ""}


@pytest.fixture(params=[open_blocking, open_awaited])
def opener(request: pytest.FixtureRequest) -> Iterator[Open]:
    """What opens a client of either kind; server 4 follows and is no member."""
    room = Room(strangers=1)
    yield request.param(room)
    room.close()


@pytest.fixture
def operator(connect: Open) -> Any:
    """A client that may change the members."""
    client = connect()
    client.add_auth("digest", SUPER)
    return client


def test_a_step_returns_the_new_list(connect: Open, operator: Any) -> None:
    assert operator.get_config() == EnsembleConfig(0, VOTERS, {})  # of the founding
    added = operator.reconfig(4, as_observer=True)
    assert added == EnsembleConfig(added.version, VOTERS, {4: ""})
    assert added.servers == (1, 2, 3, 4)
    assert connect().get_config(consistency="linearizable") == added
    removed = operator.reconfig(leaving=4, version=added.version)
    assert removed == EnsembleConfig(removed.version, VOTERS, {})
    assert removed.version > added.version


def test_a_refusal_is_told_in_the_servers_words(connect: Open, operator: Any) -> None:
    added = operator.reconfig(4, as_observer=True)
    with pytest.raises(BadVersionError, match=f"that of version {added.version:x}, not 7") as late:
        operator.reconfig(leaving=4, version=7)
    assert (late.value.path, late.value.definite) == ("/zookeeper/config", True)
    with pytest.raises(NewConfigNoQuorumError, match="server 4 has kept up for 0 ms"):
        operator.reconfig(4)
    with pytest.raises(BadArgumentsError, match="server 9 is not a member"):
        operator.reconfig(leaving=9)
    with pytest.raises(NoAuthError, match="/zookeeper/config"):
        connect().reconfig(leaving=4)
    assert operator.get_config() == added


def test_a_watch_of_the_list_is_called_once(connect: Open, operator: Any) -> None:
    """With a chroot too, which neither the list nor a step is below."""
    told: list[tuple[EventType, str]] = []
    operator.ensure_path("/app")
    client = connect("/app")
    client.get_config(lambda event: told.append((event.type, event.path)))
    client.add_auth("digest", SUPER)
    added = client.reconfig(4, as_observer=True)
    operator.reconfig(leaving=4)
    assert client.get_config(consistency="linearizable").version > added.version
    assert told == [(EventType.CHANGED, "/zookeeper/config")]


class ReplacedRoom(Room):
    """Servers 1 to 3, which 4 to 6 replace; a dialer that lists the servers that run."""

    def __init__(self) -> None:
        super().__init__(strangers=3)
        self.kept: list[ServerId] = []

    async def dial(self, server: ServerId, events: LinkEvents) -> Any:
        await self._is_open.wait()
        if server in self._servers.down:
            raise LinkUnreachable(f"server {server} is gone")
        return await super().dial(server, events)

    async def list_servers(self) -> list[ServerId]:
        return [ServerId(server) for server in self._servers.hosts]

    def keep(self, servers: Iterable[ServerId]) -> None:
        self.kept = list(servers)

    def replace_all(self) -> None:
        servers = self._servers
        operator = servers[2].caller(1 << 20)
        self._ask(operator, AddAuth("digest", SUPER.encode()))
        for server in (4, 5, 6):
            self._ask(operator, Reconfig(server, 0, True))
        servers.pass_time(2_500)  # they keep up
        self._ask(operator, Reconfig(4, 1))
        moved = Caller(servers[4], 1 << 20)
        moved.take_up(operator)
        self._ask(moved, Reconfig(5, 2))
        self._ask(moved, Reconfig(6))
        servers.crash(3)
        servers.pass_time(5_000)
        assert servers.leader.server_id == 6
        self._ask(moved, Reconfig(0, 3))
        for server in (1, 2):
            servers.crash(server)

    def _ask(self, caller: Caller, op: AddAuth | Reconfig) -> None:
        (reply,) = caller.ask(caller.write(op))
        assert getattr(reply, "code", None) == 0, (op, reply)


@pytest.mark.parametrize("open_with", [open_blocking, open_awaited])
def test_a_client_whose_servers_were_all_replaced_finds_the_ensemble(open_with: Any) -> None:
    """It could not learn of the new ones: it was cut off meanwhile. Its session goes on."""
    room = ReplacedRoom()
    client = open_with(room)()
    client.create("/mine", b"1", ephemeral=True)
    session = client.session_id
    room.cut_while(session, room.replace_all)
    assert client.set("/mine", b"2").version == 1
    assert client.session_id == session and room.kept == [4, 5, 6]
    assert client.get_config().servers == (4, 5, 6)
    client.close()
