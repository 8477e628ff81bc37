"""DiskThread: performs all waiting effects, keeps the order, and ends at the first failure."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from raykeeper.actors.disk.disk_thread import DiskThread
from raykeeper.actors.disk.identity import format_folder
from raykeeper.actors.disk.storage import Storage, StorageLimits
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.server.events import DiskEvent, EpochsSaved, LogSynced
from raykeeper.zab.effects import Append, DiscardSnapshot, SaveEpochs, TraceEvent
from raykeeper.zab.ids import ZERO, Epoch, Zxid, make_zxid
from tests.contract.faulty_files import FaultyFiles, fail_at
from tests.contract.stores import FOLDER, IDENTITY, OWNER


def z(counter: int) -> Zxid:
    return make_zxid(Epoch(1), counter)


def append(counter: int) -> Append:
    return Append(z(counter), [b"txn"], ZERO)


class Harness:
    """A disk thread on files in memory, whose forces can be held up."""

    def __init__(self) -> None:
        self.files = FaultyFiles()
        format_folder(FOLDER, IDENTITY, self.files)
        self.storage = Storage.open(FOLDER, OWNER, StorageLimits(1 << 16), self.files)
        self.storage.recover()
        self.storage.perform([SaveEpochs(Epoch(1), Epoch(1)), append(1)])
        self.delivered: list[list[DiskEvent]] = []
        self.trace_events: list[TraceEvent] = []
        self.failures: SimpleQueue[BaseException] = SimpleQueue()
        self.forces = 0
        self.forcing = Event()
        self.go_on = Event()

    def start(self, on_operation: Callable[[int, str], None] | None = None) -> DiskThread:
        self.files.on_operation = on_operation or self._hold_up_forces
        return DiskThread(
            self.storage, self.delivered.append, self.trace_events.append, self.failures.put
        )

    def _hold_up_forces(self, _number: int, name: str) -> None:
        if name == "sync":
            self.forces += 1
            self.forcing.set()
            assert self.go_on.wait(10)


def test_one_force_serves_all_effects_submitted_during_the_last_one() -> None:
    harness = Harness()
    thread = harness.start()
    thread.submit([append(2)])
    assert harness.forcing.wait(10)
    for counter in range(3, 50):
        thread.submit([append(counter)])
    harness.go_on.set()
    thread.close()
    assert harness.forces == 2
    assert harness.delivered == [[LogSynced(z(2))], [LogSynced(z(49))]]
    harness.storage.close()


def test_the_order_is_kept_and_closing_drains() -> None:
    harness = Harness()
    harness.go_on.set()
    thread = harness.start()
    for counter in range(2, 40, 2):
        thread.submit([append(counter), SaveEpochs(Epoch(counter), Epoch(1)), append(counter + 1)])
    thread.submit([DiscardSnapshot()])  # has no completion
    thread.close()
    events = [event for some in harness.delivered for event in some]
    saved = [event.accepted for event in events if isinstance(event, EpochsSaved)]
    synced = [event.upto for event in events if isinstance(event, LogSynced)]
    assert saved == list(range(2, 40, 2))
    assert synced == sorted(synced)
    assert synced[-1] == z(39)
    assert all(harness.delivered)
    assert harness.failures.empty()


def test_a_failure_ends_the_thread_and_is_reported_once() -> None:
    harness = Harness()
    thread = harness.start(fail_at(harness.files.operations + 1))
    thread.submit([append(2)])
    assert isinstance(harness.failures.get(timeout=10), StorageError)
    thread.submit([append(3)])
    thread.close()
    assert harness.delivered == []
    assert harness.failures.empty()
    with pytest.raises(StorageError, match="failed before"):
        harness.storage.perform([append(3)])


def test_a_bug_is_reported_as_well() -> None:
    harness = Harness()
    harness.go_on.set()
    thread = harness.start()
    thread.submit([append(17)])  # a hole
    assert isinstance(harness.failures.get(timeout=10), AssertionError)
    thread.close()


def test_submit_never_waits_for_the_disk() -> None:
    harness = Harness()
    thread = harness.start()
    thread.submit([append(2)])
    assert harness.forcing.wait(10)
    submitting = Thread(target=lambda: [thread.submit([append(n)]) for n in range(3, 1000)])
    submitting.start()
    submitting.join(10)
    assert not submitting.is_alive()
    harness.go_on.set()
    thread.close()
    assert harness.delivered[-1] == [LogSynced(z(999))]
