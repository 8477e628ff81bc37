"""The base of all tools: a path in an ensemble, and in each process a session for it.

A tool is a value: the name of an ensemble, a path, and settings. It pickles as such. A process
opens a session when it first uses the tool, from plain code or from a coroutine, and again when
that session was lost. The session ends with `close`, with the Ray task that opened it, or with the
process; all that it holds ends with it. After `close` the tool cannot be used in that process.

A `tool_operation` is written once, as a method that gets the client and returns a flow. Callers see
it without the client: as a method that blocks, and, under its name with `_async`, as one to await.
All operations raise ClosedError after `close`, the errors of `connect` if they open the session,
and in an event loop, if they block, WrongContextError.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, get_args, overload

from msgspec import Struct

from raykeeper.client import task_sessions
from raykeeper.client.async_flow_runner import AsyncFlowRunner
from raykeeper.client.call_forms import UnawaitedCall, awaited_call
from raykeeper.client.client import Client
from raykeeper.client.connect import connect
from raykeeper.client.context_decorator import context_decorator
from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import ClosedError
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.recipes.acquirable import Acquirable, WithBlocks
from raykeeper.client.recipes.primitives import checked_root
from raykeeper.client.recipes.recipe import FlowRunner
from raykeeper.client.session_options import split_ensemble_name
from raykeeper.client.unexpected_names import unexpected_name
from raykeeper.links.daemon_threads import to_daemon_thread

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
H = TypeVar("H")
AH = TypeVar("AH")


class Tool:
    """A path in an ensemble, and this process's session for it. Safe for threads and tasks."""

    _lock: threading.Lock
    _client: Client | None
    _task: object | None
    _pid: int
    _is_closed: bool

    def __init__(self, ensemble: str, path: str, session_timeout_s: float = 10.0) -> None:
        """Create the tool, without a request to the ensemble.

        Args:
            ensemble: The name of the ensemble, or a path in it; see `connect`.
            path: The path of the tool's own znode; all that name the same path share the tool.
            session_timeout_s: How long the holdings of a process outlive its silence.

        Raises:
            BadArgumentsError: the name or the path is not acceptable.
        """
        split_ensemble_name(ensemble)
        self.ensemble = ensemble
        self.path = checked_root(path)
        self._session_timeout_s = session_timeout_s
        self._reset()

    def _get_client(self) -> Client:
        """Return this process's client, whose session is not lost; open a session if need be.

        Raises:
            ClosedError: the tool was closed in this process.
            WrongContextError: in an event loop, while there is no session.
            EnsembleNotFoundError: there is no such ensemble.
            KeeperError: a session cannot be opened, see `connect`.
        """
        client = self._current()
        if client is not None:
            return client
        self._check_open()
        refuse_running_loop("the first use of a tool")
        with self._lock:
            self._check_open()
            client = self._current()
            if client is None:
                old, self._client = self._client, None
                if old is not None and self._pid == os.getpid():
                    old._open_session().close_soon()  # lost, or of an earlier task
                task = task_sessions.running_task()
                client = connect(self.ensemble, self._session_timeout_s)
                self._task, self._pid = task, os.getpid()
                self._client = client
            return client

    async def _get_client_async(self) -> AsyncFlowRunner:
        """Do the same as `_get_client`, for coroutines.

        Raises:
            ClosedError: the tool was closed in this process.
            EnsembleNotFoundError: there is no such ensemble.
            KeeperError: a session cannot be opened, see `connect`.
        """
        client = self._current()
        if client is None:
            self._check_open()
            client = await to_daemon_thread(self._get_client)
        return AsyncFlowRunner(client)

    def close(self) -> None:
        """End this process's session, if there is one; all that it holds is given back.

        Every later call of this object raises ClosedError. Copies in other processes stay open.

        Raises:
            WrongContextError: in an event loop; use `aclose`.
        """
        refuse_running_loop("close")
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    @awaited_call
    async def aclose(self) -> None:
        """`close`, to be awaited."""
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ensemble!r}, {self.path!r})"

    def __getstate__(self) -> dict[str, Any]:
        blank = object.__new__(type(self))
        blank._reset()
        return {name: value for name, value in vars(self).items() if name not in vars(blank)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def _reset(self) -> None:
        """Initialize the attributes that belong to one process and are not pickled."""
        self._lock = threading.Lock()
        self._client = None
        self._task = None
        self._pid = 0
        self._is_closed = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(self.path, f"this {type(self).__name__} was closed in this process")

    def _current(self) -> Client | None:
        client = self._client
        # A session of an earlier task is being closed, even if it does not know yet.
        if client is None or client._is_lost() or self._task is not task_sessions.running_task():
            return None
        if self._pid != os.getpid():
            return None  # the session belongs to the parent that forked this process
        return client


class ToolFlow(Struct, Generic[H, AH], frozen=True):
    """A flow whose result is an `H` for a caller that blocks, an `AH` for one that awaits it."""

    flow: Flow[Any]


class ToolOperation(Generic[P, H, AH]):
    """A method of a tool, as type checkers see it; at run time it is a plain function.

    `AH` is the result of its twin that is awaited.
    """

    @overload
    def __get__(self, tool: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self, tool: Tool, owner: Any = None) -> Callable[P, H]: ...

    def __get__(self, tool: Any, owner: Any = None) -> Any:
        raise NotImplementedError


def tool_operation(
    written: Callable[Concatenate[Any, Any, P], ToolFlow[H, AH]],
) -> ToolOperation[P, H, AH]:
    """Make an operation of a method that takes the client and returns a flow. See the module."""
    name = written.__name__

    def check_names(method: str, named: dict[str, Any]) -> None:
        # Before a session is opened for the call.
        for key in named:
            if key not in known:
                raise unexpected_name(method, key, known)

    @wraps(written)
    def run(tool: Tool, *args: Any, **named: Any) -> Any:
        check_names(name, named)
        refuse_running_loop(name, f"use `await ....{name}_async(...)` there")
        client = tool._get_client()
        return client._run_flow(written(tool, client, *args, **named).flow, name)

    async def run_in_loop(tool: Tool, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        runner = await tool._get_client_async()
        return await runner._run_flow(written(tool, runner, *args, **named).flow, name)

    @wraps(written)
    def run_async(tool: Tool, *args: Any, **named: Any) -> Any:
        check_names(f"{name}_async", named)
        return UnawaitedCall(run_in_loop(tool, args, named), f"{name}_async")

    signature = inspect.signature(written)
    parameters = [each for key, each in signature.parameters.items() if key != "client"]
    known = [each.name for each in parameters[1:]]
    results = get_args(signature.return_annotation)
    for function, result in zip((run, run_async), results, strict=True):
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters, return_annotation=result
        )
    run.awaited = run_async  # type: ignore[attr-defined]
    return cast(ToolOperation[P, H, AH], run)


def awaited(operation: ToolOperation[P, H, AH]) -> ToolOperation[P, Coroutine[Any, Any, AH], AH]:
    """Return the twin of an operation, to be awaited in any event loop."""
    twin: ToolOperation[P, Coroutine[Any, Any, AH], AH] = operation.awaited  # type: ignore[attr-defined]
    return twin


class ContextTool(Tool, Generic[H, AH]):
    """A tool that is held for the length of a `with` block, an `async with` block or a function.

    A `with` block holds an `H`, an `async with` block an `AH`. Each belongs to the thread, or the
    asyncio task, that entered the block.
    """

    _open_blocks: WithBlocks[Any]

    def __enter__(self) -> H:
        refuse_running_loop(type(self).__name__, "use `async with` there")
        block = self._on(self._get_client())
        held: H = block.__enter__()
        self._open_blocks.push(block)
        return held

    def __exit__(self, *outcome: Any) -> None:
        self._open_blocks.pop().__exit__(*outcome)

    async def __aenter__(self) -> AH:
        block = self._on(await self._get_client_async())
        held: AH = await block.__aenter__()
        self._open_blocks.push(block)
        return held

    async def __aexit__(self, *outcome: Any) -> None:
        await self._open_blocks.pop().__aexit__(*outcome)

    def __call__(self, function: F) -> F:
        """Decorate a function, which may be a coroutine or a generator: each call is a block."""
        return context_decorator(function, lambda: self)

    def _on(self, client: FlowRunner) -> Acquirable[Any, Any]:
        """Return the recipe of which one is held in a block, for the caller's client."""
        raise NotImplementedError

    def _reset(self) -> None:
        super()._reset()
        self._open_blocks = WithBlocks()
