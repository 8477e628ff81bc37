"""A semaphore: a number of permits for as many holders, first come, first served.

    with client.semaphore("/permits/gpu", 4) as held:
        train(token=held.token)

One queue of ephemeral sequential znodes: the first `permits` of them hold a permit. A permit ends
with the session of its holder. How many there are stands in the value of the znode above the queue,
and every contender joins it on the condition that it means the same number; so the invariant of
this file holds whoever comes: there are never more holders than permits. When nobody is there, the
next contender may mean another number; the znode is a container, and goes with the last one.

Who waits watches as many of those before it as there are permits, the nearest: while all of these
are there none is free for it. When permits are given back in the order in which they were taken, a
release wakes exactly the one who gets the permit; in the worst order it wakes `permits` contenders,
never all. No contender depends on another one's doing anything, as it does where a lock lets only
the first who waits watch the holders.

Tokens grow from holder to holder, but several hold at once: a guard that takes only the newest
would refuse holders. Use `Multi.when_held`, or a guard with `shared=True`.

kazoo: `Semaphore`. Curator: `InterProcessSemaphoreV2`. Both have a lock in front.
"""

from typing import Any

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Cancelled, Event, Flow, Gather, MappedRequest, Wait
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import EventType
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    LostError,
    NoNodeError,
    RayKeeperError,
    RecipeError,
)
from raykeeper.client.recipes.acquirable import Acquirable, Held, spawn_guard
from raykeeper.client.recipes.lock import Contender, list_contenders, sort_queue
from raykeeper.client.recipes.primitives import (
    ATTEMPTS_MAX,
    best_effort_cleanup,
    checked_identifier,
    checked_root,
    ensure_path,
    get_children,
    identifier_of,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.client.transaction import results_decoder
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.paths import join
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.requests import (
    Compare,
    CompareField,
    Create,
    CreateMode,
    GetChildren,
    GetData,
    Multi,
    ReadData,
    Relation,
    SetData,
    WatchKind,
)
from raykeeper.znodes.txns import OpDone

PREFIX = "permit-"
PERMITS_MAX = 1000
"""Who waits watches so many znodes."""


class Semaphore(Acquirable[K, Held[K]]):
    """So many may hold it at once. Not reentrant: who acquires twice has two permits."""

    def __init__(
        self, client: FlowRunner, path: str, permits: int, identifier: bytes | None = None
    ) -> None:
        """Use `Client.semaphore`. `identifier` is shown to who lists the contenders."""
        super().__init__(client)
        self.path = checked_root(path)
        if type(permits) is not int or not 1 <= permits <= PERMITS_MAX:
            raise BadArgumentsError(path, f"permits must be 1 to {PERMITS_MAX}, not {permits!r}")
        self.permits = permits
        self._identifier = checked_identifier(identifier)
        self._what = f"a permit of {path}"

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[Held[K]]:
        """Get a permit, behind all that came before.

        Args:
            timeout_s: How long to wait; 0 to take one only if it is free, None for ever.

        Raises:
            WaitTimeoutError: others had all permits; nothing is left behind.
            RecipeError: others are there who know another number of permits.
            LostError: somebody deleted the znode of this contender.
            KeeperError: as for every call.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"others had all {self.permits} permits of {self.path}"

    def _acquire(self) -> Flow[Held[K]]:
        """See `Acquirable`."""
        place = yield from self._enqueue()
        line = _PermitWait(place, self.permits)
        try:
            yield from line.wait()
        except (Cancelled, RayKeeperError):
            yield from best_effort_cleanup([place._removal()], line.watches())
            raise
        yield from best_effort_cleanup([], line.watches())
        return (yield from spawn_guard(place))

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """Who has a permit, or waits for one, in order.

        Raises:
            KeeperError: as for every call.
        """
        return (yield from list_contenders(self.path, PREFIX))

    @operation
    def holders(self) -> Flow[list[Contender]]:
        """Who has a permit: the first contenders.

        Raises:
            KeeperError: as for every call.
        """
        listed = yield from list_contenders(self.path, PREFIX)
        return listed[: self.permits]

    def _enqueue(self) -> Flow[Held[K]]:
        number = str(self.permits).encode()
        creation = Create(
            join(self.path, PREFIX),
            identifier_of(self._client, self._identifier),
            CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL,
        )
        agreed = Compare(self.path, CompareField.VALUE, Relation.EQUAL, number)
        is_alone = Compare(self.path, CompareField.NUM_CHILDREN, Relation.EQUAL, 0)
        joining = Multi([agreed], [creation], [ReadData(self.path)])
        for _ in range(ATTEMPTS_MAX):
            try:
                done = yield MappedRequest(joining, lambda answer: _join_result(joining, answer))
                if isinstance(done, OpDone):
                    assert done.stat is not None, done
                    return Held(self._client, self._what, done.path, done.stat.czxid)
                value, stat = done
                if value and (stat.num_children or not value.isdigit()):
                    raise RecipeError(
                        f"{self.path} has {value[:20].decode('ascii', 'replace')} permits for "
                        f"those who are there, not {self.permits}: all must say the same"
                    )
                # Nobody is there, or nobody has said how many: so it is now, unless one comes.
                change = SetData(self.path, number, stat.version)
                yield from transact([change], [is_alone] if value else [])
            except NoNodeError:
                yield from ensure_path(self.path, number)
            except BadVersionError:
                pass  # somebody was quicker to say how many
        raise NoNodeError(self.path, "somebody deletes it again and again")


def _join_result(request: Multi, answer: SuccessReply) -> Any:
    """The creation, or value and Stat of the znode that says another number."""
    is_agreed, results = results_decoder(request)(answer)
    if not is_agreed:
        return results[0]
    assert isinstance(answer, WriteReply) and answer.results is not None, answer
    return answer.results.results[0]


Watch = tuple[str, WatchKind, Event]


class _PermitWait:
    """One contender who waits until fewer than `permits` are before it."""

    def __init__(self, place: Held[Any], permits: int) -> None:
        self._place = place
        self._permits = permits
        self._path, _, self._own = place.path.rpartition("/")
        self._bell = Event()
        self._watched: dict[str, None] = {}

    def watches(self) -> list[Watch]:
        """Those on others that are set."""
        return [(path, WatchKind.DATA, self._bell) for path in self._watched]

    def wait(self) -> Flow[None]:
        """Return when there is a permit for it.

        Raises:
            LostError: somebody deleted the place.
            KeeperError: what a request failed with.
        """
        names, mine = yield Gather(
            [
                Query(GetChildren, self._path),
                Query(GetData, self._place.path, self._place._changed),
            ]
        )
        if isinstance(names, KeeperError):
            raise names
        if isinstance(mine, KeeperError) and not isinstance(mine, NoNodeError):
            raise mine  # the session ended between the two answers, say
        is_there = not isinstance(mine, NoNodeError)
        while True:
            if not is_there or self._own not in names:
                raise LostError(f"somebody deleted {self._place.path} while it waited")
            queue = sort_queue(names, PREFIX)
            before = queue[: queue.index(self._own)]
            if len(before) < self._permits:
                return
            if (yield from self._watch(before[-self._permits :])):
                yield Wait((self._bell, self._place._changed))
                self._forget_fired()
            if self._place._changed.is_set():
                is_there = yield from self._place._reread()
            names = yield from get_children(self._path)

    def _watch(self, nearest: list[str]) -> Flow[bool]:
        """Watch those that are not watched yet; whether all are there."""
        paths = [join(self._path, name) for name in nearest]
        new = [path for path in paths if path not in self._watched]
        found = yield Gather([Query(GetData, path, self._bell) for path in new])
        errors = []
        for path, each in zip(new, found, strict=True):
            if isinstance(each, KeeperError):
                errors.append(each)
            else:
                self._watched[path] = None
        for error in errors:
            if not isinstance(error, NoNodeError):
                raise error
        return not errors

    def _forget_fired(self) -> None:
        for event in self._bell.drain():
            if event.type is not EventType.NONE:
                self._watched.pop(event.path, None)
