"""The promises of a link, the same for every carrier.

A link joins two incarnations: of two servers, or of a client and a server. One end dials, the
other accepts; after that both ends are alike.

1.  The frames that arrive at one end are a prefix of those sent at the other: in order, each at
    most once, none skipped. A link that loses a frame carries nothing after it and breaks.
2.  Frames that arrive together are handed over together, in one call of `LinkEvents.frames`.
3.  `send` never blocks and never raises. What waits is bounded; over the bound the link breaks.
    On a link that is closed or broken `send` does nothing.
4.  `close` ends the link once the frames sent before have left, or some time later at the latest.
    The other end then gets those frames and `closed` with the reason, or only `closed`.
5.  `closed` is called exactly once on an end that did not close first, and never on an end that
    did. After `close` or `closed` an end gets nothing more.
6.  Each end learns of a break within a deadline of its own, even if the network is cut in one
    direction only. The two ends may learn of it at different times, so a dialer may offer an
    acceptor a new link while the acceptor takes the old one for alive: the newer one counts.
7.  No event is delivered from inside `send`, `close`, `dial` or `accept`.
8.  The callback of `on_bytes_sent` learns of the bytes of frames as they leave for the other end.
    They may still be lost with the link, but no longer wait here.

Everything happens on one asyncio loop per end. The carriers are `links/ray_calls.py`,
`links/stream_endpoints.py` and, for tests, `tests/harness/memory_links.py`; `links/auto_dialer.py`
chooses between the first two. One suite, `tests/contract/test_links.py`, runs over all of them.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, runtime_checkable

from raykeeper.links.hello import Hello
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId

RAY_CALLS: Final = "ray calls"
STREAM: Final = "stream"


class LinkError(RayKeeperError):
    """Root of the reasons why there is no link."""


class LinkRefused(LinkError):
    """Raised when the other end answered, and said no: wrong ensemble, fenced, too many clients.

    The caller should not try the same server again at once.
    """


class LinkUnreachable(LinkError):
    """Raised when the other end could not be found, failed, or did not answer in time.

    The caller should try again later, or another server.
    """


class LinkEvents(Protocol):
    """The owner of one end of a link, as the link sees it."""

    def frames(self, frames: list[bytes]) -> None:
        """Take frames of the other end, in order; the list is never empty."""

    def closed(self, reason: str) -> None:
        """Learn that the link is gone. Called at most once, and nothing after it."""


class Link(Protocol):
    """One end of a link."""

    carrier: str
    """The kind of carrier, for log lines and status: `RAY_CALLS`, `STREAM`."""
    incarnation: int
    """Of the server at the other end; 0 for a client."""

    def send(self, frame: bytes) -> None:
        """Queue a frame; it may be lost only together with the link."""

    def send_last(self, frame: bytes) -> None:
        """`send` the last frame of this turn: what is queued need not wait for the turn's end."""

    def close(self, reason: str) -> None:
        """End the link after what was sent before. Closing again does nothing."""

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the number of bytes that have left, from now on."""


class Acceptor(Protocol):
    """The end that is dialed."""

    incarnation: int
    server_id: ServerId

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        """Take the link, or refuse it.

        Raises:
            LinkRefused: no link to that caller now; the caller is told the reason.
        """


class Dialer(Protocol):
    """The end that dials."""

    async def dial(self, server: ServerId, events: LinkEvents) -> Link:
        """Open a link to `server`.

        Raises:
            LinkRefused: the server said no, or is an incarnation that was fenced.
            LinkUnreachable: no answer within the deadline of the carrier.
        """


@runtime_checkable
class ServerFinder(Protocol):
    """What a dialer is if it also finds out which servers there are."""

    async def list_servers(self) -> list[ServerId]:
        """Return the servers that run.

        Raises:
            Exception: it cannot be found out now.
        """

    def keep(self, servers: Iterable[ServerId]) -> None:
        """Keep known where these servers are from now on, and no others."""


def summarize_error(error: BaseException) -> str:
    """Return the kind of an error and its first line; Ray's texts run over pages."""
    # Ray wraps what was raised in an actor.
    if isinstance(cause := getattr(error, "cause", None), LinkError):
        return str(cause)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
