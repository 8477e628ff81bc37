"""Make a failing plan smaller while it fails in the same way.

Faults are dropped by delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
failure-inducing input", 2002), then clients, servers and the end of the run. The rest is made
plainer: shorter faults, exact clocks, quick disks and links, modest clients. All of this repeats
until no step helps or a bound is reached. The result is always a plan that was seen to fail.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tests.simulation.attempt import Failure, Outcome
from tests.simulation.keepers.plans import KEEPERS
from tests.simulation.plan import HISTORY_MAX, QUEUE_MAX, WITHOUT_TARGET, Fault, Plan
from tests.simulation.timing import TimingPlan

RUNS_MAX = 400
SECONDS_MAX = 120.0

Try = Callable[[Plan], Outcome]
Progress = Callable[[int, Plan], None]
"""Told how many runs were made and the smallest plan so far."""

Change = Callable[[Plan], Plan]

Item = TypeVar("Item")

BRIEF_MS = 10
"""Faults that last no longer are left as they are."""


_PLAIN_SERVER = {
    "sync_ms_max": 0,
    "drift_ppm": 0,
    "snapshot_every_txns": 200,
    "queue_max": QUEUE_MAX,
    "history_max": HISTORY_MAX,
    "container_grace_ms": 0,
}
_PLAIN_CLIENT = {"drift_ppm": 0, "pause_ms_max": 60, "burst_max": 1, "outstanding_max": 1}


class Minimized(Struct, frozen=True):
    """The smallest plan found, its failure, and the number of runs."""

    plan: Plan
    failure: Failure
    runs: int
    is_complete: bool
    """Whether nothing more could be dropped; False when a bound ended the search."""


class _BoundError(Exception):
    """Raised when the bound of runs or seconds is reached."""


def minimize(
    plan: Plan,
    failure: Failure,
    attempt: Try,
    *,
    runs_max: int = RUNS_MAX,
    seconds_max: float = SECONDS_MAX,
    progress: Progress = lambda _runs, _plan: None,
) -> Minimized:
    """Shrink `plan`, which failed with `failure`."""
    search = _Search(plan, failure, attempt, runs_max, seconds_max, progress)
    try:
        search.run()
    except _BoundError:
        return Minimized(search.plan, search.failure, search.runs, False)
    return Minimized(search.plan, search.failure, search.runs, True)


class _Search:
    """The smallest plan so far, and the runs that are left."""

    def __init__(
        self,
        plan: Plan,
        failure: Failure,
        attempt: Try,
        runs_max: int,
        seconds_max: float,
        progress: Progress,
    ) -> None:
        self.plan = plan
        self.failure = failure
        self.runs = 0
        self._attempt = attempt
        self._runs_max = runs_max
        self._until = time.monotonic() + seconds_max
        self._progress = progress
        self._seen: set[Plan] = {plan}

    def run(self) -> None:
        """Repeat all steps of shrinking until none helps."""
        while True:
            before = self.plan
            self._cut_end()
            self._drop_faults()
            self._drop_any(_without_client)
            self._drop_any(_without_server)
            for simpler in (_plainer_world, _plainer_parts, _plainer_faults):
                self._take_all(simpler)
            if self.plan == before:
                return

    def _fails(self, plan: Plan) -> bool:
        """Run a plan, and keep it if it fails in the same way."""
        if plan in self._seen:
            return False
        if self.runs >= self._runs_max or time.monotonic() >= self._until:
            raise _BoundError
        self._seen.add(plan)
        self.runs += 1
        found = self._attempt(plan).failure
        is_same = found is not None and found.kind == self.failure.kind
        if found is not None and is_same:
            self.plan, self.failure = plan, found
        self._progress(self.runs, self.plan)
        return is_same

    def _cut_end(self) -> None:
        """Cut the run after the failure, and then as early as possible."""
        end = self.failure.at_ms + 1
        if end < self.plan.safety_ms:
            self._fails(_until(self.plan, end))
        for part in (0.25, 0.5, 0.75):
            if self._fails(_until(self.plan, int(self.plan.safety_ms * part))):
                return

    def _drop_faults(self) -> None:
        """Drop faults by delta debugging, in ever smaller chunks."""
        chunks = 1
        while self.plan.faults:
            faults = self.plan.faults
            if any(
                self._fails(replace(self.plan, faults=rest))
                for rest in _complements(faults, chunks)
            ):
                chunks = max(1, chunks - 1)
            elif chunks >= len(faults):
                return
            else:
                chunks = min(len(faults), chunks * 2)

    def _drop_any(self, without: Callable[[Plan], Iterator[Plan]]) -> None:
        while any(self._fails(plan) for plan in without(self.plan)):
            pass

    def _take_all(self, simpler: Callable[[Plan], Iterator[Change]]) -> None:
        """Apply each simplification on top of those that were kept."""
        for change in simpler(self.plan):
            self._fails(change(self.plan))


def _complements(items: Sequence[Item], chunks: int) -> Iterator[tuple[Item, ...]]:
    """Yield the items without each of `chunks` chunks in turn."""
    size = -(-len(items) // chunks)
    for start in range(0, len(items), size):
        yield (*items[:start], *items[start + size :])


def _until(plan: Plan, end_ms: int) -> Plan:
    faults = tuple(fault for fault in plan.faults if fault.at_ms < end_ms)
    return replace(plan, safety_ms=end_ms, faults=faults)


def _without_client(plan: Plan) -> Iterator[Plan]:
    # Without a keeper, votes that must come back do not: that is another failure.
    keepers = KEEPERS if plan.keeper is not None else 0
    for client in plan.clients[keepers:] if len(plan.clients) > 1 else ():
        rest = tuple(other for other in plan.clients if other != client)
        faults = (
            fault
            for fault in plan.faults
            if not (_is_of_client(fault) and fault.target == client.number)
        )
        yield replace(plan, clients=rest, faults=tuple(faults))


def _without_server(plan: Plan) -> Iterator[Plan]:
    # Two servers of three have no majority to spare, so a keeper could do nothing.
    can_spare = len(plan.servers) > 1 and plan.keeper is None
    for server in plan.servers if can_spare else ():
        rest = tuple(other for other in plan.servers if other != server)
        if any(other.is_voter for other in rest):
            faults = [_spared(fault, server.server_id) for fault in plan.faults]
            kept = tuple(fault for fault in faults if fault is not None)
            yield replace(plan, servers=rest, faults=kept)


def _spared(fault: Fault, server_id: int) -> Fault | None:
    """Return the fault without a removed server, or nothing if that server is its target."""
    is_about_it = fault.target == server_id and fault.kind not in WITHOUT_TARGET
    if is_about_it and not _is_of_client(fault):
        return None
    if server_id not in fault.others:
        return fault
    others = tuple(other for other in fault.others if other != server_id)
    return replace(fault, others=others) if others else None


def _is_of_client(fault: Fault) -> bool:
    return "client" in fault.kind.value


def _plainer_world(_plan: Plan) -> Iterator[Change]:
    yield _plain_all
    yield lambda plan: replace(plan, delay_ms_max=1)
    yield lambda plan: replace(plan, loses_majority=False)
    yield lambda plan: replace(plan, timing=TimingPlan())


def _plainer_parts(plan: Plan) -> Iterator[Change]:
    yield from (partial(_plain_server_at, index) for index in range(len(plan.servers)))
    yield from (partial(_plain_client_at, index) for index in range(len(plan.clients)))


def _plainer_faults(plan: Plan) -> Iterator[Change]:
    yield from (partial(_briefer_at, index) for index in range(len(plan.faults)))


def _plain_all(plan: Plan) -> Plan:
    servers = tuple(replace(server, **_PLAIN_SERVER) for server in plan.servers)
    clients = tuple(replace(client, **_PLAIN_CLIENT) for client in plan.clients)
    return replace(plan, delay_ms_max=1, servers=servers, clients=clients)


def _plain_server_at(index: int, plan: Plan) -> Plan:
    plain = replace(plan.servers[index], **_PLAIN_SERVER)
    return replace(plan, servers=_changed(plan.servers, index, plain))


def _plain_client_at(index: int, plan: Plan) -> Plan:
    plain = replace(plan.clients[index], **_PLAIN_CLIENT)
    return replace(plan, clients=_changed(plan.clients, index, plain))


def _briefer_at(index: int, plan: Plan) -> Plan:
    fault = plan.faults[index]
    lasts_ms = fault.lasts_ms // 2 if fault.lasts_ms > BRIEF_MS else fault.lasts_ms
    return replace(plan, faults=_changed(plan.faults, index, replace(fault, lasts_ms=lasts_ms)))


def _changed(items: tuple[Item, ...], index: int, item: Item) -> tuple[Item, ...]:
    return (*items[:index], item, *items[index + 1 :])
