"""The numbers under ZooKeeper's names: means as texts, and what a role is called."""

import pytest
from msgspec.structs import replace

from raykeeper.server.monitoring import Average, server_state
from raykeeper.server.stats import LearnerCounts, ServerStats
from raykeeper.zab.effects import Role
from tests.harness.pure_servers import PureServer


@pytest.mark.parametrize(
    ("total", "count", "text"),
    [
        (0, 0, "0.0"),
        (0, 7, "0.0"),
        (6, 3, "2.0"),
        (25, 2, "12.5"),
        (1, 3, "0.3333"),
        (2, 3, "0.6667"),
        (1, 16, "0.0625"),
        (199_999, 100_000, "2.0"),
        (1 << 70, 1 << 60, "1024.0"),
    ],
)
def test_a_mean_has_at_most_four_digits_behind_the_point(total: int, count: int, text: str) -> None:
    assert str(Average(total, count)) == text


def learners(number: int) -> LearnerCounts:
    return LearnerCounts(number, number, 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "standalone"),
        ({"learners": learners(1)}, "leader"),  # an observer follows the only voter
        ({"learners": None, "is_active": False}, "standalone"),
        ({"voters": 3, "learners": learners(2)}, "leader"),
        ({"voters": 3, "role": Role.FOLLOWER}, "follower"),
        ({"voters": 1, "role": Role.OBSERVER}, "observer"),
        ({"voters": 3, "role": Role.LOOKING, "is_active": False}, "looking"),
        (
            {"voters": 3, "role": Role.LOOKING, "is_active": False, "is_read_only": True},
            "read-only",
        ),
        ({"voters": 3, "role": Role.FOLLOWER, "is_read_only": True}, "follower"),
    ],
)
def test_a_role_has_zookeepers_name(changes: dict[str, object], state: str) -> None:
    stats: ServerStats = replace(PureServer().server.stats(), **changes)
    assert server_state(stats) == state
