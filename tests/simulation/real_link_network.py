"""The network of a simulated world that also sends every frame over a real link.

Virtual time decides when a frame arrives; the arriving bytes are those that a real carrier
delivered: sockets on the loopback interface, or calls that overtake each other. Virtual time stands
still while the world waits for a carrier. So a carrier that keeps `links/contract.py` changes
nothing: the run is the one of the seed, step for step, and every check of the simulator checks the
links too.

A cut link breaks at both ends after all earlier frames have arrived. A link that one end closes
delivers all earlier frames to the other end, and then ends there.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from raykeeper.links.contract import Dialer, Link, LinkEvents
from raykeeper.links.hello import Hello, client_hello, peer_hello
from raykeeper.links.stream_link import StreamLink
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import ENSEMBLE, INCARNATION, SERVER
from tests.harness.schedule import Schedule
from tests.simulation.network import End, Network, SimLink

PATIENCE_S = 20.0
POLL_S = 0.001


class Carrier(Protocol):
    """A real server to dial, as in the contract tests."""

    def dialer(self, hello: Hello) -> Dialer: ...
    async def close(self) -> None: ...


class RealEnd:
    """One end of a real link, and the frames that it received."""

    def __init__(self, changed: asyncio.Event) -> None:
        self.link: Link
        self.arrived: deque[bytes] = deque()
        self.count = 0
        self.left = 0  # bytes sent, as the carrier reports
        self.reason: str | None = None
        self.has_closed = False
        self._changed = changed

    def begin(self, link: Link) -> None:
        """Use this link."""
        self.link = link
        link.on_bytes_sent(self._sent)

    def frames(self, frames: list[bytes]) -> None:
        assert self.reason is None and not self.has_closed, "frames came after the end"
        self.arrived += frames
        self.count += len(frames)
        self._changed.set()

    def closed(self, reason: str) -> None:
        assert self.reason is None and not self.has_closed, "the end was told twice"
        self.reason = reason
        self._changed.set()

    def _sent(self, size: int) -> None:
        self.left += size


class LinkAcceptor:
    """The accepting side of a server: it gives its next link to `next`."""

    incarnation = INCARNATION
    server_id = SERVER

    def __init__(self) -> None:
        self.next: RealEnd | None = None

    def accept(self, hello: Hello, link: Link) -> LinkEvents:
        end, self.next = self.next, None
        assert end is not None, f"nobody dials as {hello}"
        end.begin(link)
        return end


class MirroredLink(SimLink):
    """A simulated link, and the real link that carries its frames."""

    def __init__(
        self, network: "RealLinkNetwork", ends: tuple[End, End], random: Random, real: list[RealEnd]
    ) -> None:
        super().__init__(network, ends, random)
        self._carried_by = network
        self._real = dict(zip(ends, real, strict=True))
        self._sent = dict.fromkeys(ends, 0)  # frames sent to each end

    def send(self, sender: End, data: bytes) -> None:
        """See `SimLink`. A frame on a cut direction is lost before it leaves."""
        if self.is_open and (sender, self._other(sender)) not in self._network.cuts:
            self._sent[self._other(sender)] += 1
            self._carried_by.on_loop(self._real[sender].link.send, data)
        super().send(sender, data)

    @property
    def frames(self) -> int:
        """Return the number of frames sent, in both directions."""
        return sum(self._sent.values())

    @property
    def real(self) -> list[RealEnd]:
        """Return both ends of the real link."""
        return list(self._real.values())

    def close(self, end: End) -> None:
        """See `SimLink`."""
        real = self._real[end]
        if not real.has_closed:
            self._carried_by.on_loop(self._close, real)
            self._carried_by.wait(lambda: real.has_closed)
        super().close(end)

    def break_up(self) -> None:
        """See `SimLink`."""
        if self.is_open and not any(real.has_closed for real in self._real.values()):
            self._carried_by.wait(self._has_all)
            self._carried_by.on_loop(self._cut)
        super().break_up()

    def _close(self, real: RealEnd) -> None:
        real.link.close("an end closes")
        real.has_closed = True

    def _cut(self) -> None:
        dialer = self._real[self.ends[0]]
        if isinstance(dialer.link, StreamLink):
            dialer.link._stream.shutdown()
        else:
            self._close(dialer)

    def _has_all(self) -> bool:
        return all(real.count == self._sent[end] for end, real in self._real.items())

    def _other(self, end: End) -> End:
        return self.ends[1] if end == self.ends[0] else self.ends[0]

    def _arrive(self, sender: End, receiver: End, data: bytes) -> None:
        real = self._real[receiver]
        if not real.has_closed:
            self._carried_by.wait(lambda: bool(real.arrived))
            assert real.arrived.popleft() == data, "Links: another frame came, or out of order"
            assert self._real[sender].left >= len(data), "Links: what has come has not left"
        super()._arrive(sender, receiver, data)

    def _tell(self, end: End) -> None:
        real = self._real[end]
        self._carried_by.wait(lambda: real.has_closed or real.reason is not None)
        super()._tell(end)


class RealLinkNetwork(Network):
    """A network whose links are carried by `carrier`, which subclasses choose."""

    carrier: Callable[..., Carrier]
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop

    def __init__(self, schedule: Schedule, *delays: Any) -> None:
        super().__init__(schedule, *delays)
        self.opened: list[MirroredLink] = []
        self._loop = type(self).loop_factory()
        self._changed = asyncio.Event()
        self._wrong: list[BaseException] = []
        self._loop.set_exception_handler(self._went_wrong)
        self._dialers: list[Dialer] = []
        self._servers: dict[End, tuple[LinkAcceptor, Carrier]] = {}

    def on_loop(self, call: Callable[..., object], *args: object) -> None:
        """Call `call` on the loop of the real links; calls keep their order."""
        self._loop.call_soon(call, *args)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Run the real links until `is_so` returns True."""
        if not is_so():
            self._loop.run_until_complete(asyncio.wait_for(self._until(is_so), PATIENCE_S))
        if self._wrong:
            raise self._wrong[0]

    def close(self) -> None:
        """Close all links and servers. Idempotent."""
        for link in self.opened:
            for end in link.ends:
                link.close(end)
        self._loop.run_until_complete(self._end())
        self._loop.close()

    def _open(self, ends: tuple[End, End], random: Random) -> SimLink:
        real = self._loop.run_until_complete(self._dial(*ends))
        link = MirroredLink(self, ends, random, real)
        self.opened.append(link)
        return link

    async def _dial(self, dialer: End, server: End) -> list[RealEnd]:
        if server not in self._servers:
            accepting = LinkAcceptor()
            self._servers[server] = accepting, type(self).carrier(station=accepting)
        accepting, carrier = self._servers[server]
        near, far = RealEnd(self._changed), RealEnd(self._changed)
        accepting.next = far
        hello = client_hello(ENSEMBLE)
        if dialer[0] == "server":
            hello = peer_hello(ENSEMBLE, ServerId(dialer[1]), INCARNATION)
        self._dialers.append(carrier.dialer(hello))
        near.begin(await self._dialers[-1].dial(SERVER, near))
        return [near, far]

    def _went_wrong(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._wrong.append(context.get("exception") or AssertionError(context["message"]))
        self._changed.set()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so() and not self._wrong:
            self._changed.clear()
            await asyncio.sleep(0)
            if not is_so():
                await _or_a_moment(self._changed)

    async def _end(self) -> None:
        for dialer in self._dialers:  # a link may be about to move
            await asyncio.gather(*getattr(dialer, "_upgrades", ()))
        links = [real.link for link in self.opened for real in link.real]
        released = [link.released for link in links if isinstance(link, StreamLink)]
        await asyncio.wait_for(asyncio.gather(*released), PATIENCE_S)
        for _, carrier in self._servers.values():
            await carrier.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:  # calls that were parked when their link ended
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


async def _or_a_moment(changed: asyncio.Event) -> None:
    """Wait for `changed`, or a moment: a call on the loop may change the condition silently."""
    try:
        async with asyncio.timeout(POLL_S):
            await changed.wait()
    except TimeoutError:
        pass
