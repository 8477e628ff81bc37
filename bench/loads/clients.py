"""One interface for all client libraries, so that each of them gets the same load."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

Done = Callable[[BaseException | None], object]
"""Called with the error, or None, on any thread of the library."""


class BlockingClient(Protocol):
    """One session that makes one request at a time."""

    def create(self, path: str, value: bytes) -> object:
        """Create a znode."""

    def set(self, path: str, value: bytes) -> object:
        """Replace its value."""

    def get(self, path: str) -> object:
        """Read it, from the connected server."""

    def get_linearizable(self, path: str) -> object:
        """Read it, including all earlier writes."""

    def delete_nowait(self, path: str) -> object:
        """Delete it without waiting."""

    def watch(self, path: str, told: Callable[[], object]) -> object:
        """Call `told` once when the value changes."""

    def close(self) -> object:
        """End the session."""


class PipelinedClient(Protocol):
    """One session with many outstanding requests. Its calls do not wait."""

    def create(self, path: str, value: bytes, done: Done) -> object:
        """Create a znode."""

    def set(self, path: str, value: bytes, done: Done) -> object:
        """Replace its value."""

    def get(self, path: str, done: Done) -> object:
        """Read it."""

    def delete(self, path: str, done: Done) -> object:
        """Delete it."""

    async def close(self) -> object:
        """End the session."""


class DoubleBarrier(Protocol):
    """One participant of a double barrier."""

    def enter(self) -> object:
        """Wait until all have entered."""

    def leave(self) -> object:
        """Wait until all have left."""


@runtime_checkable
class RecipeClient(Protocol):
    """One session of a library that has recipes."""

    def locker(self, path: str) -> Callable[[], object]:
        """Return a call that acquires the lock of this path and releases it."""

    def double_barrier(self, path: str, participants: int, name: str) -> DoubleBarrier:
        """Return the barrier for the participant `name`."""

    def close(self) -> object:
        """End the session."""


def call_done(done: Done) -> Callable[[Any], object]:
    """Return a callback for futures of asyncio or concurrent.futures that calls `done`."""
    return lambda future: done(future.exception())
