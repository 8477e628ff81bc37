"""A limit of concurrent calls over all processes; a permit dies with its holder.

    limit = ConcurrencyLimit("coord", "/limits/gpu-api", permits=4)

    @ray.remote
    @limit                          # or `with limit as held:`, `async with limit as held:`
    def ask(prompt): ...

It replaces a semaphore in a named actor. Users of such a semaphore report permits that leaked with
cancelled tasks until nobody got one, a `release` that starved behind a thousand blocked `acquire`s,
and a count that began anew when the actor was restarted while others held permits.

The invariants are those of the recipe (recipes/semaphore.py): there are never more holders than
permits, and callers are served in the order in which they came. A permit belongs to the session of
its process. It is given back when the block ends, also by an error or a cancelled task, and when
the process is known to be dead or was silent for the session timeout. `held.lost` is set before
another caller can get the permit.

The permits count holders, not the work that they have started elsewhere. What a dead holder asked
of a service may run there for a while beside the next holder's; a service that must not bear that
checks the fencing token (FencedResource).
"""

from typing import Any, cast

from raykeeper.client.ray_tools.tool import ContextTool, ToolFlow, awaited, tool_operation
from raykeeper.client.recipes.acquirable import Held
from raykeeper.client.recipes.lock import Contender
from raykeeper.client.recipes.recipe import Awaited, Blocking, FlowRunner
from raykeeper.client.recipes.semaphore import Semaphore


class ConcurrencyLimit(ContextTool[Held[Blocking], Held[Awaited]]):
    """A number of permits for all processes that name the same path. It pickles.

    docs/RECIPES.md has its guarantees.
    """

    def __init__(
        self,
        ensemble: str,
        path: str,
        permits: int,
        identifier: bytes | None = None,
        session_timeout_s: float = 10.0,
    ) -> None:
        """Create the tool, without a request to the ensemble.

        Args:
            ensemble: The name of the ensemble.
            path: The path of the permits; all who use it at one time must name the same number.
            permits: The number of permits: from 1 to 1000.
            identifier: The text that describes the holder to others; None for a line that names the
                actor or task, the process and its node (client/identity.py).
            session_timeout_s: How long a permit outlives the silence of its holder.

        Raises:
            BadArgumentsError: an argument is not acceptable.
        """
        super().__init__(ensemble, path, session_timeout_s)
        self.permits = permits
        self.identifier = identifier
        self._on(cast(FlowRunner, None))  # checks permits and identifier

    def _on(self, client: FlowRunner) -> Semaphore[Any]:
        """Return the semaphore for the caller's client."""
        return Semaphore(client, self.path, self.permits, self.identifier)

    @tool_operation
    def acquire(
        self, client: FlowRunner, timeout_s: float | None = None
    ) -> ToolFlow[Held[Blocking], Held[Awaited]]:
        """Get a permit, to be given back by its `release`. See `Semaphore.acquire`.

        Raises:
            WaitTimeoutError: others had all permits; nothing is left behind.
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        return ToolFlow(self._on(client)._acquire_within(timeout_s))

    acquire_async = awaited(acquire)
    """`acquire`, to be awaited in any event loop; so is the permit's `release`."""

    @tool_operation
    def holders(self, client: FlowRunner) -> ToolFlow[list[Contender], list[Contender]]:
        """List the holders of permits. See `Semaphore.holders`.

        Raises:
            WrongContextError: in an event loop.
            KeeperError: as for every call.
        """
        return ToolFlow(Semaphore.holders.flow(self._on(client)))

    holders_async = awaited(holders)
    """`holders`, to be awaited in any event loop."""
