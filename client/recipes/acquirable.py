"""Everything a session can hold: locks, permits, leaderships, memberships; and their `with` blocks.

An ephemeral znode of the session stands for what it holds. The fencing token is the czxid of that
znode: ZooKeeper's order of transactions makes it larger than that of every holder before. The
invariant of this file: if the session ends, `lost` is set before anybody else can hold the same. A
holder reads `lost`, or waits for it, before each step that matters. It shows the token to whatever
it changes (client/fencing.py), because a process that stands still can read nothing.

Paper: section 2.4. Fencing: Kleppmann, "How to do distributed locking"; Chubby's sequencers.
"""

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from raykeeper.client.core.flows import Cancelled, Event, Flow, MappedRequest, Spawn, Wait
from raykeeper.client.core.public_types import EventType
from raykeeper.client.errors import KeeperError, LostError, RayKeeperError, RecipeError
from raykeeper.client.recipes.primitives import (
    delete_if_same,
    get_or_none,
    is_same,
    remove_watch,
    timeout_after,
)
from raykeeper.client.recipes.recipe import (
    BlockRecipe,
    FlowRunner,
    K,
    PortableRecipe,
    Recipe,
    operation,
    timed,
)
from raykeeper.client.transaction import results_decoder
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.requests import Compare, Multi


class LostEvent(Recipe[K]):
    """An event that is set when something is not held any more."""

    _instead = "pass `held.token` on, which a FencedResource or a transaction checks"

    def __init__(self, client: FlowRunner, what: str) -> None:
        super().__init__(client)
        self._what = what
        self._deadline: Millis | None = None
        """When it is lost at the latest, None for never."""
        self._is_set = False
        self._events: list[Event] = []

    def _repr_parts(self) -> tuple[str, ...]:
        return self._what, "set" if self.is_set() else "not set"

    def is_set(self) -> bool:
        """Return whether it is lost, or may be by now: on time, even if no thread got to run."""
        if self._is_set or (self._deadline is not None and self._client._now() >= self._deadline):
            return True
        return self._client._is_lost()

    @operation
    def wait(self, timeout_s: float | None = None) -> Flow[None]:
        """Wait for the loss.

        Raises:
            WaitTimeoutError: it is held still.
        """
        yield timeout_after(timeout_s, f"{self._what} is not lost")
        yield from self._wait()

    def _wait(self) -> Flow[None]:
        """`wait` as a part of another flow."""
        if self.is_set():
            return
        event = Event()
        self._subscribe(event)
        try:
            yield Wait((event,))
        except KeeperError:
            pass  # the session is over, which is a loss
        except Cancelled:
            self._unsubscribe(event)
            raise

    def check(self) -> None:
        """Do nothing while it is held.

        Raises:
            LostError: it is lost.
        """
        if self.is_set():
            raise LostError(f"{self._what} is lost")

    def _subscribe(self, event: Event) -> None:
        """In a flow: set `event` at the loss."""
        if self._is_set:
            event.set()
        else:
            self._events.append(event)

    def _unsubscribe(self, event: Event) -> None:
        """Do not set `event` at the loss any more."""
        if event in self._events:
            self._events.remove(event)

    def _set(self) -> None:
        """Take note of the loss."""
        self._is_set = True
        events, self._events = self._events, []
        for event in events:
            event.set()


class BaseHeld(BlockRecipe[K, Any]):
    """Something that this session holds until it is released or lost: one thing, or several.

    The end of a `with` block releases it, and raises LostError if it was lost meanwhile, unless the
    block already ends with an error.
    """

    _instead = "pass its `token` on, which a FencedResource or a transaction checks"

    def __init__(self, client: FlowRunner, what: str, lost: LostEvent[Any]) -> None:
        """Use the recipe. `what` is held, for messages."""
        super().__init__(client)
        self._what = what
        self.lost: LostEvent[K] = lost
        """Is set when it is lost, of several when one of them is lost.

        It is set before anybody else can hold the same.
        """
        self._is_released = False

    def _repr_parts(self) -> tuple[str, ...]:
        return self._what, *self._marks(), self._hold_state()

    def _marks(self) -> tuple[str, ...]:
        """Return what tells it from other holds of the same, such as its token."""
        return ()

    def _hold_state(self) -> str:
        if self._is_released:
            return "released"
        return "lost" if self.lost.is_set() else "held"

    @property
    def is_released(self) -> bool:
        """Whether it was released, or is being released."""
        return self._is_released

    @operation
    def release(self) -> Flow[None]:
        """Give it back. A second call does nothing.

        Raises:
            LostError: it was lost before. If it is one of several, the others are given back.
            KeeperError: it is unknown whether it was given back; it ends with the session.
        """
        yield from self._release_or_raise()

    def _release_or_raise(self) -> Flow[None]:
        """`release` as a part of another flow."""
        raise NotImplementedError

    def _release(self) -> Flow[None]:
        """Give it back as far as possible: nobody waits for it any more."""
        try:
            yield from self._release_or_raise()
        except RayKeeperError:
            return  # it is gone already, or goes with the session

    def _guard(self) -> Flow[None]:
        """Run beside the holder; set `lost` when it is lost. Ends when it is given back."""
        raise NotImplementedError

    def _end_block(self, kind: type[BaseException] | None) -> Flow[None]:
        """See `BlockRecipe`."""
        return self._release_or_raise() if kind is None else self._release()

    if TYPE_CHECKING:  # a block has the hold itself

        def __enter__(self) -> Self: ...

        async def __aenter__(self) -> Self: ...


class Held(BaseHeld[K]):
    """Something that this session holds by an ephemeral znode until it is released or lost."""

    def __init__(self, client: FlowRunner, what: str, path: str, token: Zxid) -> None:
        """Use the recipe. `path` is the znode that stands for it, which exists already."""
        super().__init__(client, what, LostEvent(client, what))
        self.path = path
        """The ephemeral znode that stands for it."""
        self.token = token
        """The fencing token: larger than that of every holder before."""
        self._changed = Event()
        """The watch of the znode itself."""

    def _marks(self) -> tuple[str, ...]:
        return (f"token {self.token}",)

    def _release_or_raise(self) -> Flow[None]:
        """See `BaseHeld`."""
        if self._is_released:
            return
        was_lost = self.lost.is_set()
        self._is_released = True
        try:
            was_there = yield from self._remove()
        except KeeperError:
            if not was_lost:
                # The holder cannot know whether it was given back, and must be able to try again.
                self._is_released = False
                raise
        else:
            was_lost = was_lost or not was_there
        if was_lost:
            self.lost._set()
            raise LostError(f"{self._what} was lost before it was released")

    def _remove(self) -> Flow[bool]:
        """Delete the znode if it is still that of this holder; return whether it was."""
        request = self._removal()
        was_mine, _ = yield MappedRequest(request, results_decoder(request))
        return bool(was_mine)

    def _removal(self) -> Multi:
        """Return the request that deletes the znode, unless it is another holder's by now."""
        return delete_if_same(self.path, self.token)

    def _still_held_compare(self) -> Compare:
        """Return the condition that it is still held, for a transaction."""
        return is_same(self.path, self.token)

    def _reread(self) -> Flow[bool]:
        """After the watch has fired: whether the znode is there; it is watched anew."""
        events = self._changed.drain()
        if any(event.type in (EventType.DELETED, EventType.NONE) for event in events):
            return False
        found = yield from get_or_none(self.path, self._changed)
        if found is None or found[1].czxid == self.token:
            return found is not None
        yield from remove_watch(self.path, self._changed)  # it is another holder's by now
        return False

    def _guard(self) -> Flow[None]:
        """See `BaseHeld`: it is lost when the znode goes."""
        try:
            while not self._is_released:
                yield Wait((self._changed,))
                if self._is_released or not (yield from self._reread()):
                    break
            yield from self._until_removal_is_known()
        except KeeperError:
            pass  # the session is over
        if not self._is_released:
            self.lost._set()

    def _until_removal_is_known(self) -> Flow[None]:
        """The znode is gone: wait while it is not known whether this holder has removed it."""
        yield from ()


H = TypeVar("H", bound=BaseHeld[Any])


def spawn_guard(held: H) -> Flow[H]:
    """Watch over `held` from now on, and return it: the end of a flow that acquires something."""
    yield Spawn(held._guard())
    return held


class WithBlocks(Generic[H]):
    """The `with` blocks of one object that are open: of each thread, or task, the innermost last.

    So several threads, or tasks, may use one lock object at once.
    """

    def __init__(self) -> None:
        self._blocks: dict[object, list[H]] = {}

    def push(self, held: H) -> None:
        """Begin a block of the calling thread, or task."""
        self._blocks.setdefault(current_task_or_thread(), []).append(held)

    def pop(self) -> H:
        """End the innermost block of the calling thread, or task.

        Raises:
            RecipeError: it has none.
        """
        who = current_task_or_thread()
        if who not in self._blocks and len(self._blocks) == 1:
            # A fixture may end in another task than it began in: clear, if there is only one block.
            (who,) = self._blocks
        blocks = self._blocks.get(who)
        if not blocks:
            raise RecipeError("a block must end in the thread, or task, in which it began")
        held = blocks.pop()
        if not blocks:
            del self._blocks[who]
        return held


def current_task_or_thread() -> object:
    """Return the task that runs this, or else the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    # Not its number, which another thread has when this one has ended.
    return threading.current_thread() if task is None else task


class Acquirable(PortableRecipe[K], BlockRecipe[K, H], Generic[K, H]):
    """A recipe that can be held for the length of a `with` block, again and again.

    The end of the block gives it back, and raises LostError if it was lost meanwhile, unless the
    block already ends with an error.
    """

    def __init__(self, client: FlowRunner) -> None:
        super().__init__(client)
        self._open: WithBlocks[H] = WithBlocks()

    def _acquire(self) -> Flow[H]:
        """Acquire it, however long that takes. Called where the operation is called."""
        raise NotImplementedError

    def _timeout_message(self) -> str:
        """Return what is in the way while it cannot be had, for WaitTimeoutError."""
        raise NotImplementedError

    def _acquire_within(self, timeout_s: float | None = None) -> Flow[H]:
        """`_acquire` within a bound: the beginning of a block, and a part of other flows."""
        return self._bounded(timeout_s, self._acquire())

    def _bounded(self, timeout_s: float | None, flow: Flow[H]) -> Flow[H]:
        yield timeout_after(timeout_s, self._timeout_message())
        return (yield from flow)

    def _begin_block(self) -> Flow[H]:
        """See `BlockRecipe`."""
        return timed(self, self._acquire_within(), "acquire")

    def _block_begun(self, result: H) -> None:
        """See `BlockRecipe`."""
        self._open.push(result)

    def _end_block(self, kind: type[BaseException] | None) -> Flow[None]:
        """See `BlockRecipe`."""
        return self._open.pop()._end_block(kind)
