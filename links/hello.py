"""The first messages on a link: who dials, who answers, and which incarnation each one is.

Rule D1: two live instances of one named actor do happen, so every hello carries the incarnation
number that its server raised on disk at its start, and the higher one fences the lower. `Fence`
owns that invariant: of one server only the newest incarnation seen is ever admitted.
"""

from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct

from raykeeper.links.limits import HELLO_BYTES_MAX
from raykeeper.links.processes import Process
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ServerId

LINK_VERSION_MIN: Final = 1
LINK_VERSION: Final = 1
"""The versions of links that this program speaks: its own, and the one before. Both ends agree on
the newest that both speak; docs/UPGRADING.md says how to add one."""

assert LINK_VERSION_MIN <= LINK_VERSION <= LINK_VERSION_MIN + 1


class LinkKind(IntEnum):
    """The kind of a dialer."""

    PEER = 1
    CLIENT = 2


class Hello(Struct, frozen=True, array_like=True, tag=1):
    """The dialer's introduction. A client has server id 0 and incarnation 0.

    `version` is the oldest link version that the dialer speaks, and `version_max` the newest; 0 if
    that is the same, as in the hellos of programs that speak one alone.
    `ensemble` is the uuid of the ensemble; a client that does not know it yet leaves it empty.
    `host`: the address of a client, as it says itself, "" when it does not say.
    `link`: a number that the dialer drew for a link over Ray calls that may move to a stream, and
    repeats on the stream to which it moves (links/upgradable_link.py); 0 for any other link.
    `process`: the process of a client, None outside of Ray. The server may learn that it is dead.
    """

    version: int
    kind: LinkKind
    ensemble: str
    server_id: ServerId
    incarnation: int
    host: str = ""
    link: int = 0
    process: Process | None = None
    version_max: int = 0


class Welcome(Struct, frozen=True, array_like=True, tag=2):
    """The answer that opens the link, with its version and the name of the acceptor."""

    version: int
    server_id: ServerId
    incarnation: int


class Refusal(Struct, frozen=True, array_like=True, tag=3):
    """The answer that refuses the link, with the reason."""

    reason: str


encode_hello = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(Welcome | Refusal).decode
_decode_hello = msgspec.msgpack.Decoder(Hello).decode


def client_hello(ensemble: str = "", host: str = "", process: Process | None = None) -> Hello:
    """Return the hello of a client at `host`, of an ensemble whose uuid it may not know."""
    return Hello(
        *(LINK_VERSION_MIN, LinkKind.CLIENT, ensemble, ServerId(0), 0, host),
        process=process,
        version_max=LINK_VERSION,
    )


def peer_hello(ensemble: str, server_id: ServerId, incarnation: int) -> Hello:
    """Return the hello of a server."""
    return Hello(
        *(LINK_VERSION_MIN, LinkKind.PEER, ensemble, server_id, incarnation),
        version_max=LINK_VERSION,
    )


def decode_hello(data: bytes) -> Hello | None:
    """Decode a hello, of whatever version; None if it is none."""
    if len(data) > HELLO_BYTES_MAX:
        return None
    try:
        return _decode_hello(data)
    except DECODE_ERRORS:
        return None


def agreed_version(hello: Hello) -> int:
    """Return the newest link version that both ends speak, 0 if there is none."""
    newest = min(LINK_VERSION, max(hello.version, hello.version_max))
    return newest if newest >= max(LINK_VERSION_MIN, hello.version) else 0


def version_problem(hello: Hello) -> str:
    """Return why the ends of a link do not understand each other, "" if they do."""
    if agreed_version(hello):
        return ""
    theirs = f"{hello.version} to {max(hello.version, hello.version_max)}"
    return (
        f"the dialer speaks link versions {theirs}, and this server {LINK_VERSION_MIN} to "
        f"{LINK_VERSION}; use programs of the same or of consecutive versions"
    )


def refusal_reason(hello: Hello, ensemble: str) -> str:
    """Return why a server of `ensemble` must refuse this hello, or "" if it need not."""
    unknown_to_client = hello.kind is LinkKind.CLIENT and not hello.ensemble
    if hello.ensemble != ensemble and not unknown_to_client:
        return f"this server belongs to ensemble {ensemble}, not to {hello.ensemble or '(none)'}"
    return ""


class Fence:
    """The newest incarnation seen of each server."""

    def __init__(self) -> None:
        self._newest: dict[ServerId, int] = {}

    def admit(self, server: ServerId, incarnation: int) -> bool:
        """Return whether no newer incarnation of `server` was seen; if so, remember this one."""
        if incarnation < self._newest.get(server, 0):
            return False
        self._newest[server] = incarnation
        return True

    def newest(self) -> dict[ServerId, int]:
        """Return the newest incarnation seen of each server."""
        return dict(self._newest)

    def refusal_reason(self, server: ServerId, incarnation: int) -> str:
        """Admit the incarnation and return "", or return why it must be refused."""
        if self.admit(server, incarnation):
            return ""
        newest = self._newest[server]
        return f"incarnation {incarnation} of server {server} was fenced by incarnation {newest}"
