"""The thread that performs a replica's disk effects, so that its event loop never waits.

It takes everything that waits at once. So one fdatasync serves every Append that came during the
one before (group commit; ZooKeeper: `SyncRequestProcessor`). It never waits for more to come.
Invariant: effects are performed, and completions delivered, in order.
"""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread

from raykeeper.actors.disk.storage import Storage, StorageEffect
from raykeeper.server.events import DiskEvent
from raykeeper.zab.effects import TraceEvent


class DiskThread:
    """Performs the effects it is given on `storage`, which belongs to it until it is closed."""

    def __init__(
        self,
        storage: Storage,
        deliver: Callable[[list[DiskEvent]], None],
        on_trace: Callable[[TraceEvent], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Start the thread.

        Args:
            storage: A recovered storage.
            deliver: Called in the thread with completions; hands them to the event loop.
            on_trace: Called in the thread with each trace event.
            on_failure: Called in the thread, once, with what ended it. Later effects are dropped.
        """
        self._storage = storage
        self._deliver = deliver
        self._on_trace = on_trace
        self._on_failure = on_failure
        self._queue: SimpleQueue[Sequence[StorageEffect] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="raykeeper-disk", daemon=True)
        self._thread.start()

    def submit(self, effects: Sequence[StorageEffect]) -> None:
        """Have `effects` performed after all that were submitted before. Never blocks."""
        self._queue.put(effects)

    def close(self) -> None:
        """Wait until all that was submitted is performed and delivered, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            closing = False
            while not closing:
                effects, closing = self._take()
                completions = self._storage.perform(effects)
                if completions:
                    self._deliver(completions)
                for event in self._storage.take_trace_events():
                    self._on_trace(event)
        except BaseException as error:  # a failed assertion too must end the replica
            self._on_failure(error)

    def _take(self) -> tuple[list[StorageEffect], bool]:
        """Wait for a submission; return all that wait, and whether the last one is among them."""
        effects: list[StorageEffect] = []
        some = self._queue.get()
        try:
            while some is not None:
                effects += some
                some = self._queue.get_nowait()
        except Empty:
            return effects, False
        return effects, True
