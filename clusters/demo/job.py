"""The znodes of the demo and what they hold: the state of a job that outlives its coordinator.

/demo/config             read and watched by every worker
/demo/workers/<worker>   ephemeral: the group; holds the process id
/demo/election/c-<n>     ephemeral and sequential: the lowest one is the coordinator
/demo/epoch              how many coordinators there were, and who is the last
/demo/tasks/<n>          a piece of text, and who works on it
/demo/orders/<worker>    which task a worker is to do, and by which coordinator's word
/demo/results/<n>        created once, by the worker that was first
/demo/progress           results so far, for those who watch
/demo/finished           created when every task has its result
"""

from enum import StrEnum

import msgspec
from msgspec import Struct

from raykeeper.clusters.demo.words import Piece

ROOT = "/demo"
CONFIG = f"{ROOT}/config"
WORKERS = f"{ROOT}/workers"
ELECTION = f"{ROOT}/election"
EPOCH = f"{ROOT}/epoch"
TASKS = f"{ROOT}/tasks"
ORDERS = f"{ROOT}/orders"
RESULTS = f"{ROOT}/results"
PROGRESS = f"{ROOT}/progress"
FINISHED = f"{ROOT}/finished"
FOLDERS = (ROOT, WORKERS, ELECTION, TASKS, ORDERS, RESULTS)

SESSION_TIMEOUT_S = 6.0
"""Well above the two seconds and a half in which a new leader is found over Ray calls: a session
that is not longer ends with the leader."""


class JobConfig(Struct, frozen=True):
    """What the workers take from the watched znode."""

    pause_ms: int
    """How long a worker rests before each piece, so that there is something to see."""


class Worker(Struct, frozen=True):
    """Value of a member's ephemeral znode."""

    pid: int


class CoordinatorTerm(Struct, frozen=True):
    """Value of the epoch znode. An order of an earlier epoch is void."""

    epoch: int
    coordinator: str


class TaskState(StrEnum):
    """How far a task is."""

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
    """Value of a worker's order znode; task -1 is none."""

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
