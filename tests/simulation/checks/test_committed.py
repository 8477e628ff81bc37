"""Which session the checks take for that of a client of ZooKeeper's protocol."""

from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.txns import CreateSessionTxn, Txn
from tests.harness.schedule import Schedule
from tests.simulation.checks.committed import Committed
from tests.simulation.checks.session_view import SessionView, new_session_view
from tests.simulation.checks.test_clients import Client, Core, z


class ByteCore(Core):
    """The core of a client that asks for a new session."""

    asked: tuple[SessionId, bytes] = (SessionId(0), bytes(16))


class Scene:
    """A client with a connection to each of three servers."""

    def __init__(self) -> None:
        self.committed = Committed(Schedule(0))
        self.client = Client(ByteCore(SessionId(0)), speaks_jute=True)
        self.seen: SessionView = new_session_view("c1", 1, self.client)
        for server in (1, 2, 3):
            place, drawn = (ServerId(server), 1), bytes([server]) * 16
            self.committed.byte_connections.connects(self.seen, place, drawn, has_watches=False)

    def opens(self, counter: int, server: int) -> None:
        """Commit that the client's connection to a server gets a session."""
        session_id, password = SessionId(z(counter)), bytes([server]) * 16
        change = CreateSessionTxn(session_id, password, Millis(1), ServerId(server), 1)
        self.committed.committed(z(counter), Txn(SessionId(0), 0, 0, Millis(0), change))

    def is_told(self, counter: int) -> None:
        """Tell the client that it has a session."""
        assert self.client.core is not None
        self.client.core.session_id = self.seen.session_id = SessionId(z(counter))
        self.seen.was_connected = True


def test_a_client_that_was_told_of_no_session_has_the_newest_one() -> None:
    scene = Scene()
    scene.opens(1, 1)
    scene.opens(2, 2)
    assert scene.seen.session_id == z(2)


def test_a_session_that_opens_after_the_death_of_a_client_is_not_the_one_that_it_had() -> None:
    # Seed 3447: a connect of an earlier connection was held up until its process had died.
    scene = Scene()
    scene.opens(1, 1)
    scene.opens(2, 2)
    scene.is_told(2)
    scene.client.core, scene.seen.is_dead = None, True
    scene.opens(3, 3)
    assert scene.seen.session_id == z(2)
    assert scene.committed.by_id[SessionId(z(3))] is scene.seen
