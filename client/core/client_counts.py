"""What one handle counts: plain integers, which client/process_metrics.py tells Ray."""

from typing import Final

from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import ExistsReply, GetChildrenReply, GetDataReply, WriteReply

OK: Final = "ok"
OTHER: Final = "other"
KINDS: Final[dict[type, str]] = {
    WriteReply: "write",
    GetDataReply: "get_data",
    ExistsReply: "exists",
    GetChildrenReply: "get_children",
}
"""The kinds of requests by the type of their reply; all others are `OTHER`."""
_OUTCOMES: Final = {int(code): code.name.lower() for code in Code}


class ClientCounts:
    """The counts of one handle since it was made."""

    __slots__ = ("_errors", "_without_since", "answered", "connects", "losses", "without_ms")

    def __init__(self) -> None:
        self.answered: dict[type, int] = {}
        """Requests that were answered, by the type of the reply that they wait for."""
        self._errors: dict[tuple[type, int], int] = {}
        self.connects = 0
        """How often a server took the session, or a read-only one."""
        self.losses = 0
        """Sessions that the servers, or the client's own deadline, ended; 0 or 1."""
        self.without_ms = 0
        """How long there was no connection, in all that are over."""
        self._without_since: Millis | None = None

    def count_answer(self, reply_type: type, code: int) -> None:
        """Count a request; `code` is 0 for success."""
        answered = self.answered
        answered[reply_type] = answered.get(reply_type, 0) + 1
        if code:
            key = (reply_type, code)
            self._errors[key] = self._errors.get(key, 0) + 1

    def on_connected(self, now: Millis) -> None:
        """A server serves the handle."""
        self.connects += 1
        self.without_ms = self.without_connection_ms(now)
        self._without_since = None

    def on_disconnected(self, now: Millis) -> None:
        """No server serves it; it looks for one."""
        if self._without_since is None:
            self._without_since = now

    def is_without_connection(self) -> bool:
        """Return whether it looks for a server."""
        return self._without_since is not None

    def without_connection_ms(self, now: Millis) -> int:
        """Return how long there was no connection, with the time that is not over."""
        since = self._without_since
        return self.without_ms + (0 if since is None else max(0, now - since))

    def by_outcome(self) -> dict[tuple[str, str], int]:
        """Return how many requests were answered, by kind and outcome.

        It may be called in another thread than the counts are made in.
        """
        counts: dict[tuple[str, str], int] = {}
        errors = dict(self._errors)  # before the answers, which then are at least as many
        for reply_type, count in dict(self.answered).items():
            key = KINDS.get(reply_type, OTHER), OK
            counts[key] = counts.get(key, 0) + count
        for (reply_type, code), count in errors.items():
            kind = KINDS.get(reply_type, OTHER)
            counts[kind, OK] -= count
            key = kind, _OUTCOMES.get(code, str(code))
            counts[key] = counts.get(key, 0) + count
        return counts
