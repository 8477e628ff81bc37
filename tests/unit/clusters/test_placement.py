"""Placement: where each server goes, whether it may vote, and what is refused."""

import pytest

from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner
from raykeeper.actors.disk.storage_errors import ForeignFolder, StorageError
from raykeeper.clusters.config import (
    ConfigError,
    EnsembleConfig,
    LabelPin,
    PlacementPolicy,
    ResourcePin,
)
from raykeeper.clusters.node_report import (
    EnsembleRecord,
    FoundFolder,
    NodeReport,
    UnreadableFolder,
)
from raykeeper.clusters.placement import FolderFormat, PlacementError, place
from raykeeper.clusters.voting_disks import VotingDisks
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId

KEEP, VOTE, NO_VOTE = FolderFormat.KEEP, FolderFormat.FOUNDING, FolderFormat.JOINING


def hold(
    server_id: int,
    *,
    disk: str = "",
    started: bool = True,
    ensemble: str = "coord",
    uuid: str = "u",
    owner: int = 0,
    opened: int = 1,
) -> FoundFolder:
    identity = DiskIdentity(
        FolderOwner(ensemble, uuid, ServerId(owner or server_id)),
        disk_uuid=disk or f"disk {server_id}",
        is_founding=not disk,
        incarnation=opened if started else 0,
    )
    return FoundFolder(ServerId(server_id), f"/data/coord/{server_id}", identity)


def node(name: str, *holdings: FoundFolder, **more: object) -> NodeReport:
    settings = {"labels": {}, "resources": [], **more}
    return NodeReport(node_id=name, name=f"host-{name}", folders=list(holdings), **settings)


def placements_of(
    nodes: list[NodeReport],
    running: dict[int, str] | None = None,
    placement: PlacementPolicy | LabelPin | ResourcePin = "auto",
    servers: int = 3,
    observers: int = 0,
) -> list[tuple[int, str, FolderFormat]]:
    config = EnsembleConfig(servers=servers, observers=observers, placement=placement)
    at = {ServerId(server_id): node_id for server_id, node_id in (running or {}).items()}
    return [
        (each.server_id, each.node_id, each.format) for each in place(config, nodes, at).placements
    ]


@pytest.mark.parametrize(
    ("nodes", "running", "expected"),
    [
        # A new ensemble is spread, in the order of the node ids, and every server has a vote.
        ([node("a")], {}, [(1, "a", VOTE), (2, "a", VOTE), (3, "a", VOTE)]),
        ([node("b"), node("a")], {}, [(1, "a", VOTE), (2, "b", VOTE), (3, "a", VOTE)]),
        (
            [node("a"), node("b"), node("c"), node("d")],
            {},
            [(1, "a", VOTE), (2, "b", VOTE), (3, "c", VOTE)],
        ),
        # A server goes where its disk is, even if others are there already.
        (
            [node("a", hold(3)), node("b", hold(1)), node("c", hold(2))],
            {},
            [(1, "b", KEEP), (2, "c", KEEP), (3, "a", KEEP)],
        ),
        (
            [node("a", hold(1), hold(2), hold(3)), node("b")],
            {},
            [(1, "a", KEEP), (2, "a", KEEP), (3, "a", KEEP)],
        ),
        # A disk that is gone: no vote, on the emptiest node.
        (
            [node("a", hold(1)), node("b", hold(2)), node("c")],
            {},
            [(1, "a", KEEP), (2, "b", KEEP), (3, "c", NO_VOTE)],
        ),
        ([node("a", hold(1)), node("b")], {1: "a", 2: "b"}, [(3, "a", NO_VOTE)]),
        # A launch that broke off while formatting: nothing was promised yet.
        (
            [node("a", hold(1, started=False)), node("b")],
            {},
            [(1, "a", KEEP), (2, "b", VOTE), (3, "a", VOTE)],
        ),
        # What runs stays.
        ([node("a", hold(1)), node("b", hold(2))], {1: "a", 3: "b"}, [(2, "b", KEEP)]),
        ([node("a")], {1: "a", 2: "a", 3: "a"}, []),
        # A shared file system: every node sees every disk.
        (
            [node("a", hold(1), hold(2), hold(3)), node("b", hold(1), hold(2), hold(3))],
            {},
            [(1, "a", KEEP), (2, "b", KEEP), (3, "a", KEEP)],
        ),
    ],
)
def test_servers_are_placed_where_their_disks_are(
    nodes: list[NodeReport], running: dict[int, str], expected: list[tuple[int, str, FolderFormat]]
) -> None:
    assert placements_of(nodes, running) == expected
    assert placements_of(nodes[::-1], running) == expected


def test_pins_choose_the_nodes() -> None:
    labelled = [node(name, labels={"slot": name}) for name in "123"]
    assert placements_of(labelled, placement=LabelPin("slot")) == [
        (1, "1", VOTE),
        (2, "2", VOTE),
        (3, "3", VOTE),
    ]
    with pytest.raises(PlacementError, match="no node has the label slot=3"):
        placements_of(labelled[:2], placement=LabelPin("slot"))
    with_resource = [node(name, resources=["CPU", f"disk_{name}"]) for name in "321"]
    assert [each[:2] for each in placements_of(with_resource, placement=ResourcePin("disk"))] == [
        (1, "1"),
        (2, "2"),
        (3, "3"),
    ]
    with pytest.raises(PlacementError, match="custom resource disk_1"):
        placements_of([node("a")], placement=ResourcePin("disk"))


def test_sharing_a_node_is_reported_or_refused() -> None:
    two = [node("a"), node("b")]
    plan = place(EnsembleConfig(), two, {})
    assert plan.warnings == [
        "servers of ensemble 'coord' share a node (2 on host-a); "
        "the loss of that node can stop the ensemble"
    ]
    assert place(EnsembleConfig(), [*two, node("c")], {}).warnings == []
    with pytest.raises(PlacementError, match="spread forbids"):
        place(EnsembleConfig(placement="spread"), two, {})


TWO = ServerId(2)
NOT_A_FOLDER = UnreadableFolder(TWO, "/data/coord/2: Not a directory")
SILENT = node("z", problem="does not answer")


@pytest.mark.parametrize(
    ("nodes", "expected", "reasons"),
    [
        # A healthy majority starts; what is missing is not formatted, whoever may hold it.
        (
            [node("a", hold(1), hold(3), unreadable=[NOT_A_FOLDER])],
            [(1, "a", KEEP), (3, "a", KEEP)],
            {TWO: ["host-a: /data/coord/2: Not a directory"]},
        ),
        (
            [node("a", hold(1)), node("b", hold(3)), SILENT],
            [(1, "a", KEEP), (3, "b", KEEP)],
            {TWO: ["host-z: does not answer"]},
        ),
        (
            [node("a", hold(1)), node("b", hold(3)), node("c", unreadable=[NOT_A_FOLDER]), SILENT],
            [(1, "a", KEEP), (3, "b", KEEP)],
            {TWO: ["host-c: /data/coord/2: Not a directory", "host-z: does not answer"]},
        ),
        # No founding disk either, although no server was ever started, as far as can be seen.
        (
            [node("a", hold(1, started=False), hold(3, started=False), unreadable=[NOT_A_FOLDER])],
            [(1, "a", KEEP), (3, "a", KEEP)],
            {TWO: ["Not a directory"]},
        ),
        # Found elsewhere, or nothing missing: nothing is refused.
        (
            [node("a", hold(1), hold(2), hold(3)), node("b", unreadable=[NOT_A_FOLDER]), SILENT],
            [(1, "a", KEEP), (2, "a", KEEP), (3, "a", KEEP)],
            {},
        ),
    ],
)
def test_found_disks_start_and_a_possibly_hidden_one_is_not_formatted(
    nodes: list[NodeReport],
    expected: list[tuple[int, str, FolderFormat]],
    reasons: dict[ServerId, list[str]],
) -> None:
    plan = place(EnsembleConfig(), nodes, {})
    assert [(each.server_id, each.node_id, each.format) for each in plan.placements] == expected
    assert set(plan.refused) == set(reasons)
    for server, words in reasons.items():
        assert "was not started: no node that answered holds it" in plan.refused[server]
        for each in words:
            assert each in plan.refused[server]


def test_running_servers_count_as_found() -> None:
    broken = node("a", unreadable=[NOT_A_FOLDER])
    plan = place(EnsembleConfig(), [broken], {ServerId(1): "a", ServerId(3): "a"}, "u")
    assert (plan.placements, list(plan.refused)) == ([], [TWO])
    plan = place(EnsembleConfig(), [broken], {ServerId(i): "a" for i in (1, 2, 3)}, "u")
    assert plan.refused == {}
    assert plan.warnings[-1] == (
        "host-a: /data/coord/2: Not a directory; server 2 is not started there"
    )


def test_an_observer_is_refused_like_the_others_and_needs_no_majority() -> None:
    config = EnsembleConfig(servers=1, observers=1)
    plan = place(config, [node("a", hold(1)), SILENT], {})
    assert ([each.server_id for each in plan.placements], list(plan.refused)) == ([1], [TWO])


DAMAGED = "ensemble.json is damaged"


@pytest.mark.parametrize(
    ("nodes", "records", "outcome"),
    [
        # All voters are there, or another node remembers how many there are.
        ([node("a", hold(1), hold(2), hold(3), record_damage=DAMAGED)], ["a"], "is written anew"),
        (
            [
                node("a", hold(1), record_damage=DAMAGED),
                node("b", hold(2), record=EnsembleRecord("u", 3)),
                SILENT,
            ],
            ["a"],
            "is written anew",
        ),
        # Nobody can say how many there are.
        (
            [node("a", hold(1), hold(2), record_damage=DAMAGED), SILENT],
            [],
            "counts as absent",
        ),
    ],
)
def test_a_damaged_record_counts_as_absent(
    nodes: list[NodeReport], records: list[str], outcome: str
) -> None:
    plan = place(EnsembleConfig(), nodes, {})
    assert {1, 2} <= {each.server_id for each in plan.placements}
    assert plan.damaged_record_nodes == records
    assert f"host-a: {DAMAGED}; it {outcome}" in plan.warnings


RECORD = EnsembleRecord("u", 5)


def test_a_server_whose_identity_is_damaged_is_started_where_its_disk_is() -> None:
    damaged = FoundFolder(ServerId(1), "/data/coord/1", None, "identity is damaged")
    found = placements_of([node("a", damaged), node("b", hold(2)), node("c", hold(3))])
    assert found == [(1, "a", KEEP), (2, "b", KEEP), (3, "c", KEEP)]
    with pytest.raises(
        StorageError, match=r"no identity .* is whole: identity is damaged \(host-a"
    ):
        placements_of([node("a", damaged), node("b")])


@pytest.mark.parametrize(
    ("nodes", "error", "words"),
    [
        (
            [node("a", hold(1, ensemble="other"))],
            ForeignFolder,
            "/data/coord/1 on host-a belongs to server 1 of ensemble 'other'",
        ),
        ([node("a", hold(1, owner=2))], ForeignFolder, "server 2 of ensemble 'coord'"),
        (
            [node("a", hold(1)), node("b", hold(2, uuid="v"))],
            ForeignFolder,
            "/data/coord/2 on host-b belongs to an ensemble 'coord' with uuid v",
        ),
        (
            [node("a", hold(1)), node("b", hold(1, disk="old"))],
            StorageError,
            "server 1 has 2 disks: /data/coord/1 on host-a (started 1970-01-01 00:00:01 UTC) and "
            "/data/coord/1 on host-b (started 1970-01-01 00:00:01 UTC); only a majority that runs "
            "knows which one has its vote, and no server runs; launch again when",
        ),
        ([node("a", hold(4))], ConfigError, "cannot have only 3 servers"),
        (
            [node("a", hold(1), record=RECORD)],
            ConfigError,
            "has 5 servers (recorded by host-a)",
        ),
        # While something cannot be read, nothing is formatted; without a majority nothing starts.
        (
            [node("a", hold(1)), node("b", problem="does not answer")],
            PlacementError,
            "no node that answered holds server 2, 3, but not all could tell: host-b: does not "
            "answer; found 1 of 3 voting servers, which is no majority",
        ),
        (
            [node("a", unreadable=[UnreadableFolder(TWO, "/data/coord/2: Not a directory")])],
            PlacementError,
            "holds server 1, 2, 3, but not all could tell: host-a: /data/coord/2: Not a directory",
        ),
        (
            [node("a", record_damage="ensemble.json is damaged")],
            PlacementError,
            "not all could tell: host-a: ensemble.json is damaged",
        ),
    ],
)
def test_an_impossible_placement_is_refused(
    nodes: list[NodeReport], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        placements_of(nodes)
    assert words in str(caught.value)


def test_a_folder_that_cannot_be_read_may_be_one_of_a_larger_ensemble() -> None:
    unreadable = [UnreadableFolder(ServerId(4), "/data/coord/4: Not a directory")]
    found = [hold(1), hold(2), hold(3)]
    with pytest.raises(ConfigError, match="has a server 4, so it cannot have only 3 servers"):
        placements_of([node("a", *found, unreadable=unreadable)])
    # Unless it is noted that there is none.
    of_three = node("a", *found, unreadable=unreadable, record=EnsembleRecord("u", 3))
    assert len(placements_of([of_three])) == 3


def test_observers_are_placed_like_voters() -> None:
    three = [node("a"), node("b"), node("c")]
    assert placements_of(three, servers=1, observers=2) == [
        (1, "a", VOTE),
        (2, "b", VOTE),
        (3, "c", VOTE),
    ]
    kept = [node("a", hold(1)), node("b", hold(3)), node("c")]
    assert placements_of(kept, servers=1, observers=2) == [
        (1, "a", KEEP),
        (2, "c", NO_VOTE),
        (3, "b", KEEP),
    ]


def test_an_existing_ensemble_may_gain_observers_and_not_lose_them() -> None:
    one = EnsembleRecord("u", 1)
    assert placements_of([node("a", hold(1), record=one)], servers=1, observers=1) == [
        (1, "a", KEEP),
        (2, "a", NO_VOTE),
    ]
    with pytest.raises(ConfigError, match="server 3, so it cannot have only 1 servers and 1 obs"):
        placements_of([node("a", hold(1), hold(3), record=one)], servers=1, observers=1)
    # Nor is a voter made an observer: what it promised would not count any more.
    with pytest.raises(ConfigError, match="has 5 servers"):
        placements_of([node("a", hold(1), record=RECORD)], servers=3, observers=2)


def test_a_silent_node_matters_only_if_a_disk_is_missing() -> None:
    silent = node("b", problem="does not answer")
    assert len(placements_of([node("a", hold(1), hold(2), hold(3)), silent])) == 3


def test_a_running_server_beyond_the_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match="has a server 3"):
        placements_of([node("a")], {1: "a", 3: "a"}, servers=1)


def test_a_record_without_folders_is_not_binding() -> None:
    assert len(placements_of([node("a", record=RECORD)])) == 3


NEW, OLD = hold(2, disk="new"), hold(2, disk="old")
ON_NEW = VotingDisks({ServerId(1): FOUNDING_DISK, TWO: DiskId("new"), ServerId(3): FOUNDING_DISK})
ON_FOUNDING = VotingDisks({TWO: FOUNDING_DISK})
RUN_1_3 = {ServerId(1): "a", ServerId(3): "c"}
LEFT_ALONE = (
    "server 2 has its disk on host-b; /data/coord/2 on host-z is out of date and left alone"
)
WITHOUT_VOTE = (
    "server 2: /data/coord/2 on host-z is not the disk on which its vote rests, which no node has; "
    "it starts without a vote and gets it from the others"
)


@pytest.mark.parametrize(
    ("nodes", "running", "voting", "seat", "warning"),
    [
        # The member list names one of two: it starts, and the other is named.
        ([node("b", NEW), node("z", hold(2))], RUN_1_3, ON_NEW, "b", LEFT_ALONE),
        ([node("b", NEW), node("z", OLD)], RUN_1_3, ON_NEW, "b", LEFT_ALONE),
        ([node("b", hold(2)), node("z", NEW)], RUN_1_3, ON_FOUNDING, "b", LEFT_ALONE),
        # Which of them was opened last does not count.
        (
            [node("b", NEW), node("z", hold(2, disk="old", opened=9))],
            RUN_1_3,
            ON_NEW,
            "b",
            LEFT_ALONE,
        ),
        # A server that runs has the disk of its node; which one is not asked.
        (
            [node("b", NEW), node("z", hold(2)), node("c", hold(3))],
            {ServerId(1): "a", TWO: "b"},
            VotingDisks(),
            None,
            LEFT_ALONE,
        ),
        # The disk with the vote is gone: another is as good as an empty one.
        ([node("b"), node("z", OLD)], RUN_1_3, ON_NEW, "z", WITHOUT_VOTE),
        ([node("b"), node("z", hold(2))], RUN_1_3, ON_NEW, "z", WITHOUT_VOTE),
        # Nothing is wrong.
        ([node("b", NEW), node("z")], RUN_1_3, ON_NEW, "b", None),
        ([node("b", NEW), node("z", NEW)], RUN_1_3, ON_NEW, "b", None),
    ],
)
def test_the_disk_with_the_vote_starts_and_others_are_left_alone(
    nodes: list[NodeReport],
    running: dict[ServerId, str],
    voting: VotingDisks,
    seat: str | None,
    warning: str | None,
) -> None:
    for reports in (nodes, nodes[::-1]):
        plan = place(EnsembleConfig(), reports, running, "u", voting)
        assert [each.node_id for each in plan.placements if each.server_id == TWO] == (
            [] if seat is None else [seat]
        )
        assert all(each.format is KEEP for each in plan.placements)
        assert plan.warnings == ([] if warning is None else [warning])
        assert plan.refused == {}


DAMAGED_2 = FoundFolder(TWO, "/data/coord/2", None, "identity is damaged")


@pytest.mark.parametrize(
    ("nodes", "voting", "words"),
    [
        # The list is unknown, or says nothing of a server whose vote is moving.
        ([node("b", NEW), node("z", OLD)], VotingDisks(doubt="no leader answers"), "no leader ans"),
        (
            [node("b", NEW), node("z", OLD)],
            VotingDisks({ServerId(1): FOUNDING_DISK}, ""),
            "its vote is moving to another disk",
        ),
        # It names neither of them, or perhaps the damaged one.
        ([node("b", OLD), node("z", hold(2))], ON_NEW, "none of them is the only one on which its"),
        ([node("b", OLD), node("z", DAMAGED_2)], ON_NEW, "host-z (its identity is damaged)"),
        # The only one that was found is not the one with the vote, which may be hidden.
        (
            [node("b", OLD), node("z", problem="does not answer")],
            ON_NEW,
            "was not started: /data/coord/2 on host-b is not the disk on which its vote rests, and "
            "that one may be where not all could tell: host-z: does not answer",
        ),
        (
            [node("b", OLD), node("z", unreadable=[NOT_A_FOLDER])],
            ON_NEW,
            "may be where not all could tell: host-z: /data/coord/2: Not a directory",
        ),
    ],
)
def test_no_disk_starts_in_the_place_of_one_that_may_have_the_vote(
    nodes: list[NodeReport], voting: VotingDisks, words: str
) -> None:
    plan = place(EnsembleConfig(), nodes, RUN_1_3, "u", voting)
    assert plan.placements == []
    assert list(plan.refused) == [TWO]
    assert words in plan.refused[TWO]


def test_the_others_start_without_a_server_of_two_disks_if_they_are_a_majority() -> None:
    """Once they run, they know which one counts; fewer never would."""
    two = [node("b", NEW), node("z", OLD)]
    plan = place(EnsembleConfig(), [node("a", hold(1)), node("c", hold(3)), *two], {})
    assert [each.server_id for each in plan.placements] == [1, 3]
    assert "has 2 disks" in plan.refused[TWO]
    assert "launch again when the others run, or move away" in plan.refused[TWO]
    with pytest.raises(StorageError, match="server 2 has 2 disks"):
        place(EnsembleConfig(), [node("a", hold(1)), *two], {})


def test_of_several_disks_of_an_observer_the_last_opened_one_starts() -> None:
    """An observer has no vote and promises nothing: any disk is safe."""
    config = EnsembleConfig(servers=1, observers=1)
    older, newer = hold(2, opened=5), hold(2, disk="new", opened=6)
    damaged = FoundFolder(TWO, "/data/coord/2", None, "identity is damaged")
    nodes = [node("a", hold(1)), node("b", newer), node("y", damaged), node("z", older)]
    for reports in (nodes, nodes[::-1]):
        plan = place(config, reports, {ServerId(1): "a"}, "u")
        assert [(each.server_id, each.node_id) for each in plan.placements] == [(2, "b")]
        assert [text.split("; ")[1] for text in plan.warnings] == [
            "/data/coord/2 on host-y is out of date and left alone",
            "/data/coord/2 on host-z is out of date and left alone",
        ]
