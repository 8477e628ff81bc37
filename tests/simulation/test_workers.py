"""Workers: every job gets one answer, also when its process dies or hangs."""

import os
import threading

import pytest

from tests.simulation.workers import Lost, Workers


def task(job: int) -> int:
    """Double the number; 13 kills its process, 99 never ends."""
    if job == 13:
        os._exit(3)
    if job == 99:
        threading.Event().wait()
    return job * 2


def answers(jobs: list[int], count: int = 2, limit_s: float = 60.0) -> dict[int, int | Lost]:
    left = iter(jobs)
    workers = Workers[int, int](count, task, lambda _job: limit_s)
    return dict(workers.run(lambda: next(left, None)))


def test_every_job_gets_an_answer() -> None:
    assert answers(list(range(10))) == {job: job * 2 for job in range(10)}


def test_without_a_job_there_is_no_answer() -> None:
    assert answers([]) == {}


def test_a_process_that_dies_is_named_by_its_job_and_replaced() -> None:
    found = answers([1, 13, 2, 3], count=1)
    assert found == {1: 2, 13: Lost("the process ended with exit code 3"), 2: 4, 3: 6}


def test_a_process_that_hangs_is_named_by_its_job_and_replaced() -> None:
    left = iter([99, 1])
    workers = Workers[int, int](1, task, lambda job: 0.5 if job == 99 else 60.0)
    assert dict(workers.run(lambda: next(left, None))) == {
        99: Lost("no answer within 0.5 s"),
        1: 2,
    }


def test_an_answer_can_lead_to_another_job() -> None:
    jobs = [1]
    workers = Workers[int, int](2, task, lambda _job: 60.0)
    seen = []
    for job, answer in workers.run(lambda: jobs.pop() if jobs else None):
        seen.append((job, answer))
        if job < 3:
            jobs.append(job + 1)
    assert seen == [(1, 2), (2, 4), (3, 6)]


def test_leaving_early_ends_the_processes() -> None:
    workers = Workers[int, int](1, task, lambda _job: 60.0)
    running = workers.run(lambda: 1)
    assert next(running) == (1, 2)
    process = workers._workers[0].process
    running.close()
    with pytest.raises(ValueError, match="closed"):
        process.is_alive()
