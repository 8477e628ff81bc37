"""Each rule about a server: facts with a fault, what it finds, and healthy ones."""

import pytest

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.server_rules import SERVER_RULES
from tests.unit.clusters.doctor.healthy import (
    HEALTHY,
    Planted,
    cases,
    found_by,
    with_node,
    with_server,
)

PLANTED: Planted = {
    "port.closed": [
        (
            with_server(2, port_problems=("has no admin server: port 80 is taken",)),
            [("server 2", "has no admin server: port 80 is taken")],
        )
    ],
    "streams.closed": [
        (
            with_server(2, stream_problem="cannot listen"),
            [("server 2", "takes Ray calls only: it cannot listen")],
        )
    ],
    "files.few": [
        (with_server(2, clients_problem="takes 3 clients"), [("server 2", "takes 3 clients")])
    ],
    "clients.near_limit": [
        (with_server(2, clients=90), [("server 2", "has 90 clients and takes 100")]),
        (with_server(2, clients=89), []),
        (with_server(2, clients=0, clients_max=0), []),
    ],
    "server.drained": [
        (
            with_server(2, clients_to_move=0),
            [("server 2", "is drained: it takes no clients, and has 0 to move")],
        ),
        (with_server(2, clients_to_move=0, problem="late"), []),
    ],
    "sessions.near_limit": [
        (with_server(3, sessions=95), [("the ensemble", "has 95 sessions and takes 100")]),
        # All servers have the sessions; the leader counts.
        (with_server(1, sessions=95), []),
    ],
    "cpu.low_priority": [
        (
            with_node(2, load_percent=101),
            [
                (
                    "node host2",
                    "has 101 % of the work that its processors can do at once, and runs server 2 "
                    "at a niceness of 15, where the setting `niceness` is 0: it needs root",
                )
            ],
        ),
        (with_node(2, load_percent=100), []),
        (with_server(2, with_node(2, load_percent=900), niceness=0), []),
        (with_server(2, with_node(2, load_percent=900), settings={"niceness": 15}), []),
        (with_server(2, with_node(2, load_percent=900), problem="late"), []),
    ],
    "memory.short": [
        (
            with_node(2, memory_percent=90),
            [
                (
                    "node host2",
                    "has 90 % of its memory in use: Ray's memory monitor ends workers at 95 %",
                )
            ],
        ),
        (
            with_node(2, memory_percent=96, memory_kill_percent=0),
            [("node host2", "has 96 % of its memory in use: the kernel may end processes")],
        ),
        (
            with_node(2, memory_percent=66, memory_kill_percent=70),
            [
                (
                    "node host2",
                    "has 66 % of its memory in use: Ray's memory monitor ends workers at 70 %",
                )
            ],
        ),
        (with_node(2, memory_percent=94, memory_kill_percent=0), []),
        (with_node(2, memory_percent=89), []),
        # A node without a server may be as full as it likes.
        (with_server(2, with_node(2, memory_percent=99), node_id="node1"), []),
    ],
}


@pytest.mark.parametrize(("name", "facts", "found"), cases(PLANTED))
def test_finds(name: str, facts: EnsembleFacts, found: list[tuple[str, str]]) -> None:
    assert found_by(SERVER_RULES, name, facts) == found


@pytest.mark.parametrize("name", [rule.name for rule in SERVER_RULES])
def test_finds_a_planted_fault_and_nothing_else(name: str) -> None:
    assert any(found for _, found in PLANTED[name])
    assert found_by(SERVER_RULES, name, HEALTHY) == []
