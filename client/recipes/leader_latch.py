"""A leader latch: it stands for election in the background, again and again, until `close`.

    with client.leader_latch("/jobs/leader", b"worker 1") as latch:
        latch.wait()                        # until we lead
        while latch.has_leadership:
            work(epoch=latch.leadership.epoch)

The election is that of election.py, with its guarantees: a latch and an `Election` on one path are
rivals. `has_leadership` is true only while nobody else can lead, by the client's own clock. If
somebody deletes the candidate's znode, the latch stands for election again, behind all others;
after the end of the session it does not.

Curator: `LeaderLatch`. There a lost connection ends the leadership at once, or does not, as the
error policy says; here the leadership lasts as long as the session.
"""

from collections.abc import Callable

from raykeeper.client.call_forms import check_callbacks
from raykeeper.client.core.flows import CallUser, Cancelled, Flow
from raykeeper.client.errors import LostError
from raykeeper.client.recipes.background_recipe import Startable
from raykeeper.client.recipes.election import Election, Leadership
from raykeeper.client.recipes.primitives import checked_root, timeout_after
from raykeeper.client.recipes.recipe import FlowRunner, K, operation

Listener = Callable[[Leadership[K]], object]


class LeaderLatch(Startable[K]):
    """A candidate that stands for election for as long as it is not closed."""

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        identifier: bytes | None = None,
        on_gained: Listener[K] | None = None,
        on_lost: Listener[K] | None = None,
    ) -> None:
        """Use `Client.leader_latch`. See there for the arguments."""
        super().__init__(client, f"the leader latch {path}")
        self.path = checked_root(path)
        check_callbacks(client, on_gained=on_gained, on_lost=on_lost)
        self._election: Election[K] = Election(client, path, identifier)
        self._on_gained: Listener[K] | None = on_gained
        self._on_lost: Listener[K] | None = on_lost
        self._leadership: Leadership[K] | None = None

    def _activity(self) -> str:
        leadership = self.leadership
        return "does not lead" if leadership is None else f"leads in epoch {leadership.epoch}"

    @property
    def leadership(self) -> Leadership[K] | None:
        """The present leadership, with its epoch, token and `lost`; None if there is none."""
        leadership = self._leadership
        if leadership is None or leadership.is_released or leadership.lost.is_set():
            return None  # others may lead by now, also while we are resigning
        return leadership

    @property
    def has_leadership(self) -> bool:
        """Whether this latch leads. It becomes False on time, even if no thread got to run."""
        return self.leadership is not None

    @operation
    def wait(self, timeout_s: float | None = None) -> Flow[Leadership[K]]:
        """Wait until this latch leads.

        Raises:
            WaitTimeoutError: others led all the time. The latch goes on standing for election.
            RecipeError: the latch was not started, or was closed.
            KeeperError: the latch cannot create its candidate, or the session is over.
        """
        yield timeout_after(timeout_s, f"{self._what} does not lead")
        yield from self._wait_until(lambda: self.has_leadership)
        assert self._leadership is not None
        return self._leadership

    def _work(self) -> Flow[None]:
        """See `BackgroundRecipe`."""
        while not self.is_closed and not self._client._is_lost():
            try:
                leadership: Leadership[K] = yield from self._election._acquire_within()
            except LostError:
                continue  # somebody deleted the candidate: queue up again
            yield from self._lead(leadership)

    def _lead(self, leadership: Leadership[K]) -> Flow[None]:
        self._leadership = leadership
        yield from self._call_listener(self._on_gained, leadership)
        self._changed.notify_all()
        closing: Cancelled | None = None
        try:
            yield from leadership.lost._wait()
        except Cancelled as abandoned:
            closing = abandoned
            yield from leadership._release()
        self._leadership = None
        yield from self._call_listener(self._on_lost, leadership)
        if closing is not None:
            raise closing

    def _call_listener(self, listener: Listener[K] | None, leadership: Leadership[K]) -> Flow[None]:
        if listener is not None:
            yield CallUser(listener, (leadership,))
