"""Each rule about the member list: facts with a fault, what it finds, and healthy ones."""

import pytest
from msgspec.structs import replace

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.member_rules import MEMBER_RULES
from raykeeper.zab.ids import ServerId
from tests.unit.clusters.doctor.healthy import HEALTHY, Planted, cases, found_by, server

GROWS = replace(HEALTHY, servers=(*HEALTHY.servers, server(4)))
LEFT = replace(GROWS, change="add server 4", is_change_left=True)
FOUND = [("server 4", "runs, and is not in the member list")]

PLANTED: Planted = {
    "members.stranger": [
        (GROWS, FOUND),
        (LEFT, FOUND),
        # Somebody is at it.
        (replace(LEFT, is_change_left=False), []),
        (replace(GROWS, observers=(ServerId(4),)), []),
    ],
    "members.change_left": [
        (LEFT, [("the ensemble", "has a change of its members that was left: add server 4")]),
        (replace(LEFT, is_change_left=False), []),
    ],
}


@pytest.mark.parametrize(("name", "facts", "found"), cases(PLANTED))
def test_finds(name: str, facts: EnsembleFacts, found: list[tuple[str, str]]) -> None:
    assert found_by(MEMBER_RULES, name, facts) == found


@pytest.mark.parametrize("name", [rule.name for rule in MEMBER_RULES])
def test_finds_a_planted_fault_and_nothing_else(name: str) -> None:
    assert any(found for _, found in PLANTED[name])
    assert found_by(MEMBER_RULES, name, HEALTHY) == []
