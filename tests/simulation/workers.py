"""Worker processes for many runs: one job at a time each, so that a lost one is known by its job.

A worker that crashes, or that does not answer within the time its job is given, is killed and
replaced; its job is answered by `Lost`. Processes are spawned: nothing of the parent's state leaks
into a run, and `prepare` is how a change of the code under test reaches them.
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
    """A job that was not answered, and why."""

    reason: str


class _Worker(Struct, Generic[Job], eq=False):
    process: SpawnProcess
    pipe: Connection
    job: Job | None = None
    due: float = 0.0


class Workers(Generic[Job, Result]):
    """Does jobs in `count` processes.

    Args:
        count: How many processes.
        task: What to do with a job; a function of a module, as are the jobs' classes.
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
        """Do what `next_job` gives until it gives nothing and all is answered, or `is_stopped`.

        It is asked again after each answer, so an answer may lead to more jobs. Leaving the
        iteration, in whatever way, ends the processes.
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
                    worker.process.join(DEATH_S)  # killed now it would hide how it ended
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    if prepare is not None:
        prepare()
    # A run leaves a world of cycles behind; looking for them less often is a tenth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(task(job))
