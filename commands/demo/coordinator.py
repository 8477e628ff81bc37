"""The coordinator: assigns tasks, records results, and continues the work of a dead predecessor.

All its state is in znodes, so a new coordinator reads them and goes on. Two rules make a deposed
coordinator harmless. It writes a task only at the version that it read, and its successor writes
every unfinished task again. Each assignment names the epoch of its coordinator's leadership, and
workers ignore assignments of an earlier epoch.
"""

import queue

import msgspec

from raykeeper.client import Client, WatchedEvent
from raykeeper.client.errors import BadVersionError
from raykeeper.commands.demo import job
from raykeeper.commands.demo.job import Assignment, Progress, Task, TaskState


class Coordinator:
    """One term. `run` returns when the job is finished or another coordinator took over."""

    def __init__(self, client: Client, name: str, epoch: int) -> None:
        self._client = client
        self._name = name
        self._epoch = epoch
        self._tasks: dict[int, Task] = {}
        self._versions: dict[int, int] = {}
        self._changed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(self) -> None:
        """Coordinate. The caller must have won the election."""
        try:
            self._take_over()
            while not self._step():
                self._changed.get()
            self._client.create(job.FINISHED)
        except BadVersionError:
            return  # another coordinator has written a task: this term is over

    def _take_over(self) -> None:
        """Read every task, and write the unfinished ones, so that a predecessor cannot write them.

        Assign each assigned task again: a predecessor may have died between writing a task and
        its assignment. The tasks that this coordinator had as a worker go to others.
        """
        numbers = sorted(map(int, self._client.get_children(job.TASKS)))
        reads = [self._client.get_async(f"{job.TASKS}/{number}") for number in numbers]
        for number, read in zip(numbers, reads, strict=True):
            value, stat = read.result()
            self._tasks[number] = job.decode(value, type=Task)
            self._versions[number] = stat.version
        for number, task in list(self._tasks.items()):
            if task.state is TaskState.ASSIGNED and task.worker != self._name:
                self._give(number, task.worker)
            elif task.state is not TaskState.DONE:
                self._write(number, TaskState.WAITING, "")

    def _step(self) -> bool:
        """Update tasks and assignments; return True when every task is done."""
        done = set(map(int, self._client.get_children(job.RESULTS, self._on_change)))
        members = set(self._client.get_children(job.WORKERS, self._on_change))
        for number, task in list(self._tasks.items()):
            if task.state is TaskState.DONE:
                continue
            if number in done:
                self._write(number, TaskState.DONE, task.worker)
            elif task.state is TaskState.ASSIGNED and task.worker not in members:
                self._write(number, TaskState.WAITING, "")
        self._assign(members - {self._name})
        progress = Progress(len(done), len(self._tasks))
        self._client.set(job.PROGRESS, job.encode(progress))
        return len(done) == len(self._tasks)

    def _assign(self, members: set[str]) -> None:
        assigned = [t for t in self._tasks.values() if t.state is TaskState.ASSIGNED]
        idle = sorted(members - {task.worker for task in assigned})
        waiting = [n for n, task in self._tasks.items() if task.state is TaskState.WAITING]
        for worker, number in zip(idle, waiting, strict=False):
            self._give(number, worker)

    def _give(self, number: int, worker: str) -> None:
        self._write(number, TaskState.ASSIGNED, worker)
        order = Assignment(self._epoch, number)
        self._client.set(f"{job.ORDERS}/{worker}", job.encode(order))

    def _write(self, number: int, state: TaskState, worker: str) -> None:
        task = msgspec.structs.replace(
            self._tasks[number], state=state, worker=worker, epoch=self._epoch
        )
        path = f"{job.TASKS}/{number}"
        stat = self._client.set(path, job.encode(task), self._versions[number])
        self._tasks[number], self._versions[number] = task, stat.version

    def _on_change(self, event: WatchedEvent) -> None:
        self._changed.put(event.path)
