"""Event loops with their own time, so that no test waits.

`VirtualLoop` jumps to its next timer whenever nothing is ready. `ManualLoop` runs in a thread and
when told to, for the blocking client.
"""

import asyncio
import selectors
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes only when nothing is ready to run."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._virtual_loop = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits, and for nothing"
        ready = super().select(0)
        if not ready:
            self._virtual_loop.seconds += timeout
        return ready


class ManualLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes when `advance` says so; only then do timers run."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        super().__init__()
        self._thread = threading.Thread(target=self.run_forever, daemon=True)
        self._thread.start()

    def time(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass, and return when all callbacks that were due have run."""

        def add() -> None:
            self.seconds += seconds

        self.do(add)
        self.do(lambda: None)

    def do(self, act: Callable[[], T]) -> T:
        """Call `act` on the loop after everything that is ready there, and return its result."""

        async def later() -> T:
            for _ in range(20):
                await asyncio.sleep(0)
            return act()

        return asyncio.run_coroutine_threadsafe(later(), self).result()

    def end(self) -> None:
        """Stop the thread and close the loop."""
        self.call_soon_threadsafe(self.stop)
        self._thread.join()
        self.close()
