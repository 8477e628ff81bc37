"""A bystander of pure servers in virtual time: what it waits, alone and beside a crowd."""

from itertools import count, pairwise

from raykeeper.bench.bystander import (
    DISK_S,
    LINK_S,
    READ_S,
    SEND_S,
    TURN_S,
    Crowd,
    VirtualServers,
    measure,
)

CLIENTS = 50
STEP_S = 1e-3
"""What the processor takes for a step here, on any machine: it is asked before and after."""


def test_every_phase_has_its_row() -> None:
    rows = list(measure(CLIENTS, changes=2, alone_s=0.5, processor_s=count(0, STEP_S).__next__))
    alone, read, *changes, queue = rows
    assert [row["phase"] for row in rows] == [
        *("alone", "all read at once", "a change", "a change", "all queue up at once"),
    ]
    # Through a follower: to the leader, to the followers, back, and to the client again.
    least_ms = (6 * LINK_S + DISK_S + 4 * (STEP_S + TURN_S)) * 1000
    for row in rows:
        assert least_ms < float(row["set_p50_ms"]) <= float(row["set_p99_ms"]), row
        assert least_ms < float(row["next_p99_ms"]), row
    assert float(alone["set_p99_ms"]) < 2 * least_ms
    # What comes at the same moment is read, and answered, in one turn.
    at_once_ms = (CLIENTS * (READ_S + SEND_S) + STEP_S) * 1000
    assert float(read["longest_turn_ms"]) > at_once_ms
    assert float(queue["seconds"]) * 1000 > at_once_ms
    assert all(float(row["seconds"]) > 4 * LINK_S for row in changes)


def test_what_comes_during_a_turn_waits_for_its_end() -> None:
    servers = VirtualServers(count(0, STEP_S).__next__)
    crowd = range(1, 1 + CLIENTS)
    servers.connect(crowd, servers.leader)
    Crowd(servers, crowd[1:]).watch()
    for server in servers.ids:
        turns = [(moment, moment + took) for i, moment, took in servers.turns if i == server]
        assert len(turns) > 2
        assert all(end <= began for (_, end), (began, _) in pairwise(turns)), turns
