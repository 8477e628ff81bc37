"""Configuration, caches and counters of both clients: threads, tasks, callbacks and blocks.

What each of them does is tested in tests/recipes, on a stage without threads.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.client_handles import Open
from tests.contract.test_clients import connect, opener

__all__ = ["connect", "opener"]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that have ended after the test."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_threads_and_clients_count_together(connect: Open, pool: ThreadPoolExecutor) -> None:
    counters = [connect().counter("/counters/x") for _ in range(2)]

    def work(number: int) -> list[int]:
        return [counters[number % 2].add(2) for _ in range(5)]

    sums = [each for turn in pool.map(work, range(8)) for each in turn]
    assert sorted(sums) == list(range(2, 82, 2))
    assert counters[0].get() == 80
