"""Steps of the member list and the reading of it, by both clients."""

from collections.abc import Iterator
from typing import Any

import pytest

from raykeeper.client import EnsembleConfig, EventType
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    NewConfigNoQuorumError,
    NoAuthError,
)
from tests.contract.client_handles import SUPER, Open, Room, open_awaited, open_blocking
from tests.contract.test_clients import connect

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
