"""Rules about each server: its ports and limits, and what its node leaves it."""

from collections.abc import Iterator
from typing import Final

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.findings import (
    Fault,
    Rule,
    Severity,
    server_text,
    servers_text,
)

NEAR_LIMIT_PERCENT: Final = 90
"""From here on a limit is told before it is hit."""
BUSY_PERCENT: Final = 100
"""Load of a node from which on processes wait for its processors."""
MEMORY_MARGIN_PERCENT: Final = 5
"""How near to what ends workers the memory in use may come."""
MEMORY_SHORT_PERCENT: Final = 95
"""From here on the kernel may end workers, whose score it sets first, also without Ray."""


def port_closed(facts: EnsembleFacts) -> Iterator[Fault]:
    """A port that the settings ask for is not open."""
    for server in facts.answering():
        for problem in server.port_problems:
            yield Fault(server_text(server.server_id), problem)


def streams_closed(facts: EnsembleFacts) -> Iterator[Fault]:
    """A server takes no direct streams."""
    for server in facts.answering():
        if server.stream_problem:
            told = f"takes Ray calls only: it {server.stream_problem}"
            yield Fault(server_text(server.server_id), told)


def few_files(facts: EnsembleFacts) -> Iterator[Fault]:
    """The limit of open files bears fewer clients than the settings say."""
    for server in facts.answering():
        if server.clients_problem:
            yield Fault(server_text(server.server_id), server.clients_problem)


def many_clients(facts: EnsembleFacts) -> Iterator[Fault]:
    """A server has almost as many clients as it takes."""
    for server in facts.answering():
        if _is_near(server.clients, server.clients_max):
            told = f"has {server.clients} clients and takes {server.clients_max}"
            yield Fault(server_text(server.server_id), told)


def drained(facts: EnsembleFacts) -> Iterator[Fault]:
    """A server takes no clients because somebody drained it."""
    for server in facts.answering():
        if server.clients_to_move is not None:
            told = f"is drained: it takes no clients, and has {server.clients_to_move} to move"
            yield Fault(server_text(server.server_id), told)


def many_sessions(facts: EnsembleFacts) -> Iterator[Fault]:
    """The ensemble has almost as many sessions as it takes."""
    for server in facts.answering():
        if server.server_id == facts.leader and _is_near(server.sessions, server.sessions_max):
            told = f"has {server.sessions} sessions and takes {server.sessions_max}"
            yield Fault("the ensemble", told)


def low_priority(facts: EnsembleFacts) -> Iterator[Fault]:
    """A busy node gives its processors to everybody else first."""
    for node in facts.reporting():
        here = (each for each in facts.answering() if each.node_id == node.node_id)
        low = [each for each in here if each.niceness > each.settings.get("niceness", 0)]
        if low and node.load_percent > BUSY_PERCENT:
            told = (
                f"has {node.load_percent} % of the work that its processors can do at once, and "
                f"runs {servers_text([each.server_id for each in low])} at a niceness of "
                f"{low[0].niceness}, where the setting `niceness` is "
                f"{low[0].settings.get('niceness', 0)}: {low[0].priority_problem}"
            )
            yield Fault(f"node {node.name}", told)


def short_memory(facts: EnsembleFacts) -> Iterator[Fault]:
    """A node with a server is about to end processes."""
    at = {each.node_id for each in facts.answering()}
    for node in facts.reporting():
        by_ray = node.memory_kill_percent
        limit = min(by_ray, MEMORY_SHORT_PERCENT) if by_ray else MEMORY_SHORT_PERCENT
        near = limit - MEMORY_MARGIN_PERCENT if by_ray else limit
        if node.node_id in at and node.memory_percent >= near:
            who = f"Ray's memory monitor ends workers at {by_ray} %" if by_ray else "the kernel"
            told = f"has {node.memory_percent} % of its memory in use: {who}"
            yield Fault(f"node {node.name}", told if by_ray else f"{told} may end processes")


def _is_near(count: int, limit: int) -> bool:
    return limit > 0 and count * 100 >= limit * NEAR_LIMIT_PERCENT


_W, _E = Severity.WARNING, Severity.ERROR
SERVER_RULES = (
    Rule(
        "port.closed",
        _E,
        "Clients of ZooKeeper, or tools that read the admin server, do not reach this server.",
        "Free the port, mend the files, or install the package that the text names; the server "
        "tries the port again by itself.",
        port_closed,
    ),
    Rule(
        "streams.closed",
        _W,
        "Servers and clients reach it by Ray calls, which are many times slower.",
        "Mend what the text names, which is its address or Ray's TLS files, and restart the "
        "server.",
        streams_closed,
    ),
    Rule(
        "files.few",
        _W,
        "The server refuses clients earlier than its setting `clients_max` says.",
        "Raise the hard limit of open files (`ulimit -Hn`) where Ray is started on its node, or "
        "lower `clients_max`.",
        few_files,
    ),
    Rule(
        "clients.near_limit",
        _W,
        "The server is about to refuse clients; they go on to another server, if that has room.",
        "Add observers, or raise `clients_max` and the limit of open files.",
        many_clients,
    ),
    Rule(
        "server.drained",
        _W,
        "An operator, or a rolling restart that was interrupted, has its clients moved to the "
        "others; it votes.",
        "Go on with what the drain was for; restart the server, or have it take clients again with "
        "`raykeeper drain-server SERVER {name} --undo`.",
        drained,
    ),
    Rule(
        "sessions.near_limit",
        _W,
        "The ensemble is about to refuse sessions.",
        "Find out who opens them (`raykeeper sessions`), or raise `sessions_max`.",
        many_sessions,
    ),
    Rule(
        "cpu.low_priority",
        _W,
        "Ray gives its workers, and so the servers, a low priority, and they may not raise it: on "
        "a busy node they come last, and sessions expire.",
        "Start Ray with RAY_worker_niceness=0 on the nodes of the servers, or with the right to "
        "raise priorities that the text names; or take work away from the node. Then restart the "
        "servers (`raykeeper restart {name} --rolling`).",
        low_priority,
    ),
    Rule(
        "memory.short",
        _W,
        "Ray and the kernel end Ray's workers first when memory is short, and the servers are "
        "workers.",
        "Free memory on the node. RAY_memory_monitor_refresh_ms=0 keeps Ray, but not the kernel, "
        "from ending them.",
        short_memory,
    ),
)
