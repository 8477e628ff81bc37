"""A semaphore: a number of permits for as many holders, first come, first served.

    with client.semaphore("/permits/gpu", 4) as held:
        train(token=held.token)

The contenders form one queue of ephemeral sequential znodes: the first `permits` of them hold a
permit. A permit ends with the session of its holder. The value of the parent znode is the number of
permits, and a contender joins the queue only if it names the same number. So the invariant of this
file holds for any mix of clients: there are never more holders than permits. When nobody is in the
queue, the next contender may name another number. The parent is a container: it is deleted after
the last contender.

A waiting contender watches as many of its predecessors as there are permits, the nearest ones:
while all of these are there, no permit is free for it. When permits are released in the order in
which they were acquired, a release wakes exactly the contender that gets the permit; in the worst
order it wakes `permits` contenders, never all. No contender depends on an act of another one, as it
would if a lock let only the first waiter watch the holders.

Tokens grow from holder to holder, but there are several holders at once: a guard that accepts only
the newest token would refuse some of them. Use `Multi.when_held`, or a guard with `shared=True`.

kazoo: `Semaphore`. Curator: `InterProcessSemaphoreV2`. Both have a lock in front.
"""

from typing import Any

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Flow, MappedRequest
from raykeeper.client.errors import BadArgumentsError, NoNodeError, RecipeError
from raykeeper.client.recipes.acquirable import Held
from raykeeper.client.recipes.lock import Contender, QueuedLock, list_contenders, sort_queue
from raykeeper.client.recipes.primitives import (
    ATTEMPTS_MAX,
    ensure_parent,
    identifier_of,
    is_unchanged,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.client.transaction import results_decoder
from raykeeper.znodes.paths import join
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Multi,
    ReadData,
    Relation,
    SetData,
)
from raykeeper.znodes.txns import OpDone

PREFIX = "permit-"
PERMITS_MAX = 1000
"""The bound of `permits`: a contender that waits watches so many znodes."""


class Semaphore(QueuedLock[K, Held[K]]):
    """A number of permits. Not reentrant: a caller that acquires twice holds two permits.

    `acquire` raises RecipeError if the contenders that are there name another number of permits.
    """

    def __init__(
        self, client: FlowRunner, path: str, permits: int, identifier: bytes | None = None
    ) -> None:
        """Use `Client.semaphore`. `identifier` is shown to those who list the contenders."""
        super().__init__(client, path, identifier, f"a permit of {path}", (PREFIX,))
        if type(permits) is not int or not 1 <= permits <= PERMITS_MAX:
            raise BadArgumentsError(path, f"permits must be 1 to {PERMITS_MAX}, not {permits!r}")
        self.permits = permits

    def _repr_parts(self) -> tuple[str, ...]:
        return self.path, f"{self.permits} permits"

    @operation
    def holders(self) -> Flow[list[Contender]]:
        """List the holders of permits: the first contenders."""
        listed = yield from list_contenders(self.path, PREFIX)
        return listed[: self.permits]

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"others had all {self.permits} permits of {self.path}"

    def _likely_predecessor(self, _place: Held[K]) -> str | None:
        """See `ContenderQueue`: it takes the list to know."""
        return None

    def _predecessors(self, names: list[str], own: str) -> list[str]:
        """See `ContenderQueue`: while these are all there, no permit is free."""
        queue = sort_queue(names, PREFIX)
        before = queue[: queue.index(own)]
        return before[-self.permits :] if len(before) >= self.permits else []

    def _enqueue(self) -> Flow[Held[K]]:
        """See `ContenderQueue`: joins only if all contenders name the same number of permits."""
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
                done = yield MappedRequest(joining, lambda reply: _join_result(joining, reply))
                if isinstance(done, OpDone):
                    assert done.stat is not None, done
                    return Held(self._client, self._what, done.path, done.stat.czxid)
                value, stat = done
                if value and (stat.num_children or not value.isdigit()):
                    raise RecipeError(
                        f"{self.path} has contenders for {value[:20].decode('ascii', 'replace')} "
                        f"permits, not {self.permits}: all must name the same number"
                    )
                # The queue is empty, or no number is set: set ours, unless somebody joins first.
                change = SetData(self.path, number, ANY_VERSION)
                unchanged = is_unchanged(self.path, stat.mzxid)
                yield from transact([change], [unchanged, is_alone] if value else [unchanged])
            except NoNodeError:
                yield from ensure_parent(self.path, number)
        raise NoNodeError(self.path, "somebody deletes it again and again")


def _join_result(request: Multi, reply: SuccessReply) -> Any:
    """Return the creation, or the value and Stat of the parent znode if its number differs."""
    is_agreed, results = results_decoder(request)(reply)
    if not is_agreed:
        return results[0]
    assert isinstance(reply, WriteReply) and reply.results is not None, reply
    return reply.results.results[0]
