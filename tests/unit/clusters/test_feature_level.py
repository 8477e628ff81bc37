"""What an operator is told of the feature level: which is in force, and why none higher."""

import pytest

from raykeeper.actors.replica_status import STARTING, ReplicaStatus
from raykeeper.clusters.feature_level import FeatureLevelStatus, feature_level_of, why_members_stay
from raykeeper.zab.ids import ServerId

HELD = (
    "you: all servers know it, and the setting feature_level_max is 1; set that to auto with "
    "`raykeeper up FILE --apply` to raise it, after which no server can go back to the version "
    "before"
)


def knows(newest: int, in_force: int = 1, raise_to: int | None = None) -> ReplicaStatus:
    return ReplicaStatus(
        server_id=ServerId(1),
        role="follower",
        pid=1,
        node_id="n",
        level=in_force,
        level_newest=newest,
        level_raise_to=newest if raise_to is None else raise_to,
    )


STARTS = ReplicaStatus(server_id=ServerId(1), role=STARTING, pid=1, node_id="n")


@pytest.mark.parametrize(
    ("answers", "leader", "expected"),
    [
        # In force is what the server has delivered that is furthest.
        ([knows(2, 2), knows(2, 2)], 1, FeatureLevelStatus(2, 2, "")),
        ([knows(2, 1), knows(2, 2)], 1, FeatureLevelStatus(2, 2, "")),
        # Some run the version before.
        (
            [knows(2), knows(1), knows(1)],
            1,
            FeatureLevelStatus(1, 2, "the new version on server 2, 3"),
        ),
        # One is down, starts, or is of a version that does not tell.
        (
            [knows(2), "its process died", STARTS],
            1,
            FeatureLevelStatus(1, 2, "server 2, 3, to follow and tell what its program knows"),
        ),
        # All know it: what holds it is the setting of the leader.
        ([knows(2, raise_to=1), knows(2)], 1, FeatureLevelStatus(1, 2, HELD)),
        (
            [knows(2, raise_to=1), knows(2)],
            2,
            FeatureLevelStatus(1, 2, "all servers to follow the leader, which raises it then"),
        ),
        ([knows(2), knows(2)], None, FeatureLevelStatus(1, 2, "a leader")),
        # Nobody tells.
        (["dead", STARTS], None, None),
        ([], None, None),
    ],
)
def test_the_level_and_what_the_next_one_waits_for(
    answers: list[ReplicaStatus | str], leader: int | None, expected: FeatureLevelStatus | None
) -> None:
    heard = {ServerId(number): answer for number, answer in enumerate(answers, 1)}
    assert feature_level_of(heard, None if leader is None else ServerId(leader)) == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        # Not known, in force, or a later one: the leader has the last word.
        (None, ""),
        (FeatureLevelStatus(2, 2, ""), ""),
        (FeatureLevelStatus(2, 3, "a leader"), ""),
        # Not yet.
        (
            FeatureLevelStatus(1, 2, "a leader"),
            "the members can change from feature level 2 on, and 1 is in force; level 2 waits for "
            "a leader",
        ),
        (
            FeatureLevelStatus(1, 1, ""),
            "the members can change from feature level 2 on, and 1 is in force",
        ),
    ],
)
def test_members_change_from_a_level_on(level: FeatureLevelStatus | None, expected: str) -> None:
    assert why_members_stay(level) == expected
