"""What ZooKeeper's admin server answers: a few of its commands, as values for a JSON document.

The document always has `command` and `error`, which is None unless the command is unknown or the
server does not serve.

ZooKeeper: `admin.Commands`; an error is no error of HTTP there either.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from raykeeper.server.connection_stats import ConnectionStats
from raykeeper.server.four_letter_words import NOT_SERVING
from raykeeper.server.monitoring import VERSION, average_of, monitor_values, server_state
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.server.stats import ServerStats

Document = dict[str, Any]


class AdminInput(Struct, frozen=True):
    """The numbers that the commands show."""

    stats: ServerStats
    connections: Sequence[ConnectionStats]
    facts: ProcessFacts
    host: str
    """The address of the server's node."""


def answer_command(name: str, given: AdminInput) -> Document:
    """Return the document for a command, by its name or its four letters."""
    command = _ALIASES.get(name, name)
    if command not in _COMMANDS:
        return {"command": name, "error": f"Unknown command: {name}"}
    if not (given.stats.is_active or given.stats.is_read_only):
        return {"command": command, "error": NOT_SERVING.rstrip()}
    return {**_COMMANDS[command](given), "command": command, "error": None}


def _monitor(given: AdminInput) -> Document:
    return dict(monitor_values(given.stats, given.facts))


def _leader(given: AdminInput) -> Document:
    stats = given.stats
    is_leader = stats.learners is not None
    return {
        "is_leader": is_leader,
        "leader_id": -1 if stats.leader is None else stats.leader,
        "leader_ip": given.host if is_leader else "",  # of another server it is not known here
    }


def _is_read_only(given: AdminInput) -> Document:
    return {"read_only": not given.stats.is_active}


def _server_stats(given: AdminInput) -> Document:
    stats, facts = given.stats, given.facts
    latency = stats.latency
    return {
        "version": VERSION,
        "read_only": not stats.is_active,
        "server_stats": {
            "packets_sent": stats.packets_sent,
            "packets_received": stats.packets_received,
            "server_state": server_state(stats),
            "outstanding_requests": stats.outstanding,
            "min_latency": latency.min_ms,
            "avg_latency": average_of(latency),
            "max_latency": latency.max_ms,
            "data_dir_size": facts.snapshot_bytes,
            "log_dir_size": facts.log_bytes,
            "last_processed_zxid": stats.last_zxid,
            "num_alive_client_connections": stats.connections,
            "uptime": stats.uptime_ms,
        },
        "node_count": stats.znodes,
    }


def _stats(given: AdminInput) -> Document:
    connections = [
        {
            "remote_socket_address": f"{each.host}:{each.port}",
            "interest_ops": int(each.is_read),
            "outstanding_requests": each.outstanding,
            "packets_received": each.packets_received,
            "packets_sent": each.packets_sent,
        }
        for each in given.connections
    ]
    return {**_server_stats(given), "connections": connections}


_COMMANDS: Final[dict[str, Callable[[AdminInput], Document]]] = {
    "is_read_only": _is_read_only,
    "leader": _leader,
    "monitor": _monitor,
    "ruok": lambda _: {},
    "server_stats": _server_stats,
    "stats": _stats,
}
_ALIASES: Final = {
    "isro": "is_read_only",
    "lead": "leader",
    "mntr": "monitor",
    "srvr": "server_stats",
    "stat": "stats",
}
COMMANDS: Final = tuple(_COMMANDS)
