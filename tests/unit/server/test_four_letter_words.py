"""The four-letter words: answered on the port of ZooKeeper's clients, then the end."""

import pytest

from raykeeper.server.events import JuteBytesArrived
from raykeeper.zab.effects import Role
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import OPTIONS, TIMING, PureServer, PureServers


def told(host: PureServer, connection: int, *pieces: bytes) -> bytes:
    """What a connection is told that says these pieces, and then is closed."""
    caller = JuteCaller(host, connection)
    for piece in pieces:
        assert not caller.is_closed
        host.step(JuteBytesArrived(connection, piece))
    assert caller.is_closed
    return bytes(host.streams[connection])


@pytest.mark.parametrize("pieces", [(b"ruok",), (b"ruok\n",), (b"r", b"uo", b"k")])
def test_a_server_says_that_it_is_there(pieces: tuple[bytes, ...]) -> None:
    assert told(PureServer(), 1, *pieces) == b"imok"


def test_other_words_are_not_allowed() -> None:
    assert told(PureServer(), 1, b"mntr") == (
        b"mntr is not executed because it is not in the whitelist.\n"
    )


def test_other_bytes_are_no_word() -> None:
    assert told(PureServer(), 1, b"quit") == b""


def test_a_word_is_one_before_the_session_only() -> None:
    caller = connected(PureServer())
    caller.raw(b"ruok")
    assert caller.is_closed and caller.read() == []


def test_a_server_says_whether_it_takes_writes() -> None:
    servers = PureServers(3)
    assert told(servers[1], 1, b"isro") == b"rw"
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
    assert told(servers[1], 2, b"isro") == b"null"
    servers.pass_time(OPTIONS.read_only_after_ms)
    assert told(servers[1], 3, b"isro") == b"ro"
    assert told(servers[1], 4, b"ruok") == b"imok"
