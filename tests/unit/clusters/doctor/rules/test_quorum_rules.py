"""Each rule about the ensemble as a whole: facts with a fault, what it finds, and healthy ones."""

import pytest
from msgspec.structs import replace

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts, KeeperFacts
from raykeeper.clusters.doctor.rules.quorum_rules import QUORUM_RULES
from raykeeper.zab.ids import ServerId
from tests.unit.clusters.doctor.healthy import (
    HEALTHY,
    Planted,
    cases,
    found_by,
    server,
    with_server,
)

LATE = "no answer within 2 s"
DOWN = with_server(1, problem=LATE)
LEADERLESS = replace(HEALTHY, leader=None, leader_problem="heard server 1")
OF_FIVE = replace(
    HEALTHY,
    voters=tuple(ServerId(each) for each in range(1, 6)),
    servers=tuple(server(each) for each in range(1, 6)),
)
SINGLE = replace(HEALTHY, voters=(ServerId(3),), servers=(server(3),))

PLANTED: Planted = {
    "quorum.no_leader": [(LEADERLESS, [("the ensemble", "has no leader: heard server 1")])],
    "server.down": [
        (DOWN, [("server 1", LATE)]),
        (
            with_server(3, problem=LATE),
            [("server 3", f"leads, but Ray does not reach it: {LATE}")],
        ),
    ],
    "quorum.next_loss": [
        (
            DOWN,
            [
                (
                    "the ensemble",
                    "2 of 3 voting servers work: one more loss of server 2 or 3 stops writes",
                )
            ],
        ),
        # Whoever waits for its vote, follows nobody or somebody else counts for nothing.
        *(
            (
                with_server(2, **change),
                [
                    (
                        "the ensemble",
                        "2 of 3 voting servers work: one more loss of server 1 or 3 stops writes",
                    )
                ],
            )
            for change in ({"votes": False}, {"is_active": False}, {"leader": ServerId(1)})
        ),
        (
            with_server(1, OF_FIVE, problem=LATE),
            [
                (
                    "the ensemble",
                    "4 of 5 voting servers work: it bears 1 more loss, and not 2",
                )
            ],
        ),
        (
            with_server(
                1,
                replace(
                    OF_FIVE,
                    voters=tuple(ServerId(each) for each in range(1, 8)),
                    servers=tuple(server(each) for each in range(1, 8)),
                ),
                problem=LATE,
            ),
            [
                (
                    "the ensemble",
                    "6 of 7 voting servers work: it bears 2 more losses, and not 3",
                )
            ],
        ),
        # A leader that Ray does not reach works, since a majority follows it.
        (with_server(3, problem=LATE), []),
        # Without a leader there is nothing left to lose, and one server was never made for a loss.
        (LEADERLESS, []),
        (SINGLE, []),
    ],
    "quorum.node_loss": [
        (
            with_server(1, node_id="node2"),
            [("node host2", "has servers 1 and 2: its loss stops writes")],
        ),
        # A node that does not report is named by its id.
        (
            with_server(1, with_server(2, node_id="f00d" * 8), node_id="f00d" * 8),
            [("node f00df00d", "has servers 1 and 2: its loss stops writes")],
        ),
        (with_server(1, with_server(2, OF_FIVE, node_id="node1"), node_id="node1"), []),
        (with_server(1, DOWN, node_id="node2"), []),
        (with_server(1, with_server(2, node_id=""), node_id=""), []),
    ],
    "vote.missing": [
        (
            with_server(2, votes=False, reset_reason="its disk is a new one"),
            [("server 2", "waits for its vote: its disk is a new one")],
        ),
        (
            with_server(2, votes=False),
            [("server 2", "waits for its vote: its disk is not in the member list")],
        ),
        (replace(with_server(2, votes=False), voters=(ServerId(1), ServerId(3))), []),
    ],
    "link.missing": [
        (
            with_server(1, links={ServerId(2): "linked", ServerId(3): "refused"}),
            [("server 1", "has no link to server 3: refused")],
        ),
        # A server that is down has a finding of its own.
        (with_server(3, with_server(1, links={ServerId(3): "refused"}), problem=LATE), []),
    ],
    "digest.differs": [
        (
            with_server(2, digest=0xDEF),
            [
                (
                    "the ensemble",
                    "has different trees at 2:7: 0x0000000000000abc on 1, "
                    "0x0000000000000def on 2, 0x0000000000000abc on 3",
                )
            ],
        ),
        # After different transactions trees differ, and a tree may not be hashed yet.
        (with_server(2, digest=0xDEF, zxid=HEALTHY.servers[0].zxid + 1), []),
        (with_server(2, digest=0), []),
        (with_server(2, digest=0xDEF, is_active=False), []),
    ],
    "settings.differ": [
        (
            with_server(2, settings={"tick_ms": 100}, facts=with_server(1, settings={})),
            [],
        ),
        # Values count, not their texts.
        (with_server(2, settings={"heal_after_s": 300.0, "stale_folder_days": 7}), []),
        (
            with_server(2, settings={"heal_after_s": 0, "stale_folder_days": 7}),
            [
                (
                    "the ensemble",
                    "runs with different settings: heal_after_s is 300 on 1, 0 on 2, 300 on 3",
                )
            ],
        ),
    ],
    "keeper.missing": [
        (
            replace(HEALTHY, keeper=KeeperFacts(False)),
            [("the ensemble", "has no keeper, though heal_after_s is 300")],
        ),
        (replace(HEALTHY, keeper=KeeperFacts(False), settings={"heal_after_s": 0}), []),
        (replace(HEALTHY, keeper=KeeperFacts(False), settings={}), []),
    ],
    "keeper.problem": [
        (
            replace(HEALTHY, keeper=KeeperFacts(True, "no node for server 2")),
            [("the keeper", "no node for server 2")],
        ),
    ],
}


@pytest.mark.parametrize(("name", "facts", "found"), cases(PLANTED))
def test_finds(name: str, facts: EnsembleFacts, found: list[tuple[str, str]]) -> None:
    assert found_by(QUORUM_RULES, name, facts) == found


@pytest.mark.parametrize("name", [rule.name for rule in QUORUM_RULES])
def test_finds_a_planted_fault_and_nothing_else(name: str) -> None:
    assert any(found for _, found in PLANTED[name])
    assert found_by(QUORUM_RULES, name, HEALTHY) == []
