"""What a generator creates in one round, and deletes after a warm-up."""

import asyncio
import time
from collections import Counter

import pytest

from raykeeper.bench.loads.clients import Done
from raykeeper.bench.loads.creations import CHILDREN, create_below, delete_below, turns_of
from raykeeper.bench.loads.task import LoadTask

TASK = LoadTask(
    kind="fill", client="auto", where="", number=0, outstanding=7, count=2 * CHILDREN + 1
)


class ZnodesInMemory:
    """A `PipelinedClient` that is answered at once, with the rules of a tree."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {"": b"", "/fill": b""}
        self.children: Counter[str] = Counter()

    def create(self, path: str, value: bytes, done: Done) -> None:
        parent = path.rpartition("/")[0]
        assert parent in self.values
        self.children[parent] += 1
        assert self.values.setdefault(path, value) is value
        done(None)

    def set(self, path: str, value: bytes, done: Done) -> None:
        raise NotImplementedError

    def get(self, path: str, done: Done) -> None:
        raise NotImplementedError

    def delete(self, path: str, done: Done) -> None:
        del self.values[path]
        assert not self.children[path]
        self.children[path.rpartition("/")[0]] -= 1
        done(None)

    async def close(self) -> None:
        raise NotImplementedError


def test_a_round_by_its_amount_creates_so_many_below_parents() -> None:
    client = ZnodesInMemory()
    assert asyncio.run(create_below("/fill/0", TASK, 0.0, client)) == TASK.count
    parents = [path for path, value in client.values.items() if not value]
    assert parents == ["", "/fill", "/fill/0-0", "/fill/0-1", "/fill/0-2"]
    assert len(client.values) == TASK.count + len(parents)
    assert len(client.values["/fill/0-2/2000"]) == TASK.value_bytes


def test_nothing_is_left_of_a_warm_up() -> None:
    client = ZnodesInMemory()

    async def warm_up() -> None:
        for number in range(2):
            root = f"/fill/{number}"
            await delete_below(root, await create_below(root, TASK, 0.0, client), TASK, client)

    asyncio.run(warm_up())
    assert set(client.values) == {"", "/fill"}


@pytest.mark.parametrize(("count", "turns"), [(3, [0, 1, 2]), (0, [])])
def test_a_round_ends_by_its_amount_or_by_its_time(count: int, turns: list[int]) -> None:
    task = LoadTask(kind="fill", client="auto", where="", number=0, count=count, seconds=1.0)
    assert list(turns_of(task, time.monotonic() - 1.0)) == turns
