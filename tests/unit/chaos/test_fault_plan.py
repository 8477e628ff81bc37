"""The plan of faults: decided by its seed, and complete in every round."""

from collections.abc import Sequence
from itertools import islice

import pytest

from raykeeper.chaos.fault_plan import (
    ALL_KINDS,
    FREEZE_MS,
    KILL_OPERATOR,
    KINDS,
    LONE_LEADER_FREEZE_MS,
    ORDERLY_KINDS,
    PAUSE_MS,
    FaultAction,
    FaultKind,
    Kind,
    OrderlyKind,
    Target,
    are_orderly,
    choose_kinds,
    name_of,
)
from raykeeper.chaos.fault_plan import draw_faults as draw
from raykeeper.clusters.config import ConfigError


def test_a_seed_decides_everything() -> None:
    assert list(islice(draw(7), 50)) == list(islice(draw(7), 50))
    assert list(islice(draw(7), 50)) != list(islice(draw(8), 50))


@pytest.mark.parametrize("seed", range(5))
def test_a_round_holds_every_kind_once(seed: int) -> None:
    faults = list(islice(draw(seed, ALL_KINDS), 3 * len(ALL_KINDS)))
    for start in range(0, len(faults), len(ALL_KINDS)):
        assert {fault.kind for fault in faults[start : start + len(ALL_KINDS)]} == set(ALL_KINDS)
    for fault in faults:
        assert PAUSE_MS[0] <= fault.pause_ms <= PAUSE_MS[1]
        if isinstance(fault.kind, OrderlyKind):
            assert fault.freeze_ms == 0
        elif fault.kind.target is Target.LONE_LEADER:
            assert LONE_LEADER_FREEZE_MS[0] <= fault.freeze_ms <= LONE_LEADER_FREEZE_MS[1]
        elif fault.kind.action is FaultAction.FREEZE:
            assert FREEZE_MS[0] <= fault.freeze_ms <= FREEZE_MS[1]
        else:
            assert fault.freeze_ms == 0


def test_kinds_can_be_chosen() -> None:
    only = FaultKind(FaultAction.KILL, Target.LEADER)
    assert {fault.kind for fault in islice(draw(1, [only]), 5)} == {only}
    assert str(only) == "kill leader"


LEADER = FaultKind(FaultAction.KILL, Target.LEADER)


def kinds_of(action: FaultAction) -> list[FaultKind]:
    return [kind for kind in KINDS if kind.action is action]


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("all", ALL_KINDS),
        ("kill,freeze", [*kinds_of(FaultAction.KILL), *kinds_of(FaultAction.FREEZE)]),
        ("orderly", ORDERLY_KINDS),
        ("transfer, kill-leader,transfer", [OrderlyKind.TRANSFER, LEADER]),
        ("rolling-restart,kill-operator", [OrderlyKind.ROLLING_RESTART, KILL_OPERATOR]),
    ],
)
def test_kinds_and_groups_are_named(words: str, kinds: Sequence[Kind]) -> None:
    assert choose_kinds(words) == tuple(kinds)


@pytest.mark.parametrize("words", ["", "kill leader", "orderly,", "operator"])
def test_an_unknown_kind_is_refused_with_those_that_exist(words: str) -> None:
    with pytest.raises(ConfigError, match=r"--faults knows kill-leader, .*, orderly, all, but not"):
        choose_kinds(words)


def test_every_kind_has_a_name_of_its_own() -> None:
    assert len({name_of(kind) for kind in ALL_KINDS}) == len(ALL_KINDS)


def test_kills_of_servers_and_clients_are_not_orderly() -> None:
    assert are_orderly(ORDERLY_KINDS)
    assert not are_orderly([*ORDERLY_KINDS, LEADER])
