"""Which server a backup reads, from what the servers answer."""

from typing import Any

import pytest

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.backups.server_choice import (
    Position,
    checked_rate,
    in_order,
    newest_applied,
    position_of,
    rate_in,
)
from raykeeper.clusters.config import DEFAULTS, ConfigError
from raykeeper.zab.ids import Epoch, ServerId, Zxid


def status(server: int, role: str = "follower", **fields: Any) -> ReplicaStatus:
    return ReplicaStatus(
        server_id=ServerId(server),
        **{
            "role": role,
            "pid": 1,
            "node_id": "n",
            "is_active": True,
            "last_zxid": Zxid(9),
            **fields,
        },
    )


@pytest.mark.parametrize(
    ("answers", "avoided", "order"),
    [
        ([], [], []),
        # The leader last, observers first: they have the least to do.
        ([status(1, "leader"), status(2), status(3, "observer")], [], [3, 2, 1]),
        ([status(1, "leader"), status(2), status(3)], [2], [3, 1]),
        # Of several the one that is furthest.
        ([status(1, last_zxid=Zxid(5)), status(2, last_zxid=Zxid(7))], [], [2, 1]),
        # Not in step.
        ([status(1, "looking"), status(2, is_active=False), status(3, "starting")], [], []),
        (["no answer within 2 s", status(2, "leader")], [], [2]),
    ],
)  # fmt: skip
def test_the_order(
    answers: list[ReplicaStatus | str], avoided: list[int], order: list[int]
) -> None:
    told = {ServerId(n): answer for n, answer in enumerate(answers, 1)}
    assert in_order(told, [ServerId(each) for each in avoided]) == order


def test_a_backup_reaches_beyond_all_that_was_applied() -> None:
    told = {ServerId(1): status(1, last_zxid=Zxid(5)), ServerId(2): status(2, last_zxid=Zxid(8))}
    assert newest_applied(told) == 8
    assert newest_applied({ServerId(1): "its node is gone"}) == 0


def test_only_a_server_in_step_has_a_position() -> None:
    there = status(1, epoch=Epoch(3), digest=77)
    assert position_of(there) == Position(Zxid(9), Epoch(3), 77)
    assert position_of(status(1, digest=0)) == Position(Zxid(9), Epoch(0), None)
    assert position_of(status(1, is_active=False)) is None
    assert position_of("its actor is dead") is None
    assert position_of(None) is None


@pytest.mark.parametrize(
    ("settings", "mb_per_s"),
    [
        ({"backup_mb_per_s": 3}, 3),
        ({}, DEFAULTS.backup_mb_per_s),  # an earlier version
        ({"backup_mb_per_s": "auto"}, DEFAULTS.backup_mb_per_s),  # a later one
    ],
)
def test_the_rate_is_the_setting_of_the_ensemble(
    settings: dict[str, object], mb_per_s: float
) -> None:
    assert rate_in(settings) == mb_per_s


@pytest.mark.parametrize("rate", [0, 0.09, 100_001, float("nan"), -1])
def test_a_rate_out_of_bounds_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match=r"backup_mb_per_s: expected a number of megabytes"):
        checked_rate(rate)
