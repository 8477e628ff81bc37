"""To which node a server moves, and why to no other."""

import pytest

from raykeeper.clusters.healing.targets import choose_target
from raykeeper.clusters.healing.vocabulary import NodeSurvey, ServerLocation, Survey
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Millis, ServerId

S1, S2, S3, S4 = (ServerId(i) for i in range(1, 5))
NEW = DiskId("new")
LOCATIONS = {
    S1: ServerLocation("a", "a"),
    S2: ServerLocation("b", "b"),
    S3: ServerLocation("c", "c"),
}
FREE = 1_000


def node(name: str, **more: object) -> NodeSurvey:
    usual = {"fits": (S1, S2, S3), "free_bytes": FREE, "wall_s": 1_000}
    return NodeSurvey(node_id=name, name=f"host-{name}", **{**usual, **more})  # type: ignore[arg-type]


def survey(*nodes: NodeSurvey, unread: str = "", named: DiskId = FOUNDING_DISK) -> Survey:
    disks = {S1: FOUNDING_DISK, S2: FOUNDING_DISK, S3: named}
    return Survey(
        time_ms=Millis(0), nodes=nodes, unread={"x": unread} if unread else {}, voting_disks=disks
    )


A, B, D, E = node("a"), node("b"), node("d"), node("e")


@pytest.mark.parametrize(
    ("seen", "old_enough", "chosen", "problem"),
    [
        # A node without a server; of several the first.
        (survey(A, B, D), "abd", "d", ""),
        (survey(A, B, E, D), "abde", "d", ""),
        # Each other node, and why not.
        (survey(A, B), "ab", None, "host-a has server 1; host-b has server 2"),
        (survey(), "", None, "there is no other node"),
        (survey(A, B, D), "ab", None, "host-d is too new"),
        (survey(node("d", fits=(S1,))), "d", None, "host-d is not the one"),
        (survey(node("a", data_bytes=501), D), "ad", None, "host-d has 1000 bytes free, of 1002"),
        (survey(node("a", data_bytes=500), D), "ad", "d", ""),
        # A clock that is behind the others'.
        (survey(A, B, node("d", wall_s=939)), "abd", None, "host-d has a clock that is behind"),
        (survey(A, B, node("d", wall_s=940)), "abd", "d", ""),
        # One clock that is ahead is not the measure.
        (survey(A, B, D, node("e", wall_s=10**6, fits=())), "abde", "d", ""),
        # What cannot be read may be the disk with the vote.
        (survey(A, B, D, unread="host-x: does not answer"), "abd", None, "not all could tell"),
        # The disk with the vote: there, beside another server, whatever else is unread.
        (survey(A, B, D, node("e", disks={S3: FOUNDING_DISK}, fits=())), "abde", "e", ""),
        (survey(node("b", disks={S3: FOUNDING_DISK}), D, unread="x"), "bd", "b", ""),
        # It does not matter how long that node is there; if it goes, it does.
        (survey(D, node("e", disks={S3: FOUNDING_DISK}, wall_s=0)), "d", "e", ""),
        # An old disk, without the vote, draws it nowhere.
        (survey(D, node("e", disks={S3: FOUNDING_DISK}), named=NEW), "de", "d", ""),
        (survey(D, node("e", disks={S3: NEW}), named=NEW), "de", "e", ""),
    ],
)
def test_a_server_goes_to(seen: Survey, old_enough: str, chosen: str | None, problem: str) -> None:
    found = choose_target(S3, seen, LOCATIONS, [n.node_id for n in seen.nodes], list(old_enough))
    assert (None if found.node is None else found.node.node_id) == chosen
    assert problem in found.problem and bool(found.problem) == (chosen is None)


def test_the_node_on_which_it_was_may_be_the_one() -> None:
    """A node that is drained will go; one on which it was left stopped stays."""
    left = node("c", disks={S3: FOUNDING_DISK})
    assert choose_target(S3, survey(left, D), LOCATIONS, ["d"], ["d"]).node == D
    assert choose_target(S3, survey(left, D), LOCATIONS, ["c", "d"], ["c", "d"]).node == left
    assert choose_target(S3, survey(node("c")), LOCATIONS, ["c"], ["c"]).node == node("c")


def test_the_node_that_it_leaves_need_not_tell() -> None:
    """Ray runs no task on a node that it is about to lose."""
    silent = survey(A, B, D, unread="host-x: TaskUnschedulableError")
    assert choose_target(S3, silent, LOCATIONS, ["d"], ["d"], leaves="x").node == D
    assert choose_target(S3, silent, LOCATIONS, ["d"], ["d"], leaves="c").node is None


def test_a_node_that_will_go_is_none_though_it_has_the_disk() -> None:
    going = node("e", disks={S3: FOUNDING_DISK})
    found = choose_target(S3, survey(going, D), LOCATIONS, ["d"], ["d"])
    assert found.node == D


def test_an_observer_takes_a_node_too() -> None:
    locations = {**LOCATIONS, S4: ServerLocation("d", "d")}
    found = choose_target(S3, survey(D), locations, ["d"], ["d"])
    assert found.problem == "host-d has server 4"
