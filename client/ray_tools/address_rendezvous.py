"""A rendezvous that hands out addresses and ports: everybody learns where everybody listens.

    rendezvous = Rendezvous("coord", "/train/rendezvous", size=4)
    with rendezvous.meet() as met:                      # in each of four actors, or tasks
        met.addresses, met.rank                         # the same list for all; one's own place
        met.socket                                      # bound to met.addresses[met.rank]
        met.broken.check()                              # BrokenBarrierError once one has died

It replaces a named actor in which workers write `(ip, free port)`: names of the last run that are
"already taken", addresses of the dead, and ports that were found free, closed, and taken by others
before they were used. Here the port is bound before it is published and stays bound: the socket
listens, so a peer that is early waits in its queue. Who needs a number instead of a socket closes
it as late as it can.

The invariants are those of the recipe (recipes/rendezvous.py): one list for all of a generation,
who were all there at one moment; the next generation after one of them left or died.
"""

import socket
from types import TracebackType
from typing import Any, Final, Generic

import msgspec
from msgspec import Struct

from raykeeper.client.errors import BadArgumentsError, InvalidValueError
from raykeeper.client.ray_tools.tool import Tool
from raykeeper.client.recipes.primitives import checked_bytes
from raykeeper.client.recipes.recipe import Awaited, Blocking, FlowRunner, K
from raykeeper.client.recipes.rendezvous import SIZE_MAX, BrokenEvent, Generation
from raykeeper.client.recipes.rendezvous import Rendezvous as Meetings

BACKLOG: Final = SIZE_MAX
"""How many peers may be early."""


class Address(Struct, frozen=True):
    """Where one of those who met listens."""

    host: str
    port: int
    data: bytes = b""
    """What it said beside."""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Address).decode


class RendezvousResult(Generic[K]):
    """A meeting, and the socket that this participant brought. Leave it, or use it as a block."""

    def __init__(self, meeting: Generation[K], own: socket.socket) -> None:
        """Use `Rendezvous.meet`."""
        self.meeting: Generation[K] = meeting
        self.socket = own
        """Bound and listening; who takes it over detaches it."""
        self.rank = meeting.rank
        self.generation = meeting.generation
        self.broken: BrokenEvent[K] = meeting.broken
        """Set when somebody of them has left or died."""

    @property
    def addresses(self) -> list[Address]:
        """Of all, in the order of their ranks.

        Raises:
            InvalidValueError: one of them brought none, so it is no tool like this one.
        """
        meeting = self.meeting
        return [_address_of(meeting._root, each.data) for each in meeting.members]

    def __enter__(self: "RendezvousResult[Blocking]") -> "RendezvousResult[Blocking]":
        return self

    def __exit__(
        self: "RendezvousResult[Blocking]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()
        self.meeting._client._run_flow(self.meeting._release(), "leave")

    async def __aenter__(self: "RendezvousResult[Awaited]") -> "RendezvousResult[Awaited]":
        return self

    async def __aexit__(
        self: "RendezvousResult[Awaited]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()
        await self.meeting._client._run_flow(self.meeting._release(), "leave")


class Rendezvous(Tool):
    """A rendezvous of so many with addresses, by name. It pickles; see the module."""

    def __init__(
        self, ensemble: str, path: str, size: int, session_timeout_s: float = 10.0
    ) -> None:
        """Nothing is asked of the ensemble yet.

        Args:
            ensemble: Its name.
            path: Of the rendezvous.
            size: How many meet: from 1 to 500. All must say the same.
            session_timeout_s: How long one that was cut off counts as being there.

        Raises:
            BadArgumentsError: an argument is not acceptable.
        """
        super().__init__(ensemble, path, session_timeout_s)
        if type(size) is not int or not 1 <= size <= SIZE_MAX:
            raise BadArgumentsError(path, f"size must be 1 to {SIZE_MAX}, not {size!r}")
        self.size = size

    def _on(self, client: FlowRunner, address: Address) -> Meetings[Any]:
        """The rendezvous with an address that the caller listens at, of a client that it has."""
        return Meetings(client, self.path, self.size, _encode(address))

    def meet(
        self,
        timeout_s: float | None = None,
        *,
        host: str | None = None,
        port: int = 0,
        data: bytes = b"",
    ) -> RendezvousResult[Blocking]:
        """Listen at a port, publish it, and wait until all have met.

        Args:
            timeout_s: How long to wait for the others; None for ever.
            host: The address to listen at and to publish; None for that of the node.
            port: 0 for one that is free.
            data: What else the others see.

        Raises:
            WaitTimeoutError: not all came, or the last generation went on; nothing is left behind.
            OSError: that cannot be listened at.
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        client = self._get_client()
        own, address = listen(host, port, data)
        try:
            flow = self._on(client, address)._acquire_within(timeout_s)
            meeting: Generation[Blocking] = client._run_flow(flow, "meet")
        except BaseException:
            own.close()
            raise
        return RendezvousResult(meeting, own)

    async def meet_async(
        self,
        timeout_s: float | None = None,
        *,
        host: str | None = None,
        port: int = 0,
        data: bytes = b"",
    ) -> RendezvousResult[Awaited]:
        """`meet`, to be awaited in any event loop; the block is an `async with`.

        Raises:
            WaitTimeoutError: not all came, or the last generation went on; nothing is left behind.
            OSError: that cannot be listened at.
            KeeperError: as for every call.
        """
        awaiting = await self._get_client_async()
        own, address = listen(host, port, data)
        try:
            flow = self._on(awaiting, address)._acquire_within(timeout_s)
            meeting: Generation[Awaited] = await awaiting._run_flow(flow, "meet")
        except BaseException:
            own.close()
            raise
        return RendezvousResult(meeting, own)


def listen(host: str | None, port: int, data: bytes = b"") -> tuple[socket.socket, Address]:
    """A socket that listens, and where.

    Raises:
        OSError: that cannot be listened at.
    """
    checked_bytes("data", data)
    if host is None:
        import ray.util

        host = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    own = socket.create_server((host, port), family=family, backlog=BACKLOG)
    return own, Address(host, own.getsockname()[1], data)


def _address_of(path: str, data: bytes) -> Address:
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"{path}: one who met brought no address: {error}") from None
