"""DiskThread: performs all waiting effects, keeps the order, and ends at the first failure."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from raykeeper.actors.disk.disk_thread import APPEND_HERE_BYTES_MAX, DiskThread
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


FORCES = 50
"""So many quick forces make a disk count as quick, after a slow one too."""


class Timed(Harness):
    """A disk whose forces take `force_s` of a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = self.force_s = 0.0
        self.forced_ns: list[int] = []
        self.last = 1
        self.completions: SimpleQueue[list[DiskEvent]] = SimpleQueue()
        self.files.on_operation = self._pass_time
        self.thread = DiskThread(
            self.storage,
            self.completions.put,
            self.trace_events.append,
            self.failures.put,
            clock=lambda: self.now_s,
            on_forced=self.forced_ns.append,
        )

    def next_append(self) -> Append:
        self.last += 1
        return append(self.last)

    def force(self, times: int, force_s: float) -> None:
        """Have the thread force so often, one Append each time."""
        self.force_s = force_s
        for _ in range(times):
            self.thread.submit([self.next_append()])
            assert self.completions.get(timeout=10) == [LogSynced(z(self.last))]

    def trusts(self) -> bool:
        """End the thread, which is then idle, and return whether its caller would force."""
        self.thread.close()
        return self.thread.performs_here([append(self.last + 1)])

    def _pass_time(self, _number: int, name: str) -> None:
        if name == "sync":
            self.now_s += self.force_s


def test_a_quick_disk_that_is_idle_is_forced_by_the_caller() -> None:
    harness = Timed()
    harness.force(FORCES, 0.0003)
    assert harness.trusts()
    following = harness.next_append()
    harness.thread.perform_here([following])
    assert harness.completions.get_nowait() == [LogSynced(following.first)]
    assert harness.thread.performs_here([harness.next_append()])
    harness.storage.close()


@pytest.mark.parametrize(
    "forces",
    [
        [],
        [(FORCES, 0.003)],
        [(FORCES, 0.0003), (1, 0.02)],
        [(FORCES, 0.0003), (1, 0.02), (FORCES // 2, 0.0003)],
    ],
)
def test_the_caller_does_not_wait_for_a_disk_that_may_be_slow(
    forces: list[tuple[int, float]],
) -> None:
    harness = Timed()
    for times, force_s in forces:
        harness.force(times, force_s)
    assert not harness.trusts()


def test_each_force_is_told_with_its_time_wherever_it_was() -> None:
    harness = Timed()
    harness.force(2, 0.5)
    harness.thread.submit([SaveEpochs(Epoch(2), Epoch(1))])
    assert harness.completions.get(timeout=10) == [EpochsSaved(Epoch(2), Epoch(1))]
    harness.force(FORCES, 0.25)
    harness.thread.close()
    harness.force_s = 0.125
    harness.thread.perform_here([harness.next_append()])
    assert harness.forced_ns == [500_000_000] * 2 + [250_000_000] * FORCES + [125_000_000]
    harness.storage.close()


def test_a_slow_force_is_forgotten() -> None:
    harness = Timed()
    harness.force(1, 0.02)
    harness.force(FORCES, 0.0003)
    assert harness.trusts()


def test_the_caller_performs_one_small_append_only() -> None:
    harness = Timed()
    harness.force(FORCES, 0.0003)
    assert harness.trusts()
    one = harness.next_append()
    performs_here = harness.thread.performs_here
    assert not performs_here([one, harness.next_append()])
    assert not performs_here([SaveEpochs(Epoch(2), Epoch(2))])
    assert not performs_here([Append(one.first, [bytes(APPEND_HERE_BYTES_MAX), b"x"], ZERO)])
    assert performs_here([Append(one.first, [bytes(APPEND_HERE_BYTES_MAX)], ZERO)])


def test_the_caller_does_not_overtake_the_thread() -> None:
    harness = Timed()
    harness.force(FORCES, 0.0003)
    harness.files.on_operation = harness._hold_up_forces
    harness.thread.submit([harness.next_append()])
    assert not harness.thread.performs_here([append(harness.last + 1)])
    assert harness.forcing.wait(10)
    assert not harness.thread.performs_here([append(harness.last + 1)])
    harness.go_on.set()
    assert harness.trusts()


def test_a_failure_in_the_callers_thread_is_reported_too() -> None:
    harness = Timed()
    harness.force(FORCES, 0.0003)
    assert harness.trusts()
    harness.files.on_operation = fail_at(harness.files.operations + 1)
    with pytest.raises(StorageError):
        harness.thread.perform_here([harness.next_append()])
    assert isinstance(harness.failures.get(timeout=10), StorageError)


def test_a_completion_does_not_overtake_one_that_is_on_its_way() -> None:
    """A loop that has not taken what the thread delivered may force the next Append itself."""
    harness = Timed()
    harness.force(FORCES, 0.0003)
    harness.thread.submit([harness.next_append()])
    assert harness.trusts()  # the thread is idle, and nobody has taken its completion
    harness.thread.perform_here([harness.next_append()])
    delivered = [harness.completions.get_nowait() for _ in range(2)]
    assert delivered == [[LogSynced(z(harness.last - 1))], [LogSynced(z(harness.last))]]
