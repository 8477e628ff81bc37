"""The bytes that ZooKeeper's clients make one server keep, those of all connections together.

Each connection has bounds of its own: one request, a list, replies that it does not read. A crowd
that sends requests by halves, or reads nothing, would fill the memory all the same. So what each
connection makes the server keep above `FREE_BYTES` is added up. If that is more than the setting
allows, replies wait, not yet encoded, until the step ends, and at its end the connections that keep
the most are closed. A connection that keeps little is never closed for what others keep.
"""

from typing import Final

from raykeeper.server.events import JUTE_SENT_REPORT_BYTES, JUTE_WRITE_BUFFER_BYTES

FREE_BYTES: Final = JUTE_SENT_REPORT_BYTES + JUTE_WRITE_BUFFER_BYTES
"""Not counted: so much may have left that the shell has not reported yet."""


class JuteBuffers:
    """What each connection keeps above `FREE_BYTES`, by connection number."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        """Those of all connections."""
        self._by_number: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether the connections keep more than they may."""
        return self.bytes > self.bytes_max

    def note(self, number: int, size: int) -> None:
        """Note that a connection makes the server keep `size` bytes now."""
        before = self._by_number.get(number, 0)
        after = max(0, size - FREE_BYTES)
        if after != before:
            self.bytes += after - before
            if after:
                self._by_number[number] = after
            else:
                del self._by_number[number]

    def discard(self, number: int) -> None:
        """Forget a connection that is closed."""
        self.bytes -= self._by_number.pop(number, 0)

    def largest(self) -> list[int]:
        """Return the connections without which the others keep no more than they may."""
        found: list[int] = []
        excess = self.bytes - self.bytes_max
        for number in sorted(self._by_number, key=self._by_number.__getitem__, reverse=True):
            if excess <= 0:
                break
            found.append(number)
            excess -= self._by_number[number]
        return found
