"""The task and the report of a load generator, which may be written in any language.

A generator is a process. Its arguments are the fields of a `LoadTask` as `name=value`. It connects,
prepares its znodes, prints `ready`, waits for a line, works, and prints one `LoadReport` in JSON.

A generator of a kind in `REPEATED` then keeps its sessions and begins again with `ready`, so that
it can be warmed by the load for which it is measured. The line may change fields of the task for
one round, as `name=value name=value`. Such a generator ends with the line `end`; every other one
after its report.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct

READY = "ready"
GO = "go"
END = "end"
PAUSE_S = 0.02
"""A shorter time without a write does not count as a pause."""

Kind = Literal[
    "mixed",
    "creates",
    "one_by_one",
    "pipelined",
    "latency",
    "sets",
    "fill",
    "barriers",
    "returns",
    "watchers",
    "contenders",
    "members",
    "bystander",
    "idle",
    "silent",
    "slow",
    "lengths",
    "unread",
    "connections",
]


REPEATED: Final[tuple[Kind, ...]] = (
    *("mixed", "creates", "one_by_one", "pipelined", "fill"),
    *("latency", "sets", "barriers"),
)
THREADED: Final = ("java",)
"""The clients of which one process uses all cores, and so has all sessions of a load."""


class LoadTask(Struct, frozen=True, kw_only=True):
    """One process of a load."""

    kind: Kind
    """mixed: reads and writes, `outstanding` of each client under way, for `seconds`.
    creates: each client creates `count` znodes, waits for each, and deletes it without waiting;
    without a `count` for `seconds`.
    one_by_one: one client creates `count` znodes, waiting for each; without a `count` for
    `seconds`, and deletes them when it has reported.
    pipelined, fill: the same with `outstanding` under way.
    latency: one client creates, sets, gets, gets linearizably, is told by a watch and, if its
    library has locks, locks and unlocks, `count` times each, one at a time; without a `count` for
    `seconds`.
    sets: one client sets one znode, one at a time, for `seconds`.
    barriers: each client enters `count` double barriers one after the other, then leaves them in
    the same order; `participants` clients of all processes are in each.
    watchers, contenders, members: the clients watch one znode, want one lock or join one group,
    until another line comes; the first `count` contenders release the lock at once.
    bystander: one client sets one znode every 10 ms, until another line comes.
    returns: the clients stay idle until another line comes; those of a killed server return.
    idle: each client opens a session, which does nothing for `seconds`.
    silent, slow, lengths, unread, connections: the clients are hostile ones of ZooKeeper's port,
    until another line comes (`hostile_clients.py`).
    """
    client: str
    """The client library: kazoo, grpc, or for Raykeeper's own client its setting `links`."""
    where: str
    """The addresses of the servers, or the name of the ensemble. Of several places, separated by
    ";", the clients of a load take the first, the second and so on, each one (`where_of`)."""
    number: int
    """The number of this process in the load; the names of its znodes contain it."""
    first_client: int = 0
    """How many clients the processes before this one have."""
    clients: int = 1
    outstanding: int = 1
    reads_percent: int = 0
    seconds: float = 0
    count: int = 0
    value_bytes: int = 1024
    participants: int = 0
    session_timeout_s: float = 10.0
    """Of the sessions of `returns`."""


class LoadReport(Struct, kw_only=True):
    """The result of a task."""

    seconds: float
    """The time from the start signal to the last completion."""
    cpu_s: float
    """The processor time of the generator in that time."""
    threads: int = 1
    """The number of cores on which it can run at once."""
    done: int = 0
    errors: int = 0
    """Requests that failed, as they do when a server is killed; they are not in `done`."""
    counts: list[tuple[int, int, int]] = []
    """Completions, see `measures.Counts`."""
    pauses: list[tuple[float, float]] = []
    """Spans longer than `PAUSE_S` without a completed write."""
    timings: dict[str, list[tuple[float, float]]] = {}
    """For each kind of operation: the start of each request, and its microseconds."""


def task_arguments(task: LoadTask) -> list[str]:
    """Return the arguments of the process."""
    return [f"{name}={value}" for name, value in msgspec.structs.asdict(task).items()]


def parse_task(words: list[str]) -> LoadTask:
    """Parse the task from arguments.

    Raises:
        msgspec.ValidationError: the arguments are invalid.
    """
    return msgspec.convert(dict(word.partition("=")[::2] for word in words), LoadTask, strict=False)


def changed_task(task: LoadTask, line: str) -> LoadTask:
    """Return the task with the fields that a line changes.

    Raises:
        msgspec.ValidationError: the line is invalid.
    """
    return parse_task([*task_arguments(task), *(word for word in line.split() if "=" in word)])


def where_of(task: LoadTask, client: int) -> str:
    """Return the place to which the client of this number in its process connects."""
    places = task.where.split(";")
    return places[(task.first_client + client) % len(places)]


decode_report = msgspec.json.Decoder(LoadReport).decode
encode_report = msgspec.json.Encoder().encode
