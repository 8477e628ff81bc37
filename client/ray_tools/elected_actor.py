"""A service of several actors, of which exactly one acts; a standby takes over from it.

    jobs = ElectedActor("coord", "/services/jobs", JobServer, candidates=3)
    jobs.start()                                # actors on as many nodes as there are
    jobs.call("submit", "a job")                # from anywhere: it pickles
    await jobs.call_async("submit", "a job")

It replaces a named actor with `get_if_exists` and `max_restarts`. Two instances of such an actor
can be alive and answer at once, when the node of one only seemed to be dead, and nobody can tell
whose writes are the newer ones.

The ensemble tells callers about a new leader as soon as there is one; nobody polls named actors.
The class may take `leadership` as an argument: its `epoch` and `token` fence the instance's writes
(`Transaction.when_held`, `FencedResource`), and `leadership.lost.check()` checks that it still
leads.

The invariants: an instance is made for one leadership, and answers only while that lasts
(candidate.py); a call that reaches any other candidate is not begun and goes to the leader. Each
service makes one of two promises about its calls:

-   `at_most_once`: a call is sent again only if it surely was not begun. If its leader dies or is
    deposed meanwhile, the caller gets DeposedError, and nobody knows how far the call came.
-   `at_least_once`: a call is sent again until it is answered; a method may have run several times,
    each time but the last in an epoch that is over.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from raykeeper.client.async_flow_runner import AsyncFlowRunner
from raykeeper.client.call_forms import awaited_call
from raykeeper.client.client import Client
from raykeeper.client.errors import (
    BadArgumentsError,
    ClosedError,
    DeposedError,
    InvalidValueError,
    RayKeeperError,
    RayUnavailableError,
    WaitTimeoutError,
)
from raykeeper.client.loop_thread import refuse_running_loop, shared_loop
from raykeeper.client.ray_lookups import ask_ray, find_actors
from raykeeper.client.ray_tools.candidate import (
    CallOutcome,
    Candidate,
    CandidateSpec,
    Identity,
    decode_identity,
)
from raykeeper.client.ray_tools.tool import Tool
from raykeeper.client.recipes.election import Election, Leader
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.links.daemon_threads import SharedCall, to_daemon_thread

NAMESPACE: Final = "raykeeper-elected"
CANDIDATES_MAX: Final = 100
RESEND_DELAY_S: Final = 1.0
"""The pause before a call is sent again to a leader that does not answer, as Ray says."""

Promise = Literal["at_most_once", "at_least_once"]


class LeaderView:
    """The leader of an election, as one session knows it, for coroutines of any loop."""

    def __init__(self, client: Client, path: str) -> None:
        """Read the leader from the ensemble, and block meanwhile.

        Raises:
            InvalidValueError: the value of the znode is not one of an election.
            KeeperError: as for every call.
        """
        self.client = client
        self._observation = Election(client, path).observe(lambda leader: None)

    @property
    def leader(self) -> Leader | None:
        """The leader; None while nobody leads."""
        return self._observation._leader

    @property
    def is_over(self) -> bool:
        """Whether no change will be reported, for example as somebody wrote an invalid record."""
        return self._observation.is_over or self.client._is_lost()

    async def change(self, seen: Leader | None) -> None:
        """Wait until the leader differs from `seen`, or this view is over."""
        changing = self._observation._wait_until(lambda: self.leader != seen)
        with suppress(RayKeeperError):  # it is over
            await AsyncFlowRunner(self.client)._run_flow(changing, "change")


class ElectedActor(Tool):
    """A service of one elected actor, for its starter and its callers. It pickles."""

    _viewing: threading.Lock
    _view: LeaderView | None
    _handles: dict[str, Any]
    _look_up: SharedCall[Any]
    _started: dict[str, Any]
    _is_stopped: bool

    def __init__(
        self,
        ensemble: str,
        path: str,
        make: Callable[..., Any] | None = None,
        *args: Any,
        candidates: int = 2,
        promise: Promise = "at_most_once",
        call_timeout_s: float = 30.0,
        session_timeout_s: float = 10.0,
        actor_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Create the tool; start no actor, and send no request to the ensemble.

        Args:
            ensemble: The name of the ensemble.
            path: The path of the election.
            make: The class whose instance serves; None to call only. A class with coroutine methods
                runs on an event loop, any other class in a thread, one call after the other.
            *args: Positional arguments of the class.
            candidates: The number of actors that stand for election.
            promise: What happens to a call whose answer was lost: see docs/RECIPES.md.
            call_timeout_s: How long a call may take; finding the leader and sending again count.
            session_timeout_s: How long a leader that was cut off holds up its successor.
            actor_options: Ray's options for the candidates. The defaults are `max_restarts=-1`,
                `num_cpus=0` and to be spread over the nodes; with `lifetime="detached"` the
                candidates outlive the program that starts them.
            **kwargs: Keyword arguments of the class.

        Raises:
            BadArgumentsError: an argument is not acceptable.
        """
        super().__init__(ensemble, path, session_timeout_s)
        if type(candidates) is not int or not 1 <= candidates <= CANDIDATES_MAX:
            raise BadArgumentsError(path, f"candidates must be 1 to {CANDIDATES_MAX}")
        if promise not in ("at_most_once", "at_least_once"):
            raise BadArgumentsError(path, f"unknown promise: {promise!r}")
        self._actor_class = (make, args, kwargs)
        self._candidates = candidates
        self._promise = promise
        self._call_timeout_s = call_timeout_s
        self._actor_options = dict(actor_options or {})

    def start(self) -> None:
        """Start the candidates that do not run yet.

        Any process may call this, again and again, and after `stop`.

        Raises:
            ClosedError: the tool was closed in this process, and not by `stop`.
            BadArgumentsError: the tool was made without a class.
            RayUnavailableError: Ray does not answer in time. Starting them again is safe.
            WrongContextError: in an event loop.
        """
        import ray

        refuse_running_loop("start")
        make, args, kwargs = self._actor_class
        if make is None:
            raise BadArgumentsError(self.path, "this ElectedActor has no class to start")
        self._reopen()
        self._get_client()  # joins the cluster, and fails here rather than in the candidates
        actor: Any = ray.remote(Candidate)
        for name in self._names():
            spec = CandidateSpec(
                self.ensemble, self.path, name, self._session_timeout_s, make, args, kwargs
            )
            options = {
                "num_cpus": 0,
                "max_restarts": -1,
                "scheduling_strategy": "SPREAD",
                **self._actor_options,
                "name": name,
                "namespace": NAMESPACE,
                "get_if_exists": True,
                "max_task_retries": 0,
            }
            # Ray ends an actor that is not detached when the last handle is dropped.
            start = actor.options(**options).remote
            self._started[name] = ask_ray(f"the start of {name}", start, spec)

    def stop(self) -> None:
        """End all candidates, and this process's session. All that they hold is given back soon.

        Every later call of this object raises ClosedError, until `start`.

        Raises:
            RayUnavailableError: Ray does not answer in time. Nothing was ended.
            WrongContextError: in an event loop.
        """
        import ray

        refuse_running_loop("stop")
        for candidate in find_actors(self._names(), NAMESPACE).values():
            ray.kill(candidate)
        self._started.clear()
        self.close()
        self._is_stopped = True

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the leader, as promised, and wait for its answer.

        Args:
            method: The name of the method.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Raises:
            DeposedError: its leader died or was deposed meanwhile; only if promised at most once.
            WaitTimeoutError: there was no answer in time; the text says whether the call was sent.
            WrongContextError: in an event loop.
            KeeperError: there is no session from which to learn the leader.
            Exception: any error that the method raised, as Ray passes it on.
        """
        refuse_running_loop("call", "use `await ....call_async(...)` there")
        self._get_view()
        calling = self.call_async(method, *args, **kwargs)
        future: Future[Any] = asyncio.run_coroutine_threadsafe(calling, shared_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @awaited_call
    async def call_async(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """`call`, to be awaited in any event loop. Calls may overtake each other.

        Raises:
            DeposedError: its leader died or was deposed meanwhile; only if promised at most once.
            WaitTimeoutError: there was no answer in time; the text says whether the call was sent.
            KeeperError: there is no session from which to learn the leader.
            Exception: any error that the method raised, as Ray passes it on.
        """
        call = _Call(method, args, kwargs)
        bound = asyncio.timeout(self._call_timeout_s)
        try:
            async with bound:
                return await self._until_answered(call)
        except TimeoutError:
            if not bound.expired():
                raise
        sent = "it was sent, and may have had an effect" if call.is_sent else "it was not sent"
        raise WaitTimeoutError(f"{self.path}: no answer to {method}() in time; {sent}")

    def leader(self) -> Leader | None:
        """Return the leader, with its `epoch` and `token`; None while nobody leads.

        See `Election.leader`.

        Raises:
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        election: Election[Blocking] = Election(self._get_client(), self.path)
        return election.leader()

    async def _until_answered(self, call: "_Call") -> Any:
        while True:
            view = await self._get_view_async()
            leader = view.leader
            if leader is None:
                await view.change(None)
                continue
            answer, value = await self._send(call, leader, view)
            match answer:
                case CallOutcome.RETURNED:
                    return value
                case CallOutcome.NOT_STARTED:
                    await view.change(leader)
                case CallOutcome.DEPOSED:
                    if self._promise == "at_most_once":
                        raise DeposedError(
                            f"{self.path}: the leader of epoch {leader.epoch} died or was deposed "
                            f"while it served {call.method}()"
                        )
                    # Another candidate will lead, unless Ray failed to reach this one only briefly.
                    with suppress(TimeoutError):
                        await asyncio.wait_for(view.change(leader), RESEND_DELAY_S)

    async def _send(
        self, call: "_Call", leader: Leader, view: LeaderView
    ) -> tuple[CallOutcome, Any]:
        """Send the call to a leader, and wait for the answer, or until another candidate leads."""
        from ray.exceptions import RayActorError, RayTaskError

        identity = _identity_of(self.path, leader)
        handle = await self._find(identity.actor, leader, view)
        if handle is None:
            return CallOutcome.NOT_STARTED, None
        call.is_sent = True
        ref = handle.serve.remote(identity.life, leader.epoch, call.method, call.args, call.kwargs)
        answering = asyncio.ensure_future(_result_of(ref))
        changing = asyncio.ensure_future(view.change(leader))
        try:
            await asyncio.wait({answering, changing}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and view.client._is_lost():
                await asyncio.wait({answering})  # without a session we hear of no new leader
            if not answering.done():
                return CallOutcome.DEPOSED, None
            answer, value = answering.result()
            return CallOutcome(answer), value
        except RayActorError as error:
            if isinstance(error, RayTaskError):
                raise  # the method raised it about another actor
            # Ray raises this for calls that were sent and for calls that were not.
            self._handles.pop(identity.actor, None)
            return CallOutcome.DEPOSED, None
        finally:
            changing.cancel()
            answering.cancel()

    async def _find(self, actor: str, leader: Leader, view: LeaderView) -> Any:
        """Return the leader's handle; None if Ray knows none, or another candidate leads by now."""
        handle = self._handles.get(actor)
        while handle is None:
            try:
                return await self._look_up(actor)
            except RayUnavailableError:
                with suppress(TimeoutError):
                    await asyncio.wait_for(view.change(leader), RESEND_DELAY_S)
                    return None
        return handle

    def _handle(self, actor: str) -> Any:
        """Return the handle of the actor of that name; None if Ray knows none.

        Raises:
            RayUnavailableError: Ray does not answer in time.
        """
        handle = find_actors([actor], NAMESPACE).get(actor)
        if handle is not None:
            self._handles[actor] = handle
        return handle

    async def _get_view_async(self) -> LeaderView:
        view = self._view
        if view is not None and view.client is self._current() and not view.is_over:
            return view
        return await to_daemon_thread(self._get_view)

    def _get_view(self) -> LeaderView:
        client = self._get_client()
        with self._viewing:
            if self._view is None or self._view.client is not client or self._view.is_over:
                self._view = LeaderView(client, self.path)
            return self._view

    def _reset(self) -> None:
        super()._reset()
        self._viewing = threading.Lock()
        self._view = None
        self._handles = {}
        self._look_up = SharedCall(self._handle)
        self._started = {}
        self._is_stopped = False

    def _reopen(self) -> None:
        """Allow a start after `stop`, which has closed the tool."""
        if self._is_stopped:
            self._is_stopped = self._is_closed = False

    def _check_open(self) -> None:
        if self._is_stopped:
            raise ClosedError(self.path, "the elected actor was stopped")
        super()._check_open()

    def _names(self) -> list[str]:
        return [f"{self.ensemble}{self.path}/{n}" for n in range(self._candidates)]


class _Call(Struct):
    """A call under way."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_sent: bool = False


async def _result_of(ref: Any) -> Any:
    return await ref


def _identity_of(path: str, leader: Leader) -> Identity:
    try:
        return decode_identity(leader.identifier)
    except msgspec.MsgspecError:
        raise InvalidValueError(f"the leader of {path} is no elected actor") from None
