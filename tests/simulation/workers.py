"""Worker processes for many runs: each does one job at a time, so a lost process names its job.

A worker that crashes, or does not answer within the limit of its job, is killed and replaced; its
job is answered with `Lost`. Processes are spawned, so no state of the parent leaks into a run;
`prepare` changes the code under test in them.
"""

import gc
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeVar

from msgspec import Struct

Job = TypeVar("Job")
Result = TypeVar("Result")

LOOK_S = 0.5
"""How often to look whether to stop."""
DEATH_S = 10.0
"""How long a process that closed its pipe may take to end."""

_spawn = multiprocessing.get_context("spawn")


class Lost(Struct, frozen=True):
    """The answer for a job whose process was lost, and why."""

    reason: str


class _Worker(Struct, Generic[Job], eq=False):
    process: SpawnProcess
    pipe: Connection
    job: Job | None = None
    due: float = 0.0


class Workers(Generic[Job, Result]):
    """Does jobs in `count` processes.

    Args:
        count: The number of processes.
        task: Called with each job; must be a function of a module, as the classes of jobs must.
        limit_s: How long a job may take.
        prepare: Called once in every process before the first job.
    """

    def __init__(
        self,
        count: int,
        task: Callable[[Job], Result],
        limit_s: Callable[[Job], float],
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._count = count
        self._task = task
        self._limit_s = limit_s
        self._prepare = prepare
        self._workers: list[_Worker[Job]] = []

    def run(
        self, next_job: Callable[[], Job | None], is_stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Job, Result | Lost]]:
        """Do the jobs of `next_job` until it returns None and all are answered, or `is_stopped`.

        `next_job` is called again after each answer, so an answer may lead to more jobs. Leaving
        the iteration in any way ends the processes.
        """
        try:
            while not is_stopped():
                self._hand_out(next_job)
                busy = [worker for worker in self._workers if worker.job is not None]
                if not busy:
                    return
                yield from self._answers(busy)
        finally:
            for worker in self._workers:
                _end(worker)
            self._workers = []

    def _hand_out(self, next_job: Callable[[], Job | None]) -> None:
        idle = [worker for worker in self._workers if worker.job is None]
        while (idle or len(self._workers) < self._count) and (job := next_job()) is not None:
            worker = idle.pop() if idle else self._hire()
            worker.job = job
            worker.due = time.monotonic() + self._limit_s(job)
            worker.pipe.send(job)

    def _answers(self, busy: list[_Worker[Job]]) -> Iterator[tuple[Job, Result | Lost]]:
        due = min(worker.due for worker in busy) - time.monotonic()
        patience = min(max(0.0, due), LOOK_S)
        ready = wait([worker.pipe for worker in busy], patience)
        for worker in busy:
            job = worker.job
            assert job is not None
            answer: Result | Lost
            if worker.pipe in ready:
                try:
                    answer = worker.pipe.recv()
                    worker.job = None
                except EOFError:
                    worker.process.join(DEATH_S)  # if killed now, it would hide its exit code
                    answer = Lost(f"the process ended with exit code {worker.process.exitcode}")
                    self._dismiss(worker)
            elif time.monotonic() >= worker.due:
                self._dismiss(worker)
                answer = Lost(f"no answer within {self._limit_s(job):g} s")
            else:
                continue
            yield job, answer

    def _hire(self) -> _Worker[Job]:
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(
            target=_work, args=(theirs, self._task, self._prepare), daemon=True
        )
        process.start()
        theirs.close()  # so that its end is seen when the process dies
        worker = _Worker[Job](process, ours)
        self._workers.append(worker)
        return worker

    def _dismiss(self, worker: _Worker[Job]) -> None:
        self._workers.remove(worker)
        _end(worker)


def _end(worker: _Worker[Job]) -> None:
    worker.process.kill()
    worker.process.join()
    worker.process.close()
    worker.pipe.close()


def _work(
    pipe: Connection, task: Callable[[Job], Result], prepare: Callable[[], None] | None
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    if prepare is not None:
        prepare()
    # A run leaves many reference cycles; less frequent collection saves a tenth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(task(job))
