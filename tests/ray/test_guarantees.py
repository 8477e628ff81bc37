"""The examples of the ZooKeeper paper, section 2.3, with real servers and two clients."""

import os
import signal
import threading

import pytest

from raykeeper.client import WatchedEvent
from raykeeper.clusters import Ensemble
from tests.ray.conftest import Launch, eventually

PARAMETERS = 200


@pytest.fixture(scope="module", params=["direct", "ray"])
def links(request: pytest.FixtureRequest) -> str:
    """Both carriers."""
    carrier: str = request.param
    return carrier


def test_a_client_that_sees_ready_sees_the_whole_configuration(shared: Ensemble) -> None:
    with shared.connect() as leader, shared.connect() as worker:
        leader.create("/config")
        changes = [leader.create_async(f"/config/{number}", b"new") for number in range(PARAMETERS)]
        ready = leader.create_async("/ready")
        seen = threading.Event()
        if worker.exists("/ready", watch=lambda event: seen.set()) is None:
            seen.wait(30)
        assert worker.exists("/ready") is not None
        assert len(worker.get_children("/config")) == PARAMETERS
        assert ready.result() == "/ready"
        assert all(change.done() for change in changes)


def test_a_watcher_is_called_before_it_can_read_the_new_state(shared: Ensemble) -> None:
    with shared.connect() as leader, shared.connect() as worker:
        leader.create("/partly")
        leader.create("/ready2")
        leader.create("/value", b"0")
        worker.sync("/ready2")
        events: list[WatchedEvent] = []
        assert worker.exists("/ready2", watch=events.append) is not None
        leader.delete_async("/ready2")
        for number in range(1, PARAMETERS):
            leader.set_async("/value", str(number).encode())

        def new_value_read() -> bool:
            value, stat = worker.get("/value")
            assert value == b"0" or events, f"read {value!r} of {stat.mzxid} before the event"
            return value != b"0"

        eventually(new_value_read)
        assert [event.type.name for event in events] == ["DELETED"]


def test_sync_then_read_shows_writes_known_from_elsewhere(shared: Ensemble) -> None:
    with shared.connect() as writer:
        readers = [shared.connect() for _ in range(6)]  # some of them at every server
        writer.create("/hidden", b"0")
        for number in range(1, 20):
            value = str(number).encode()
            writer.set("/hidden", value)
            # The reply is the other channel: by now everybody may know of the change.
            for reader in readers:
                synced, read = reader.sync_async("/hidden"), reader.get_async("/hidden")
                assert synced.result() is None
                assert read.result()[0] == value
        for reader in readers:
            reader.close()


def test_a_client_is_answered_in_its_order_and_reads_its_own_writes(shared: Ensemble) -> None:
    with shared.connect() as client:
        client.create("/order", b"")
        answered: list[int] = []
        reads = []
        for number in range(PARAMETERS):
            write = client.set_async("/order", str(number).encode())
            write.add_done_callback(lambda _, number=number: answered.append(2 * number))
            read = client.get_async("/order")
            read.add_done_callback(lambda _, number=number: answered.append(2 * number + 1))
            reads.append(read)
        for number, read in enumerate(reads):
            value, stat = read.result()
            assert (int(value), stat.version) == (number, number + 1)
        eventually(lambda: len(answered) == 2 * PARAMETERS)
        assert answered == list(range(2 * PARAMETERS))


def test_a_client_that_moves_to_another_server_never_reads_backwards(
    launch_one: Launch, links: str
) -> None:
    ensemble = launch_one(links=links)
    with (
        ensemble.connect(session_timeout_s=20.0) as writer,
        ensemble.connect(session_timeout_s=20.0) as reader,
    ):
        writer.create("/clock", b"0")
        reader.sync("/clock")
        last = 0
        victims = {server.pid for server in ensemble.status().servers}
        for number in range(1, 301):
            writer.set_async("/clock", str(number).encode())
            if number % 100 == 0:
                os.kill(victims.pop(), signal.SIGKILL)
                ensemble.wait_for_leader(30)
            now = int(reader.get("/clock")[0])
            assert now >= last
            last = now
        writer.sync("/clock")
        reader.sync("/clock")
        assert int(reader.get("/clock")[0]) == 300
