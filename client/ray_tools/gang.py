"""A gang: all members start or none, and all start again together after one of them dies.

    gang = Gang("coord", "/gangs/train", size=4)

    def work(meeting, steps):                   # in each of four actors, or tasks
        for step in range(steps):
            meeting.broken.check()              # BrokenBarrierError once somebody has died
            ...                                 # meeting.rank, meeting.generation

    gang.run(work, 100)

It replaces a barrier in a named actor. Such a barrier counts arrivals and cannot know that a member
died after it arrived: the others wait until a timeout of half an hour, or for ever. Ray's placement
groups are all or nothing for resources, and only when they are made.

The rendezvous recipe makes the generations (recipes/rendezvous.py): each is one list of members,
all alive at one moment, and is broken when one of them leaves or dies. This file adds the end: a
generation is finished when every member has recorded that it has finished. The invariant: `run`
returns in all members of a generation or in none, unless one dies right at the end, after all had
finished.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct

from raykeeper.client.call_forms import awaited_call
from raykeeper.client.core.flows import Event, Flow, Wait, with_cleanup
from raykeeper.client.errors import BadArgumentsError, BrokenBarrierError, InvalidValueError
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.ray_tools.tool import ContextTool, ToolFlow, awaited, tool_operation
from raykeeper.client.recipes.compare_and_set import ObservedValue, read_current, read_modify_write
from raykeeper.client.recipes.primitives import best_effort_cleanup, get_or_none
from raykeeper.client.recipes.recipe import Awaited, Blocking, FlowRunner
from raykeeper.client.recipes.rendezvous import Generation, Rendezvous
from raykeeper.znodes.paths import join

log = logging.getLogger("raykeeper.client")

FINISHED: Final = "finished"
"""The child of the rendezvous that counts the members that have finished."""

T = TypeVar("T")


class _FinishedCount(Struct, frozen=True):
    """The value of that child: of the newest generation of which any member has finished."""

    token: int = 0
    """Of the member of the generation that joined last: larger than of any generation before. Its
    number begins anew if somebody deletes the rendezvous."""
    count: int = 0


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_FinishedCount).decode


class Gang(ContextTool[Generation[Blocking], Generation[Awaited]]):
    """A gang of `size` members, by name. It pickles; docs/RECIPES.md has its guarantees.

    A block, `with gang as meeting:`, has only the barrier at the start.
    """

    def __init__(
        self, ensemble: str, path: str, size: int, session_timeout_s: float = 10.0
    ) -> None:
        """Create the tool, without a request to the ensemble.

        Args:
            ensemble: The name of the ensemble.
            path: The path of the gang.
            size: The number of members: from 1 to 500. All must name the same number.
            session_timeout_s: How long the others wait for a member that was cut off.

        Raises:
            BadArgumentsError: an argument is not acceptable.
        """
        super().__init__(ensemble, path, session_timeout_s)
        self.size = size
        self._on(cast(FlowRunner, None))  # checks the size

    def _on(self, client: FlowRunner, data: bytes = b"") -> Rendezvous[Any]:
        """Return the rendezvous at the start, for the caller's client."""
        return Rendezvous(client, self.path, self.size, data)

    @tool_operation
    def join(
        self, client: FlowRunner, timeout_s: float | None = None, data: bytes = b""
    ) -> ToolFlow[Generation[Blocking], Generation[Awaited]]:
        """Wait until all members are there. Call `leave` on the result; see `Rendezvous.join`.

        Raises:
            WaitTimeoutError: not all came, or the last generation went on; nothing is left behind.
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        return ToolFlow(self._on(client, data)._acquire_within(timeout_s))

    join_async = awaited(join)
    """`join`, to be awaited in any event loop; so is the result's `leave`."""

    def run(
        self,
        work: Callable[..., T],
        *args: Any,
        restarts_max: int | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """Work in one generation after the other, until all members of one have finished it.

        Args:
            work: Called with the generation and `args`. It is called again, in a new generation,
                when it raises BrokenBarrierError, or any error while its generation is broken. Any
                other error is raised here, and breaks the generation for the others.
            *args: Arguments of `work`.
            restarts_max: How many restarts are allowed, None for any number.
            timeout_s: How long to wait for the others before each generation, None for ever.

        Raises:
            BrokenBarrierError: a generation was broken after so many restarts.
            WaitTimeoutError: the others did not come.
            WrongContextError: in an event loop.
            Exception: any error that `work` raised.
        """
        refuse_running_loop("run", "use `await ....run_async(...)` there")
        for _ in _attempts(restarts_max):
            meeting = self.join(timeout_s)
            try:
                result = work(meeting, *args)
                meeting._client._run_flow(finish(meeting), "finish")
                return result
            except Exception as error:
                if not _breaks_generation(meeting, error):
                    raise
                _log_broken(self, meeting, error)
            finally:
                meeting._client._run_flow(meeting._release(), "leave")
        raise BrokenBarrierError(f"{self.path}: broken also after {restarts_max} restarts")

    @awaited_call
    async def run_async(
        self,
        work: Callable[..., Awaitable[T]],
        *args: Any,
        restarts_max: int | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """`run` for a coroutine function, to be awaited in any event loop.

        Raises:
            BrokenBarrierError: a generation was broken after so many restarts.
            WaitTimeoutError: the others did not come.
            Exception: any error that `work` raised.
        """
        for _ in _attempts(restarts_max):
            meeting = await self.join_async(timeout_s)
            try:
                result = await work(meeting, *args)
                await meeting._client._run_flow(finish(meeting), "finish")
                return result
            except Exception as error:
                if not _breaks_generation(meeting, error):
                    raise
                _log_broken(self, meeting, error)
            finally:
                await meeting._client._run_flow(meeting._release(), "leave")
        raise BrokenBarrierError(f"{self.path}: broken also after {restarts_max} restarts")


def finish(meeting: Generation[Any]) -> Flow[None]:
    """Record that this member has finished, and wait until all of its generation have.

    Raises:
        BrokenBarrierError: a member went before it had finished.
        InvalidValueError: the value of the counting znode is not one of a gang.
        KeeperError: as for every call; the session may be over.
    """
    path, own = join(meeting._root, FINISHED), meeting.members[-1].token
    which = f"generation {meeting.generation} of {meeting._root}"
    broken = BrokenBarrierError(f"{which} broke before all finished")

    def one_more(seen: ObservedValue) -> bytes:
        finished = _finished_of(path, seen.value)
        if finished.token > own:
            raise broken
        return _encode(_FinishedCount(own, finished.count + 1 if finished.token == own else 1))

    def is_complete(value: bytes | None) -> bool:
        return _finished_of(path, value) == _FinishedCount(own, len(meeting.members))

    def until_complete() -> Flow[None]:
        while True:
            changed.drain()
            found = yield from get_or_none(path, changed)
            if is_complete(found and found[0]):
                return
            if meeting.broken.is_set():
                # A member that saw before us that all have finished may have left since.
                if is_complete((yield from read_current(path, linearizable=True)).value):
                    return
                raise broken
            yield Wait((changed,))

    def clean_up(_: bool) -> Flow[object]:
        meeting.broken._unsubscribe(changed)
        return best_effort_cleanup([], [(path, changed)])

    yield from read_modify_write(path, one_more, (yield from read_current(path)))
    changed = Event()
    meeting.broken._subscribe(changed)
    yield from with_cleanup(until_complete(), clean_up)


def _finished_of(path: str, value: bytes | None) -> _FinishedCount:
    if not value:
        return _FinishedCount()
    try:
        return _decode(value)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"the value of {path} is not one of a gang: {error}") from None


def _attempts(restarts_max: int | None) -> "range":
    if restarts_max is None:
        return range(1 << 62)
    if type(restarts_max) is not int or restarts_max < 0:
        raise BadArgumentsError("", f"restarts_max must be 0 or more, or None: {restarts_max!r}")
    return range(restarts_max + 1)


def _breaks_generation(meeting: Generation[Any], error: Exception) -> bool:
    """Return whether an error of the work means only that another member is gone.

    The work may see that sooner than the gang: a barrier of its own breaks, a connection is reset.
    """
    return isinstance(error, BrokenBarrierError) or meeting.broken.is_set()


def _log_broken(gang: Gang, meeting: Generation[Any], error: Exception) -> None:
    log.warning("%r: generation %s was broken: %r", gang, meeting.generation, error)
