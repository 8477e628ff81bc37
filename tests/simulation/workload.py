"""The requests of a client: drawn at random, but based on earlier answers, as in a program.

There are few paths, so that clients meet. Sequential znodes are at `/n1/s-`, ephemeral ones at
`/n0/e`; the others are created and deleted.
"""

from collections.abc import Callable
from random import Random

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.zab.ids import Millis
from raykeeper.znodes.replies import GetChildrenReply, GetDataReply, WriteReply
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Sync,
)
from tests.simulation.plan import ClientPlan, RequestMix
from tests.simulation.requests.contract import Contract
from tests.simulation.requests.transactions import PLACES

PARENTS = ["/", "/n0", "/n1"]
QUEUE = "/n1/s-"


class Workload:
    """The requests of one session."""

    def __init__(
        self,
        plan: ClientPlan,
        name: str,
        random: Random,
        beside: Random,
        contract: Random,
        watches: Random,
    ) -> None:
        """`name` must belong to this session alone: values tell which session wrote them.

        `beside` draws invalid requests, `contract` and `watches` rare ones.
        """
        self._random = random
        self._beside = beside
        self._name = name
        self._count = 0
        self._watches = plan.watch_share
        self._timeout_ms = plan.timeout_ms
        self._versions: dict[str, int] = {}
        self._contract = Contract(contract, watches, name, self._versions)
        self._queue: list[str] = []  # this session's sequential znodes
        self._found: list[str] = []  # the children listed last
        self._planned: list[NewRequest] = []
        self._draw: Callable[[], NewRequest] = {
            RequestMix.MIXED: self._mixed,
            RequestMix.CONTENDS: self._contends,
            RequestMix.QUEUES: self._queues,
            RequestMix.CHURNS: self._churns,
            RequestMix.ASKS: self._asks,
        }[plan.request_mix]

    def next(self) -> NewRequest:
        """Return the next request."""
        self._count += 1
        if self._planned:
            return self._contract.strengthened(self._planned.pop())
        if (rare := self._contract.next()) is not None:
            return rare
        # Every mix sometimes has other requests.
        ask = self._mixed() if self._random.random() < 0.15 else self._draw()
        if isinstance(ask, Create) and self._beside.random() < 0.03:
            return Create(f"/n0/e{self._beside.randint(0, 2)}/c", ask.value, ask.flags)
        return self._contract.strengthened(ask)

    def answered(self, ask: NewRequest, answer: SuccessReply) -> None:
        """Remember an answer for later requests."""
        if isinstance(answer, GetDataReply) and isinstance(ask, Query):
            self._versions[ask.path] = answer.stat.version
        elif isinstance(answer, WriteReply) and isinstance(ask, Create) and ask.path == QUEUE:
            self._queue.append(answer.path)
        elif isinstance(answer, GetChildrenReply) and isinstance(ask, Query):
            self._found = [f"{ask.path.rstrip('/')}/{child}" for child in answer.children]

    def session_timeout(self) -> Millis:
        """Return the session timeout to request."""
        drawn = self._random.choice([1_000, 1_000, 1_000, 2_000, 5_000])
        return Millis(self._timeout_ms or drawn)

    def _mixed(self) -> NewRequest:
        random = self._random
        path = random.choice(PLACES)
        kind = random.random()
        if kind < 0.15:
            return Create(path, self._value(), 0)
        if kind < 0.22:
            return self._ephemeral()
        if kind < 0.32:
            return self._enqueue()
        if kind < 0.40:
            path = path if random.random() < 0.97 else "/"  # the server refuses to delete the root
            return Delete(path, self._version(path))
        if kind < 0.58:
            return SetData(path, self._value(), self._version(path))
        if kind < 0.78:
            return Query(GetData, path, self._watcher())
        if kind < 0.86:
            return Query(Exists, path, self._watcher())
        if kind < 0.93:
            return Query(GetChildren, random.choice(PARENTS), self._watcher())
        return self._synced_read(path)

    def _contends(self) -> NewRequest:
        """Read a counter and write it at the version that was read."""
        path = self._random.choice(PLACES[:2])
        kind = self._random.random()
        if kind < 0.1:
            return Create(path, self._value(), 0)
        if kind < 0.5:
            return Query(GetData, path, self._watcher())
        return SetData(path, self._value(), self._versions.get(path, 0))

    def _queues(self) -> NewRequest:
        """Act as in a lock or a queue: join, find the predecessor, watch it, leave."""
        random = self._random
        kind = random.random()
        if kind < 0.1:
            return Create("/n1", self._value(), 0)
        if kind < 0.4:
            return self._enqueue()
        if kind < 0.6:
            return Query(GetChildren, "/n1", self._watcher())
        if kind < 0.8 and self._found:
            return Query(Exists, random.choice(self._found), self._watcher())
        if self._queue:
            return Delete(self._queue.pop(0), ANY_VERSION)
        return Query(Exists, random.choice(PLACES), self._watcher())

    def _churns(self) -> NewRequest:
        """Create and delete the same few znodes, which others watch."""
        random = self._random
        path = random.choice(PLACES[3:])
        kind = random.random()
        if kind < 0.3:
            return Create(path, self._value(), 0)
        if kind < 0.4:
            return self._ephemeral()
        if kind < 0.5:
            mine = self._ephemeral()  # possibly another session's
            self._planned.append(mine)
            return Delete(mine.path, ANY_VERSION)
        if kind < 0.7:
            return Delete(path, ANY_VERSION)
        return Query(random.choice([GetData, Exists]), path, self._watcher())

    def _asks(self) -> NewRequest:
        """Send mostly reads, some of them after a sync."""
        random = self._random
        path = random.choice(PLACES)
        kind = random.random()
        if kind < 0.4:
            return self._synced_read(path)
        if kind < 0.6:
            return Query(GetChildren, random.choice(PARENTS), self._watcher())
        return Query(random.choice([GetData, Exists]), path, self._watcher())

    def _enqueue(self) -> NewRequest:
        flags = CreateMode.SEQUENTIAL | self._random.choice([0, CreateMode.EPHEMERAL])
        return Create(QUEUE, self._value(), flags)

    def _ephemeral(self) -> Create:
        path = f"/n0/e{self._random.randint(0, 2)}"
        return Create(path, self._value(), CreateMode.EPHEMERAL)

    def _synced_read(self, path: str) -> NewRequest:
        self._planned.append(Query(GetData, path, self._watcher()))
        return Query(Sync, "/")

    def _value(self) -> bytes:
        return f"{self._name}.{self._count}".encode()

    def _version(self, path: str) -> int:
        known = self._versions.get(path, 0)
        return self._random.choice([ANY_VERSION, ANY_VERSION, known, known, known + 1])

    def _watcher(self) -> int | None:
        return self._count if self._random.random() < self._watches else None
