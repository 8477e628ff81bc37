"""A candidate of an elected actor: it stands for election, and serves calls while it leads.

A leader serves an instance of the user's class. It makes the instance when it wins the election,
and drops it with the leadership, so nothing of an older epoch is ever served. The invariant of this
file: a candidate answers a call only if it leads at the beginning and at the end of the call, in
the epoch that the caller meant. A deposed leader ends its process, because nothing else surely
stops what a method has begun; Ray starts the actor again, and it stands for election behind the
others.

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
"""The pause after an attempt that could not make an instance or reach the ensemble."""


class CallOutcome(IntEnum):
    """The outcome of a call."""

    RETURNED = 1
    """The method returned, and its candidate led all the time."""
    NOT_STARTED = 2
    """The candidate does not lead in that epoch; the method was not called."""
    DEPOSED = 3
    """The leadership was lost before the method returned: its writes may have been refused."""


class Identity(Struct, frozen=True):
    """The identity that a candidate shows in the election."""

    actor: str
    """The actor's name in Ray."""
    life: str
    """A random text for each session: an actor that was started again differs from its old self."""


encode_identity: Final = msgspec.json.Encoder().encode
decode_identity: Final = msgspec.json.Decoder(Identity).decode


class CandidateSpec(Struct, frozen=True):
    """The service for which a candidate stands. It pickles."""

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
        spec: CandidateSpec,
        connect: Callable[..., Awaitable[AsyncClient]] | None = None,
        end: Callable[[], object] | None = None,
    ) -> None:
        """`connect` opens a session, `end` ends the process; each has its default."""
        self._spec = spec
        self._connect = connect or AsyncClient.connect
        self._end = end or _end_process
        self._identity = Identity(spec.actor, uuid.uuid4().hex)
        self._term: LeaderTerm | None = None
        self._ended_epoch = 0  # calls of epochs up to this one do not wait for us to lead
        self._term_changed = asyncio.Condition()
        self._campaign_task = asyncio.get_running_loop().create_task(self._campaign_forever())

    async def serve(
        self, life: str, epoch: int, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[CallOutcome, Any]:
        """Call a method of the instance, if this process leads in that epoch.

        Raises:
            Exception: any error that the method raised.
        """
        if life != self._identity.life:
            return CallOutcome.NOT_STARTED, None
        # The caller may have heard from the ensemble that we were elected before we have.
        async with self._term_changed:
            await self._term_changed.wait_for(lambda: self._is_outcome_known(life, epoch))
        term = self._term
        if term is None or term.epoch != epoch or term.leadership.lost.is_set():
            return CallOutcome.NOT_STARTED, None
        try:
            value = await term.call(method, args, kwargs)
        except Exception:
            if term.leadership.lost.is_set():
                return CallOutcome.DEPOSED, None
            raise
        if term.leadership.lost.is_set():
            return CallOutcome.DEPOSED, None
        return CallOutcome.RETURNED, value

    async def pid(self) -> int:
        """Return the id of the candidate's process, for tests and people."""
        return os.getpid()

    def _is_outcome_known(self, life: str, epoch: int) -> bool:
        """Return whether this candidate knows if it leads in that epoch."""
        if self._ended_epoch >= epoch or life != self._identity.life:
            return True
        return self._term is not None and self._term.epoch >= epoch

    async def _campaign_forever(self) -> None:
        while True:
            try:
                await self._campaign()
            except RayKeeperError as error:
                log.warning("candidate %s stands for election again: %s", self._spec.actor, error)
            # After any error of the user's class another candidate gets its chance, then we again.
            except Exception:
                log.exception("candidate %s stands for election again", self._spec.actor)
            await asyncio.sleep(RETRY_DELAY_S)

    async def _campaign(self) -> None:
        spec = self._spec
        # The identity is new for each session: callers that wait for an election that an earlier
        # session of ours won are told at once that their call was not begun.
        self._identity = Identity(spec.actor, uuid.uuid4().hex)
        await self._set_term(None, 0)  # epochs begin anew if somebody deletes the election
        identifier = encode_identity(self._identity)
        connecting = self._connect(spec.ensemble, spec.session_timeout_s)
        async with await connecting as client:
            leadership = await client.election(spec.path, identifier).lead()
            try:
                term = LeaderTerm(leadership)
                await term.create_instance(spec)
            except Exception:
                await self._set_term(None, leadership.epoch)
                await leadership.resign()
                raise
            await self._set_term(term, leadership.epoch - 1)
            await leadership.lost.wait()
            log.error("%s was deposed in epoch %s: it ends", spec.actor, leadership.epoch)
            self._end()
            await self._set_term(None, leadership.epoch)

    async def _set_term(self, term: "LeaderTerm | None", over: int) -> None:
        async with self._term_changed:
            self._term, self._ended_epoch = term, over
            self._term_changed.notify_all()


class LeaderTerm:
    """A leadership and the instance that serves in it.

    As with Ray's own actors, a class with coroutine methods runs on the event loop; any other class
    runs in a thread of its own, one call after the other.
    """

    def __init__(self, leadership: Leadership[Awaited]) -> None:
        self.leadership = leadership
        self.epoch = leadership.epoch
        self._thread = ThreadPoolExecutor(1, "raykeeper-elected")
        self._is_async = False
        self._instance: Any = None

    async def create_instance(self, spec: CandidateSpec) -> None:
        """Make the instance.

        Raises:
            Exception: any error that the constructor raised.
        """
        made, kwargs = spec.make, dict(spec.kwargs)
        if "leadership" in inspect.signature(made).parameters:
            kwargs["leadership"] = self.leadership
        self._is_async = any(
            inspect.iscoroutinefunction(each) for _, each in inspect.getmembers(made)
        )
        self._instance = await self._run(made, spec.args, kwargs)

    async def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the instance.

        Raises:
            Exception: any error that the method raised; AttributeError if there is no such method.
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
