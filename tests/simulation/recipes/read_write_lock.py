"""The read/write lock: readers together, or one writer; a later holder has a larger token."""

from typing import Any

from raykeeper.zab.ids import ZERO, format_zxid
from tests.harness.schedule import Schedule
from tests.simulation.checks.truth import Truth
from tests.simulation.recipes.contended import Contended, Way
from tests.simulation.recipes.holders import Holders
from tests.simulation.recipes.process import Process
from tests.simulation.recipes.scenario import ABOVE

PATH = f"{ABOVE}/table"
MANY = 1_000


class ReadWriteLockScenario(Contended):
    """Readers and writers."""

    def __init__(self, schedule: Schedule, truth: Truth) -> None:
        super().__init__(schedule, truth)
        self._readers = Holders(schedule, "the read lock", MANY)
        self._writers = Holders(schedule, "the write lock")
        self._newest = {"read": ZERO, "write": ZERO}

    def ways(self, process: Process) -> list[Way]:
        """Return the read lock and the write lock."""
        lock = process.read_write_lock(PATH)
        return [
            (lock.read.acquire, lambda held: self._reads(process, held)),
            (lock.write.acquire, lambda held: self._writes(process, held)),
        ]

    def look(self) -> None:
        """Check, after each step, that no reader holds beside a writer."""
        self._readers.look()
        self._writers.look()
        if self._writers.is_held and self._readers.is_held:
            believing = self._writers.believing()
            readers = self._readers.believing()
            assert not believing or not readers, f"Exclusion: {believing[0]} beside {readers[0]}"

    def _reads(self, process: Process, held: Any) -> None:
        if self._readers.got(process, held, in_order=False):
            self._is_newer("read", held, self._newest["write"])

    def _writes(self, process: Process, held: Any) -> None:
        if self._writers.got(process, held):
            self._is_newer("write", held, max(self._newest.values()))
        self.look()

    def _is_newer(self, kind: str, held: Any, before: int) -> None:
        assert held.token > before, f"TokenOrder: {format_zxid(held.token)} to {kind}"
        self._newest[kind] = max(self._newest[kind], held.token)
