"""Which nodes are lost, when a vote is back, and what counts as a change."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.chaos.lose_nodes import (
    LossSettings,
    changes_between,
    check_loss_settings,
    draw_losses,
    find_named,
    have_votes,
)
from raykeeper.clusters.config import ConfigError
from raykeeper.clusters.ensemble_status import EnsembleStatus, ServerStatus
from raykeeper.zab.ids import ServerId

ONE, TWO, THREE = ServerId(1), ServerId(2), ServerId(3)
HOMES = {ONE: 4, TWO: 0, THREE: 2}


def test_nodes_with_servers_are_lost_but_never_the_head() -> None:
    drawn = [tuple(draw_losses(HOMES, seed)) for seed in range(20)]
    assert set(drawn) == {(ONE, THREE), (THREE, ONE)}
    assert drawn == [tuple(draw_losses(dict(reversed(HOMES.items())), s)) for s in range(20)]


def test_of_three_servers_elsewhere_any_two_are_lost() -> None:
    drawn = {tuple(draw_losses({**HOMES, TWO: 1}, seed)) for seed in range(50)}
    assert len(drawn) == 6


def status(leader: int | None = 1, **changed: Any) -> EnsembleStatus:
    """Three servers that serve; `changed` are fields of server 3."""
    servers = [
        ServerStatus(ONE, "leader", pid=11, node_id="a"),
        ServerStatus(TWO, "follower", pid=12, node_id="b"),
        replace(ServerStatus(THREE, "follower", pid=13, node_id="c"), **changed),
    ]
    return EnsembleStatus("e", servers, None if leader is None else ServerId(leader), None)


@pytest.mark.parametrize(
    ("seen", "gone", "expected"),
    [
        (status(), [], True),
        (status(), ["d"], True),
        (status(), ["c"], False),
        (status(leader=None), [], False),
        (status(role="down"), [], False),
        (status(role="looking"), [], False),
        (status(problem="its disk is a new one"), [], False),
    ],
)
def test_votes_are_back_when_all_serve_elsewhere(
    seen: EnsembleStatus, gone: list[str], expected: bool
) -> None:
    assert have_votes(seen, gone) is expected


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (status(), []),
        (status(leader=2), ["server 1 led, now 2 does"]),
        (status(leader=None), ["server 1 led, now none does"]),
        (status(node_id="d", pid=14), ["server 3 moved"]),
        (status(pid=14), ["server 3 restarted"]),
        (status(problem="no room"), ["server 3: no room"]),
    ],
)
def test_changes_are_told(after: EnsembleStatus, told: list[str]) -> None:
    assert changes_between(status(), after) == told


def test_valid_options_are_accepted() -> None:
    assert check_loss_settings(0, 0, 0) == LossSettings(0, 0, 0)
    assert check_loss_settings(10_000, 3_600, 7) == LossSettings(10_000, 3_600, 7)


@pytest.mark.parametrize(
    ("tree_mb", "heal_after_s", "seed", "said"),
    [
        (-1, 1, 1, "--tree-mb must be from 0 to 10000, not -1"),
        (10_001, 1, 1, "--tree-mb must be from 0 to 10000, not 10001"),
        (1, -1, 1, "--heal-after-s must be from 0 to 3600, not -1"),
        (1, 3_601, 1, "--heal-after-s must be from 0 to 3600, not 3601"),
        (1, math.nan, 1, "--heal-after-s must be from 0 to 3600, not nan"),
        (1, math.inf, 1, "not inf"),
        (1, 1, -1, "--seed must not be negative"),
    ],
)
def test_invalid_options_are_refused(
    tree_mb: int, heal_after_s: float, seed: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check_loss_settings(tree_mb, heal_after_s, seed)


A, B = "/n/1/data/losses/1", "/n/2/data/losses/2"


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([], []),
        ([f"server 1 has its disk on x; {A} on y is out of date and left alone"], [A]),
        ([f"server 2 votes elsewhere: its folder on y is now {B}.stale-17"], [B]),
        ([f"is now {B}.stale-17", f"{A} on y is out of date"], [A, B]),
        ([f"{A}0 on y is out of date", f"is now {A}0.stale-17"], []),
    ],
)
def test_a_folder_is_named_where_it_is_or_by_its_new_name(
    lines: list[str], named: list[str]
) -> None:
    assert find_named([A, B], lines) == named
