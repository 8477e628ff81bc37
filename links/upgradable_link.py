"""A link over Ray calls that moves to a stream as soon as one opens, without a break.

Make before break: the dialer opens a stream that names the link (`Hello.link`). Each direction
moves by itself:

    an end sends       on the calls, until the stream is open (`upgrade_to`); then the mark, an
                       empty frame, as its last frame on the calls; then on the stream
    an end delivers    frames of the calls, until the mark; then those of the stream, which are
                       held back until then

Invariant: the owner of an end gets what the other owner sent, in order, whatever travelled where.
If either carrier breaks before both marks have come, the link has broken.

Frames of an upgradable link are never empty.
"""

from collections.abc import Callable
from typing import Final

from raykeeper.links.contract import RAY_CALLS, Acceptor, Link, LinkEvents, LinkRefused
from raykeeper.links.hello import Hello
from raykeeper.links.limits import PEER_QUEUE_BYTES_MAX

_MARK: Final = b""


class UpgradableLink:
    """One end. It takes the events of the calls itself; `stream_events` takes the stream's."""

    events: LinkEvents

    def __init__(self) -> None:
        """`start_on_calls` gives it its link."""
        self.incarnation = 0
        self.carrier = ""
        self.is_over = False
        self.stream_events = _StreamEvents(self)
        self._calls: Link
        self._stream: Link | None = None
        self._is_upgrade_expected = False
        self._has_received_mark = False
        self._held_frames: list[bytes] = []
        self._held_bytes = 0
        self._on_bytes_sent: Callable[[int], None] | None = None

    def start_on_calls(self, calls: Link) -> None:
        """Travel over `calls` at first."""
        self._calls = calls
        self.incarnation = calls.incarnation
        self.carrier = calls.carrier

    def send(self, frame: bytes) -> None:
        """Queue a frame on the present carrier."""
        assert frame, "an empty frame is the mark"
        (self._stream or self._calls).send(frame)

    def send_last(self, frame: bytes) -> None:
        """Send the last frame of this turn on the present carrier."""
        assert frame, "an empty frame is the mark"
        (self._stream or self._calls).send_last(frame)

    def on_bytes_sent(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the number of bytes that have left, from now on."""
        self._on_bytes_sent = callback
        self._calls.on_bytes_sent(callback)
        if self._stream is not None:
            self._stream.on_bytes_sent(callback)

    def close(self, reason: str) -> None:
        """End the link after what was sent before. Closing again does nothing."""
        self.is_over = True
        self._close_both(reason)

    def expect_upgrade(self) -> None:
        """Allow the other end's mark. The dialer calls it before it opens the stream."""
        self._is_upgrade_expected = True

    def cancel_upgrade(self) -> None:
        """Stay on the calls, as the dialer's stream did not open; break if the acceptor moved."""
        self._is_upgrade_expected = False
        if self._has_received_mark:
            self._break("the link could not move")

    def upgrade_to(self, stream: Link) -> None:
        """Send on `stream` from now on."""
        if self.is_over:
            stream.close("the link is over")
            return
        self._is_upgrade_expected = True
        self._calls.send(_MARK)
        self._stream = stream
        self.carrier = stream.carrier
        if self._on_bytes_sent is not None:
            stream.on_bytes_sent(self._on_bytes_sent)
        if self._has_received_mark:
            self._close_calls()

    def frames(self, frames: list[bytes]) -> None:
        """Deliver frames of the calls up to the mark, and behind it what the stream has brought."""
        if self.is_over or self._has_received_mark:
            return
        self._has_received_mark = frames[-1] == _MARK
        if self._has_received_mark:
            frames.pop()
        if frames:
            self.events.frames(frames)
        if not self._has_received_mark or self.is_over:
            return
        if not self._is_upgrade_expected:
            self._break("the link moved without a request")
            return
        held, self._held_frames = self._held_frames, []
        if held:
            self.events.frames(held)
        if self._stream is not None:
            self._close_calls()

    def closed(self, reason: str) -> None:
        """Break the link, unless its calls have served their time."""
        if not self._has_received_mark:
            self._break(reason)

    def stream_frames(self, frames: list[bytes]) -> None:
        """Deliver frames of the stream, or hold them until the mark; for `stream_events`."""
        if self.is_over:
            return
        if self._has_received_mark:
            self.events.frames(frames)
            return
        self._held_frames += frames
        self._held_bytes += sum(map(len, frames))
        if self._held_bytes > PEER_QUEUE_BYTES_MAX:
            self._break("the link moved, and the rest of the calls did not arrive")

    def stream_closed(self, reason: str) -> None:
        """Break the link, as the stream has ended; for `stream_events`."""
        self._break(reason)

    def _close_calls(self) -> None:
        # The mark that this end sent is on its way, or leaves before the end does.
        self._calls.close("the link has moved to a stream")

    def _break(self, reason: str) -> None:
        if not self.is_over:
            self.is_over = True
            self._held_frames.clear()
            self._close_both(reason)
            self.events.closed(reason)

    def _close_both(self, reason: str) -> None:
        self._calls.close(reason)
        if self._stream is not None:
            self._stream.close(reason)


class _StreamEvents:
    """Passes on the events of the stream."""

    def __init__(self, link: UpgradableLink) -> None:
        self.frames = link.stream_frames
        self.closed = link.stream_closed


class UpgradingAcceptor:
    """An acceptor in front of another one, which knows the links that may move."""

    def __init__(self, acceptor: Acceptor) -> None:
        """Offer links to `acceptor`, for which a link that moves stays the same link."""
        self.incarnation = acceptor.incarnation
        self.server_id = acceptor.server_id
        self._acceptor = acceptor
        self._links: dict[int, UpgradableLink] = {}

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        """Take a link, or the stream to which one moves.

        Raises:
            LinkRefused: the acceptor refuses it, or the link that should move is gone.
        """
        if not hello.link:
            return self._acceptor.accept(hello, link)
        if link.carrier == RAY_CALLS:
            upgradable = UpgradableLink()
            upgradable.start_on_calls(link)
            upgradable.events = self._acceptor.accept(hello, upgradable)
            self._links = {k: each for k, each in self._links.items() if not each.is_over}
            self._links[hello.link] = upgradable
            return upgradable
        known = self._links.pop(hello.link, None)
        if known is None or known.is_over:
            raise LinkRefused("the link that should move is gone")
        known.upgrade_to(link)
        return known.stream_events
