"""The thread that performs a replica's disk effects, so that its event loop never waits.

It takes everything that waits at once. So one fdatasync serves every Append that came during the
one before (group commit; ZooKeeper: `SyncRequestProcessor`). It never waits for more to come.

A single small Append that comes while nothing waits may be performed in the thread of the loop, as
`perform_here`: to wake this thread and then the loop takes a third as long as the force itself. The
loop stands still meanwhile, so that is done only on a disk whose last forces were quick.

Invariants: effects are performed, and completions delivered, in order; the storage is used by one
thread at a time.
"""

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

from raykeeper.actors.disk.storage import Storage, StorageEffect
from raykeeper.server.events import DiskEvent
from raykeeper.zab.effects import Append, TraceEvent

QUICK_FORCE_S: Final = 0.002
"""The loop waits for a force itself if the longest of the last ones took no longer."""
SLOW_FORCE_DECAY: Final = 0.95
"""How much a slow force counts after each one more: one of 20 ms keeps 45 in this thread."""
APPEND_HERE_BYTES_MAX: Final = 64 << 10
"""A larger Append takes longer to write than a thread to wake."""


class DiskThread:
    """Performs the effects it is given on `storage`, which belongs to it until it is closed."""

    def __init__(
        self,
        storage: Storage,
        deliver: Callable[[list[DiskEvent]], None],
        on_trace: Callable[[TraceEvent], None],
        on_failure: Callable[[BaseException], None],
        clock: Callable[[], float] = time.perf_counter,
        on_forced: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Start the thread.

        Args:
            storage: A recovered storage.
            deliver: Called with completions, in the thread or in `perform_here`; hands them to the
                event loop in this order.
            on_trace: Called in the thread with each trace event.
            on_failure: Called in the thread, once, with what ended it. Later effects are dropped.
            clock: Tells monotonic seconds.
            on_forced: Called with the nanoseconds of each force, in the thread or in
                `perform_here`.
        """
        self._storage = storage
        self._deliver = deliver
        self._on_trace = on_trace
        self._on_failure = on_failure
        self._clock = clock
        self._on_forced = on_forced
        self._queue: SimpleQueue[Sequence[StorageEffect] | None] = SimpleQueue()
        self._submitted = 0
        self._taken = 0  # in `submitted`s; equal when the thread does not use the storage
        self._longest_force_s = 10 * QUICK_FORCE_S  # of the last ones, decayed; a guess at first
        self._thread = Thread(target=self._run, name="raykeeper-disk", daemon=True)
        self._thread.start()

    def submit(self, effects: Sequence[StorageEffect]) -> None:
        """Have `effects` performed after all that were submitted before. Never blocks."""
        self._submitted += 1
        self._queue.put(effects)

    def performs_here(self, effects: Sequence[StorageEffect]) -> bool:
        """Return whether `perform_here` is quicker for `effects` than `submit`, and safe."""
        return (
            len(effects) == 1
            and self._taken == self._submitted
            and self._longest_force_s <= QUICK_FORCE_S
            and type(append := effects[0]) is Append
            and sum(map(len, append.txns)) <= APPEND_HERE_BYTES_MAX
        )

    def perform_here(self, effects: Sequence[StorageEffect]) -> None:
        """Perform `effects` in this thread, which submits them otherwise.

        Only when `performs_here` says so. Earlier completions may still be on their way to the
        loop, so these take the same way, which keeps the order. A failure is reported as the
        thread's.
        """
        try:
            self._perform_and_deliver(effects)
        except BaseException as error:
            self._on_failure(error)
            raise

    def close(self) -> None:
        """Wait until all that was submitted is performed and delivered, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            closing = False
            while not closing:
                effects, taken, closing = self._take()
                self._perform_and_deliver(effects)
                self._taken += taken
        except BaseException as error:  # a failed assertion too must end the replica
            self._on_failure(error)

    def _perform_and_deliver(self, effects: Sequence[StorageEffect]) -> None:
        began = self._clock()
        completions = self._storage.perform(effects)
        if effects:
            took_s = self._clock() - began
            self._longest_force_s = max(took_s, self._longest_force_s * SLOW_FORCE_DECAY)
            if any(type(effect) is Append for effect in effects):
                self._on_forced(int(took_s * 1e9))
        if completions:
            self._deliver(completions)
        for event in self._storage.take_trace_events():
            self._on_trace(event)

    def _take(self) -> tuple[list[StorageEffect], int, bool]:
        """Wait for a submission; return all that wait, their number, and whether it is the end."""
        effects: list[StorageEffect] = []
        taken = 0
        some = self._queue.get()
        try:
            while some is not None:
                effects += some
                taken += 1
                some = self._queue.get_nowait()
        except Empty:
            return effects, taken, False
        return effects, taken, True
