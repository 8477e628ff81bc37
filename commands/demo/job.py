"""The znodes of the demo and their values: the state of a job that outlives its coordinator.

/demo/config             read and watched by every worker
/demo/workers/<worker>   ephemeral: the members of the group; holds the pid
/demo/election           the election of the coordinator (client/recipes/election.py)
/demo/tasks/<n>          a piece of text, and the worker that has it
/demo/orders/<worker>    the assignment: the task of a worker, and the coordinator's epoch
/demo/results/<n>        created once, by the first worker that finished
/demo/progress           the number of results so far, for watchers
/demo/finished           created when every task has its result
"""

from enum import StrEnum

import msgspec
from msgspec import Struct

from raykeeper.commands.demo.words import Piece

ROOT = "/demo"
CONFIG = f"{ROOT}/config"
WORKERS = f"{ROOT}/workers"
ELECTION = f"{ROOT}/election"
TASKS = f"{ROOT}/tasks"
ORDERS = f"{ROOT}/orders"
RESULTS = f"{ROOT}/results"
PROGRESS = f"{ROOT}/progress"
FINISHED = f"{ROOT}/finished"
FOLDERS = (ROOT, WORKERS, TASKS, ORDERS, RESULTS)

SESSION_TIMEOUT_S = 6.0
"""Well above the 2.5 s that an election takes over Ray calls: a shorter session ends with the
leader."""


class JobConfig(Struct, frozen=True):
    """The settings that workers read from the watched znode."""

    pause_ms: int
    """How long a worker sleeps before each piece, so that the demo lasts long enough to watch."""


class Worker(Struct, frozen=True):
    """Value of a member's ephemeral znode."""

    pid: int


class TaskState(StrEnum):
    """The state of a task."""

    WAITING = "waiting"
    ASSIGNED = "assigned"
    DONE = "done"


class Task(Struct, frozen=True):
    """Value of a task's znode. Only the coordinator writes it, at the version it has read."""

    piece: Piece
    state: TaskState = TaskState.WAITING
    worker: str = ""
    epoch: int = 0


class Assignment(Struct, frozen=True):
    """Value of a worker's assignment znode; task -1 means no task."""

    epoch: int
    task: int


class Result(Struct, frozen=True):
    """Value of a result's znode."""

    worker: str
    epoch: int
    words: dict[str, int]


class Progress(Struct, frozen=True):
    """Value of the progress znode."""

    done: int
    total: int


encode = msgspec.json.encode
decode = msgspec.json.decode
