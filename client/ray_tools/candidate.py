"""One of the actors of which one is elected: it stands for election, and serves while it leads.

What is served is an instance of the user's class, made when the election is won and gone with the
leadership, so nothing of an older epoch is ever served. The invariant of this file: an answer is
given only by who leads at the beginning and at the end of the call, in the epoch that the caller
meant. Who is deposed ends its process, for nothing else surely stops what a method has begun; Ray
starts it again, and it stands for election behind the others.

This is a plain class; `ElectedActor` makes it an actor.
"""

import asyncio
import inspect
import logging
import os
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.errors import RayKeeperError
from raykeeper.client.recipes.election import Leadership
from raykeeper.client.recipes.recipe import Awaited

log = logging.getLogger("raykeeper.client")

RETRY_DELAY_S: Final = 1.0
"""Between two attempts, when an instance cannot be made or the ensemble cannot be reached."""


class CallOutcome(IntEnum):
    """What became of a call."""

    RETURNED = 1
    """The method returned, and its candidate led all the time."""
    NOT_STARTED = 2
    """The candidate does not lead in that epoch; the method was not called."""
    DEPOSED = 3
    """The leadership was lost before the method returned: what it did may have been refused."""


class Identity(Struct, frozen=True):
    """What a candidate shows in the election."""

    actor: str
    """Its name in Ray."""
    life: str
    """Drawn for each session, so that an actor that was started again is not taken for the old."""


encode_identity: Final = msgspec.json.Encoder().encode
decode_identity: Final = msgspec.json.Decoder(Identity).decode


class CandidateSpec(Struct, frozen=True):
    """What a candidate stands for. It pickles."""

    ensemble: str
    path: str
    actor: str
    session_timeout_s: float
    make: Callable[..., Any]
    """The user's class."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


class Candidate:
    """A candidate; its methods are those of an async actor."""

    def __init__(
        self,
        post: CandidateSpec,
        connect: Callable[..., Awaitable[AsyncClient]] | None = None,
        end: Callable[[], object] | None = None,
    ) -> None:
        """`connect` opens a session, `end` ends the process; each has its default."""
        self._spec = post
        self._connect = connect or AsyncClient.connect
        self._end = end or _end_process
        self._identity = Identity(post.actor, uuid.uuid4().hex)
        self._term: LeaderTerm | None = None
        self._ended_epoch = 0  # epochs up to this one are no more ours to wait for
        self._term_changed = asyncio.Condition()
        self._campaign_task = asyncio.get_running_loop().create_task(self._campaign_forever())

    async def serve(
        self, life: str, epoch: int, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[CallOutcome, Any]:
        """Call a method of the instance, if this process leads in that epoch.

        Raises:
            Exception: what the method raised.
        """
        if life != self._identity.life:
            return CallOutcome.NOT_STARTED, None
        # The ensemble may have told the caller of our election before it told us.
        async with self._term_changed:
            await self._term_changed.wait_for(lambda: self._is_outcome_known(life, epoch))
        reign = self._term
        if reign is None or reign.epoch != epoch or reign.leadership.lost.is_set():
            return CallOutcome.NOT_STARTED, None
        try:
            value = await reign.call(method, args, kwargs)
        except Exception:
            if reign.leadership.lost.is_set():
                return CallOutcome.DEPOSED, None
            raise
        if reign.leadership.lost.is_set():
            return CallOutcome.DEPOSED, None
        return CallOutcome.RETURNED, value

    async def pid(self) -> int:
        """Of its process, for tests and people."""
        return os.getpid()

    def _is_outcome_known(self, life: str, epoch: int) -> bool:
        """Whether it is known if we lead in that epoch."""
        if self._ended_epoch >= epoch or life != self._identity.life:
            return True
        return self._term is not None and self._term.epoch >= epoch

    async def _campaign_forever(self) -> None:
        while True:
            try:
                await self._campaign()
            except RayKeeperError as error:
                log.warning("candidate %s stands for election again: %s", self._spec.actor, error)
            # Whatever the user's class raises, another candidate gets its chance, then we again.
            except Exception:
                log.exception("candidate %s stands for election again", self._spec.actor)
            await asyncio.sleep(RETRY_DELAY_S)

    async def _campaign(self) -> None:
        post = self._spec
        # Of the session, in truth: an election that was won in vain is not ours to wait for.
        self._identity = Identity(post.actor, uuid.uuid4().hex)
        await self._set_term(None, self._ended_epoch)
        identifier = encode_identity(self._identity)
        connecting = self._connect(post.ensemble, post.session_timeout_s)
        async with await connecting as client:
            leadership = await client.election(post.path, identifier).lead()
            try:
                reign = LeaderTerm(leadership)
                await reign.create_instance(post)
            except Exception:
                await self._set_term(None, leadership.epoch)
                await leadership.resign()
                raise
            await self._set_term(reign, leadership.epoch - 1)
            await leadership.lost.wait()
            log.error("%s was deposed in epoch %s: it ends", post.actor, leadership.epoch)
            self._end()
            await self._set_term(None, leadership.epoch)

    async def _set_term(self, reign: "LeaderTerm | None", over: int) -> None:
        async with self._term_changed:
            self._term, self._ended_epoch = reign, over
            self._term_changed.notify_all()


class LeaderTerm:
    """A leadership and the instance that serves in it.

    As with Ray's own actors, a class with coroutine methods runs on the event loop, any other one
    in a thread of its own, one call after the other.
    """

    def __init__(self, leadership: Leadership[Awaited]) -> None:
        self.leadership = leadership
        self.epoch = leadership.epoch
        self._thread = ThreadPoolExecutor(1, "raykeeper-elected")
        self._is_async = False
        self._instance: Any = None

    async def create_instance(self, post: CandidateSpec) -> None:
        """Make the instance.

        Raises:
            Exception: what the constructor raised.
        """
        made, kwargs = post.make, dict(post.kwargs)
        if "leadership" in inspect.signature(made).parameters:
            kwargs["leadership"] = self.leadership
        self._is_async = any(
            inspect.iscoroutinefunction(each) for _, each in inspect.getmembers(made)
        )
        self._instance = await self._run(made, post.args, kwargs)

    async def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method.

        Raises:
            Exception: what it raised; AttributeError if there is none.
        """
        result = await self._run(getattr(self._instance, method), args, kwargs)
        return await result if inspect.isawaitable(result) else result

    async def _run(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._is_async:
            return function(*args, **kwargs)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))


def _end_process() -> None:
    # Not by `ray.actor.exit_actor`, after which Ray would not start it again.
    os._exit(1)
