"""Requests that few programs send, but every program may.

They replace some requests of a client's mix, and are drawn from their own random stream. Each
session sends only some kinds of them: if all were mixed all the time, requests of one kind would
hardly ever meet.
"""

from collections.abc import Callable, Mapping
from random import Random

from msgspec.structs import replace

from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.znodes.requests import Sync
from tests.simulation.requests.acls import Guarded
from tests.simulation.requests.aux_reads import AuxReads
from tests.simulation.requests.expiring_znodes import ExpiringZnodes
from tests.simulation.requests.quotas import Limited
from tests.simulation.requests.transactions import Transactions
from tests.simulation.requests.watches import Watches


class Contract:
    """The rarer requests of one session. `versions` is what the session knows of znodes."""

    def __init__(
        self, random: Random, watches: Random, name: str, versions: Mapping[str, int]
    ) -> None:
        self._random = random
        self._name = name
        self._count = 0
        self._share = random.choice([0.0, 0.05, 0.1, 0.1, 0.2, 0.5])
        self._strong = random.choice([0.0, 0.0, 0.1, 0.5])
        self._watches = Watches(watches)
        every: list[Callable[[], NewRequest]] = [
            Transactions(random, self._value, versions).next,
            Guarded(random, self._value).next,
            ExpiringZnodes(random, self._value).next,
            Limited(random, self._value).next,
            AuxReads(random).next,
            self._watches.next,
        ]
        self._draws = random.sample(every, random.choice([1, 2, 3, len(every)]))

    def next(self) -> NewRequest | None:
        """Return a request, or None for one of the usual ones."""
        if self._random.random() >= self._share:
            return self._watches.beside()
        self._count += 1
        return self._random.choice(self._draws)()

    def strengthened(self, ask: NewRequest) -> NewRequest:
        """Return a usual request, which is linearizable now and then."""
        if isinstance(ask, Query) and ask.kind is not Sync and self._random.random() < self._strong:
            return replace(ask, linearizable=True)
        return ask

    def _value(self) -> bytes:
        return f"{self._name}.t{self._count}".encode()
