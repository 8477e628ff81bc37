"""A barrier: its waiters go on when somebody removes it.

    barrier = client.barrier("/barriers/loaded")
    barrier.create()                    # one client holds the others up
    barrier.wait(timeout_s=60)          # the others wait until it is removed

The barrier is one znode that stays until somebody removes it: it does not end with the session
that created it. The invariant of this file: no waiter goes on while the znode is there all the
time, however far the waiter's own server is behind; so the first read is linearizable.

Paper: section 2.4. kazoo: `Barrier`. Curator: `DistributedBarrier`.
"""

from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import EventType
from raykeeper.client.errors import NodeExistsError, NoNodeError
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_root,
    create,
    delete,
    get_or_none,
    timeout_after,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.znodes.requests import GetData


class Barrier(PortableRecipe[K]):
    """A barrier at one path."""

    def __init__(self, client: FlowRunner, path: str) -> None:
        """Use `Client.barrier`."""
        super().__init__(client)
        self.path = checked_root(path)

    @operation
    def create(self) -> Flow[bool]:
        """Create the barrier; return False if it is there already."""
        try:
            yield from create(self.path)
        except NodeExistsError:
            return False
        return True

    @operation
    def remove(self) -> Flow[bool]:
        """Remove the barrier, so that all waiters go on; return False if there was none."""
        return (yield from delete(self.path))

    @operation
    def wait(self, timeout_s: float | None = None) -> Flow[None]:
        """Wait until there is no barrier.

        Raises:
            WaitTimeoutError: the barrier was there all the time.
        """
        yield timeout_after(timeout_s, f"the barrier {self.path} was not removed")
        removed = Event()
        try:
            yield Query(GetData, self.path, removed, linearizable=True)
        except NoNodeError:
            return
        while True:
            try:
                yield Wait((removed,))
            except Cancelled:
                yield from best_effort_cleanup([], [(self.path, removed)])
                raise
            if any(event.type is EventType.DELETED for event in removed.drain()):
                return
            if (yield from get_or_none(self.path, removed)) is None:
                return
