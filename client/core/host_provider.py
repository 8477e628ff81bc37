"""Chooses the next server: a shuffled list, round robin, a backoff after each failed cycle.

ZooKeeper: `StaticHostProvider`. There the pause is a second, here it begins at 50 ms.
"""

from collections.abc import Iterable
from random import Random

from raykeeper.client.core.limits import (
    BACKOFF_MS_MAX,
    BACKOFF_MS_MIN,
    CONNECT_TIMEOUT_MS_MIN,
    RETURN_PAUSE_DIVISOR,
)
from raykeeper.zab.ids import Millis, ServerId


class HostProvider:
    """The servers of an ensemble, in the order in which this client tries them."""

    def __init__(self, servers: list[ServerId], rng: Random) -> None:
        assert servers, "a client needs a server"
        self._servers = list(servers)
        self._rng = rng
        self._next = 0
        self._left = len(servers)  # in this cycle, from `_next` on
        self._cycles = 0  # that have failed since the last success, before this one
        self._failures: dict[ServerId, str] = {}
        self.return_spread_ms = Millis(0)
        """Over how long the clients of the present server, or the last one, spread their return."""
        self._rng.shuffle(self._servers)

    def set_servers(self, servers: Iterable[ServerId], *, new_first: bool = False) -> bool:
        """Replace the servers, and keep the place in the cycle; return whether any is new.

        A new server is tried in this cycle: at a place drawn at random, since many clients learn of
        it together, or before all others (`new_first`), which have just failed.
        """
        given = dict.fromkeys(servers)
        assert given, "a client needs a server"
        order = self._servers[self._next :] + self._servers[: self._next]
        left = [server for server in order[: self._left] if server in given]
        tried = [server for server in order[self._left :] if server in given]
        new = [server for server in given if server not in order]
        self._rng.shuffle(new)
        for server in new:
            left.insert(0 if new_first else self._rng.randint(0, len(left)), server)
        self._servers = left + tried
        self._next, self._left = 0, len(left)
        return bool(new)

    def next_server(self) -> ServerId:
        """Return the server to try now."""
        server = self._servers[self._next]
        self._next = (self._next + 1) % len(self._servers)
        if not self._left:
            self._cycles += 1
            self._left = len(self._servers)
        self._left -= 1
        return server

    def on_connected(self) -> None:
        """A server serves the client: forget the failures before."""
        self._left, self._cycles = len(self._servers), 0
        self._failures.clear()

    def on_failed(self, server: ServerId, reason: str) -> None:
        """The server does not serve the client, or stopped serving it."""
        self._failures[server] = reason

    def explain(self) -> str:
        """Return which servers failed since one served the client, and why."""
        if not self._failures:
            return "no server has answered yet"
        return "; ".join(f"server {s}: {why}" for s, why in sorted(self._failures.items()))

    def failed_cycles(self) -> int:
        """Return how many whole cycles of servers failed before the present attempt."""
        return self._cycles

    def backoff_ms(self) -> Millis:
        """Return how long to wait before the next attempt: 0 unless a whole cycle has just failed.

        Jitter keeps the clients of a restarted ensemble from coming all at once.
        """
        if self._left:
            return Millis(0)
        longest = min(BACKOFF_MS_MIN << min(self._cycles + 1, 10), BACKOFF_MS_MAX)
        return Millis(self._rng.randint(longest // 2, longest))

    def return_pause_ms(
        self, left_ms: Millis, unconfirmed_ms: Millis, timeout_ms: Millis
    ) -> Millis:
        """Return how long to wait after the loss of a server that served the client.

        The client whose session ends first comes first: on a busy machine the last one of a crowd
        is away for most of its timeout. An eighth is jitter, for clients whose heartbeats left at
        the same moment.

        Args:
            left_ms: How long the session certainly lives on without a server, of which the pause
                takes a small part at most.
            unconfirmed_ms: How long ago the leader heard of the session, of which heartbeats make
                a third of the timeout at most.
            timeout_ms: The session timeout.
        """
        longest = min(self.return_spread_ms, left_ms // RETURN_PAUSE_DIVISOR)
        if longest <= 0:
            return Millis(0)
        third = max(timeout_ms // 3, 1)
        place = 7 * max(third - unconfirmed_ms, 0) + self._rng.randrange(third)
        return Millis(longest * place // (8 * third))

    def connect_timeout_ms(self, timeout_ms: Millis) -> Millis:
        """Return how long a server may take to open the link, and again to take the session.

        At first a whole cycle fits into the third of the session timeout that is left after a
        silent server; each failed cycle doubles the time, in case all servers are slow. In a crowd
        a server takes longer, and an attempt that is given up costs it as much as one that is not.
        """
        cycles = self.failed_cycles()
        shortest = max(timeout_ms // (3 * len(self._servers)), CONNECT_TIMEOUT_MS_MIN)
        shortest += min(self.return_spread_ms, shortest)
        return Millis(min(shortest << min(cycles, 10), max(timeout_ms * 2 // 3, shortest)))
