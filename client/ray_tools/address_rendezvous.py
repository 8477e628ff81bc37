"""A rendezvous that hands out addresses and ports: all participants learn where all listen.

    rendezvous = Rendezvous("coord", "/train/rendezvous", size=4)
    with rendezvous.meet() as met:                      # in each of four actors, or tasks
        met.addresses, met.rank                         # the same list for all; our index in it
        met.socket                                      # bound to met.addresses[met.rank]
        met.broken.check()                              # BrokenBarrierError once one has died

It replaces a named actor into which workers write `(ip, free port)`. Such actors suffer from names
of the last run that are "already taken", from addresses of dead workers, and from ports that were
found free, closed, and taken by other processes before they were used. Here the port is bound
before it is published and stays bound: the socket listens, so a peer that is early waits in its
queue. A participant that needs a port number instead of a socket closes the socket as late as it
can.

The invariants are those of the recipe (recipes/rendezvous.py): all participants of a generation
get the same list, and all of them were there at one moment; the next generation begins only after
one of them has left or died.
"""

import socket
from typing import Any, Final

import msgspec
from msgspec import Struct

from raykeeper.client.core.flows import CallInCaller, Flow
from raykeeper.client.errors import BadArgumentsError, InvalidValueError
from raykeeper.client.ray_tools.tool import Tool, ToolFlow, awaited, tool_operation
from raykeeper.client.recipes.primitives import checked_bytes
from raykeeper.client.recipes.recipe import Awaited, Blocking, ClosableRecipe, FlowRunner, K
from raykeeper.client.recipes.rendezvous import SIZE_MAX, BrokenEvent, Generation
from raykeeper.client.recipes.rendezvous import Rendezvous as Meetings

BACKLOG: Final = SIZE_MAX
"""The number of peers that may connect early."""


class Address(Struct, frozen=True):
    """The address at which one participant listens."""

    host: str
    port: int
    data: bytes = b""
    """Other data that the participant published."""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Address).decode


class RendezvousResult(ClosableRecipe[K]):
    """A generation, and this participant's listening socket, for a `with` block.

    The end of the block closes the socket and leaves the generation.
    """

    _instead = "pass its `addresses` on"

    def __init__(self, meeting: Generation[K], own: socket.socket) -> None:
        """Use `Rendezvous.meet`."""
        super().__init__(meeting._client)
        self.meeting: Generation[K] = meeting
        self.socket = own
        """Bound and listening; code that takes it over detaches it."""
        self.rank = meeting.rank
        self.generation = meeting.generation
        self.broken: BrokenEvent[K] = meeting.broken
        """Set when a participant has left or died."""

    def _repr_parts(self) -> tuple[str, ...]:
        place = f"rank {self.rank} of {len(self.meeting.members)} in generation {self.generation}"
        return self.meeting._root, place, "broken" if self.broken.is_set() else ""

    @property
    def addresses(self) -> list[Address]:
        """The addresses of all participants, in the order of their ranks.

        Raises:
            InvalidValueError: a participant published no address, so it is not of this tool.
        """
        meeting = self.meeting
        return [_address_of(meeting._root, each.data) for each in meeting.members]

    def _release(self) -> Flow[None]:
        self.socket.close()
        yield from self.meeting._release()


class Rendezvous(Tool):
    """A rendezvous of `size` participants with addresses, by name. It pickles.

    docs/RECIPES.md has its guarantees.
    """

    def __init__(
        self, ensemble: str, path: str, size: int, session_timeout_s: float = 10.0
    ) -> None:
        """Create the tool, without a request to the ensemble.

        Args:
            ensemble: The name of the ensemble.
            path: The path of the rendezvous.
            size: The number of participants: from 1 to 500. All must name the same number.
            session_timeout_s: How long a participant that was cut off counts as being there.

        Raises:
            BadArgumentsError: an argument is not acceptable.
        """
        super().__init__(ensemble, path, session_timeout_s)
        if type(size) is not int or not 1 <= size <= SIZE_MAX:
            raise BadArgumentsError(path, f"size must be 1 to {SIZE_MAX}, not {size!r}")
        self.size = size

    def _on(self, client: FlowRunner, address: Address) -> Meetings[Any]:
        """Return the recipe for the caller's client, with the address at which it listens."""
        return Meetings(client, self.path, self.size, _encode(address))

    @tool_operation
    def meet(
        self,
        client: FlowRunner,
        timeout_s: float | None = None,
        *,
        host: str | None = None,
        port: int = 0,
        data: bytes = b"",
    ) -> ToolFlow[RendezvousResult[Blocking], RendezvousResult[Awaited]]:
        """Listen at a port, publish its address, and wait until all have met.

        Args:
            timeout_s: How long to wait for the others; None for ever.
            host: The address to listen at and to publish; None for that of the node.
            port: The port to listen at; 0 for a free one.
            data: Other data to publish.

        Raises:
            WaitTimeoutError: not all came, or the last generation went on; nothing is left behind.
            OSError: the address cannot be listened at.
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        return ToolFlow(self._meet(client, timeout_s, host, port, data))

    meet_async = awaited(meet)
    """`meet`, to be awaited in any event loop; the block is an `async with`."""

    def _meet(
        self, client: FlowRunner, timeout_s: float | None, host: str | None, port: int, data: bytes
    ) -> Flow[Any]:
        # It may ask Ray for the address of the node, which must not hold up the client's loop.
        own, address = yield CallInCaller(listen, (host, port, data))
        try:
            meeting = yield from self._on(client, address)._acquire_within(timeout_s)
        except BaseException:
            own.close()
            raise
        return RendezvousResult(meeting, own)


def listen(host: str | None, port: int, data: bytes = b"") -> tuple[socket.socket, Address]:
    """Open a listening socket; return it and its address.

    Raises:
        OSError: the address cannot be listened at.
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
        raise InvalidValueError(f"{path}: a participant brought no address: {error}") from None
