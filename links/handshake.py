"""The checks of both ends of a new link, the same for every carrier.

dialer                                  acceptor
finds the server
Hello, keepalive_ms             ->      `read_hello`; the acceptor takes the link or not
                                <-      Welcome or Refusal
`LinkDialer.check_answer`
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from raykeeper.links.contract import Acceptor, LinkRefused, LinkUnreachable, summarize_error
from raykeeper.links.hello import (
    LINK_VERSION,
    LINK_VERSION_MIN,
    Fence,
    Hello,
    LinkKind,
    Refusal,
    Welcome,
    agreed_version,
    decode_answer,
    decode_hello,
    encode_hello,
    version_problem,
)
from raykeeper.links.limits import (
    GRACE_MS,
    KEEPALIVE_MS_MAX,
    KEEPALIVE_MS_MIN,
    PEER_QUEUE_BYTES_MAX,
    QUEUE_BYTES_MAX,
)
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ServerId

T = TypeVar("T")

NOT_A_HELLO: Final = Refusal("not a hello")


def read_hello(data: bytes) -> Hello | Refusal:
    """Return the dialer's hello, or how to refuse it."""
    hello = decode_hello(data)
    if hello is None:
        return NOT_A_HELLO
    problem = version_problem(hello)
    return Refusal(problem) if problem else hello


def welcome_from(acceptor: Acceptor, hello: Hello) -> Welcome:
    """Return the answer of an acceptor that has taken the link of `hello`."""
    return Welcome(agreed_version(hello), acceptor.server_id, acceptor.incarnation)


def allowed_keepalive_s(asked_ms: int) -> float:
    """Return the keepalive interval that a dialer asked for, within the bounds, in seconds."""
    return min(max(asked_ms, KEEPALIVE_MS_MIN), KEEPALIVE_MS_MAX) / 1000


def acceptor_queue_bytes(kind: LinkKind, client_queue_bytes_max: int) -> int:
    """Return how many bytes may wait at the acceptor's end of a link."""
    return PEER_QUEUE_BYTES_MAX if kind is LinkKind.PEER else client_queue_bytes_max


class LinkDialer:
    """The base of the dialers of all carriers."""

    def __init__(
        self,
        find: Callable[[ServerId], Awaitable[Any]],
        hello: Hello,
        keepalive_ms: int,
        *,
        fence: Fence | None = None,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        grace_ms: int = GRACE_MS,
    ) -> None:
        """Introduce every link with `hello`.

        Args:
            find: Looks up how to reach a server: its actor's handle for Ray calls, its
                `StreamAddress`, or None if it does not listen, for streams. Any exception means
                that the server cannot be reached.
            hello: Names the dialer.
            keepalive_ms: How often an idle link shows that it is alive, at both ends.
            fence: Of the dialer's owner; answers of fenced incarnations are refused.
            queue_bytes_max: How many bytes may wait on a link before it breaks.
            grace_ms: How much later than the keepalive interval a sign of life or an answer may
                come.
        """
        self._find = find
        self._hello = hello
        self._keepalive_ms = keepalive_ms
        self._fence = fence or Fence()
        self._queue_bytes_max = queue_bytes_max
        self._grace_s = grace_ms / 1000

    def _encode_hello(self, hello: Hello | None) -> bytes:
        return encode_hello(self._hello if hello is None else hello)

    async def _ask(
        self, server: ServerId, question: Awaitable[T], limit_s: float | None = None
    ) -> T:
        """Await what a server's actor answers, for `limit_s` or else for the grace time.

        Raises:
            LinkUnreachable: the actor was not found, failed, or did not answer in time.
        """
        if limit_s is None:
            limit_s = self._grace_s
        try:
            return await asyncio.wait_for(question, limit_s)
        except TimeoutError:
            raise LinkUnreachable(
                f"server {server} did not answer within {limit_s:.3g} s"
            ) from None
        # Every error of Ray has the same meaning here: no link this time.
        except Exception as error:
            raise LinkUnreachable(f"server {server}: {summarize_error(error)}") from error

    def _check_answer(self, server: ServerId, answer: bytes) -> Welcome:
        """Decode the acceptor's answer.

        Raises:
            LinkRefused: the server said no, is another one, was fenced, or cannot be understood.
        """
        try:
            decoded: Welcome | Refusal = decode_answer(answer)
        except DECODE_ERRORS as error:
            raise LinkRefused(f"server {server} cannot be understood: {error}") from error
        if isinstance(decoded, Refusal):
            raise LinkRefused(f"server {server}: {decoded.reason}")
        if not LINK_VERSION_MIN <= decoded.version <= LINK_VERSION:
            raise LinkRefused(
                f"server {server} chose link version {decoded.version}, and this program speaks "
                f"{LINK_VERSION_MIN} to {LINK_VERSION}"
            )
        if decoded.server_id != server:
            raise LinkRefused(f"server {decoded.server_id} answered instead of server {server}")
        if reason := self._fence.refusal_reason(server, decoded.incarnation):
            raise LinkRefused(reason)
        return decoded
