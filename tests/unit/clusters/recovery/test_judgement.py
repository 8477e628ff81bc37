"""The judgement over what is left: votes, the best history, what is lost, and what is refused."""

import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.epochs import Epochs
from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner
from raykeeper.actors.disk.members_file import StoredMembers
from raykeeper.actors.disk.storage_errors import ForeignFolder
from raykeeper.clusters.config import ConfigError, EnsembleConfig
from raykeeper.clusters.node_report import (
    EnsembleRecord,
    FoundFolder,
    NodeReport,
    UnreadableFolder,
)
from raykeeper.clusters.recovery.evidence import HeldFolder
from raykeeper.clusters.recovery.judgement import Judgement, judge, with_recorded_size
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.zab.member_list import MemberList

NODES = [NodeReport("n", "host", {}, [])]
CONFIG = EnsembleConfig(name="coord", servers=3)


def z(epoch: int, counter: int) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def held(
    server: int,
    *,
    current: int = 4,
    accepted: int = 0,
    last: Zxid | None = None,
    disk: str = "",
    voters: dict[int, str] | None = None,
    uuid: str = "u",
    supersedes: tuple[str, ...] = (),
    is_set_aside: bool = False,
    is_uncertain: bool = False,
    initial: Zxid | None = None,
    problem: str = "",
    folder: str = "",
) -> HeldFolder:
    owner = FolderOwner("coord", uuid, ServerId(server))
    identity = DiskIdentity(
        *(owner, disk or f"disk {server} {uuid}"),
        is_founding=not disk,
        incarnation=1,
        supersedes=list(supersedes),
    )
    last = z(current, 9) if last is None else last
    promises = Epochs(Epoch(accepted or current), Epoch(current), is_uncertain, initial or Zxid(0))
    return HeldFolder(
        *(ServerId(server), folder or f"/data/coord/{server}", is_set_aside),
        *(f"n{server}", f"host-{server}", identity, promises, last, last),
        last_ms=Millis(1_700_000_000_123),
        is_uncertain=is_uncertain,
        voters={ServerId(s): DiskId(d) for s, d in (voters or {}).items()},
        problem=problem,
    )


def reports(folders: list[HeldFolder], **more: object) -> list[NodeReport]:
    """What a launch sees of the same folders."""
    nodes = {}
    for server in (1, 2, 3):
        found = [
            FoundFolder(each.server_id, each.folder, each.identity)
            for each in folders
            if each.server_id == server and not each.is_set_aside
        ]
        nodes[server] = NodeReport(f"n{server}", f"host-{server}", {}, [], folders=found)
    nodes[3] = replace(nodes[3], **more)
    return list(nodes.values())


def judged(*folders: HeldFolder, config: EnsembleConfig = CONFIG, **more: object) -> Judgement:
    return judge(config, reports(list(folders), **more), folders)


@pytest.mark.parametrize(
    ("folders", "votes", "missing", "has_majority", "best"),
    [
        # All is there, or a majority is.
        ([held(1), held(2), held(3)], [1, 2, 3], [], True, 1),
        ([held(1), held(3)], [1, 3], [2], True, 1),
        # One of three is none, whatever it has; nor are none.
        ([held(2)], [2], [1, 3], False, 2),
        ([], [], [1, 2, 3], False, None),
        # A damaged disk has no vote: it starts again without its data.
        ([held(1), held(2, problem="damaged")], [1], [2, 3], False, 1),
        ([held(1, problem="a"), held(2, problem="b")], [], [1, 2, 3], False, None),
        # A vote rests on the disk that the best history names, as a member list does.
        ([held(1, voters={2: "new"}), held(2)], [1], [2, 3], False, 1),
        ([held(1, voters={2: "new"}), held(2, disk="new")], [1, 2], [3], True, 1),
        ([held(1, disk="x"), held(2, voters={1: "x"}, last=z(4, 10))], [1, 2], [3], True, 2),
        # An observer holds data and no vote.
        ([held(1), held(4)], [1], [2, 3], False, 1),
        # Two, of which one may have lost what it acknowledged, are no certain majority; three are.
        ([held(1), held(2, is_uncertain=True)], [1, 2], [3], False, 1),
        ([held(1), held(2, is_uncertain=True), held(3)], [1, 2, 3], [], True, 1),
        # What was set aside has no vote, and may be the best that is left.
        ([held(1, last=z(4, 2)), held(2, is_set_aside=True)], [1], [2, 3], False, 2),
        ([held(1, is_set_aside=True), held(2)], [2], [1, 3], False, 2),
    ],
)
def test_votes_and_the_best_history(
    folders: list[HeldFolder],
    votes: list[int],
    missing: list[int],
    has_majority: bool,
    best: int | None,
) -> None:
    found = judged(*folders, config=replace(CONFIG, observers=1))
    assert [found.folders[index].server_id for index in found.votes] == votes
    assert (found.missing, found.has_majority) == (missing, has_majority)
    assert (None if found.best is None else found.best.server_id) == best
    assert bool(found.refusal) is (has_majority or best is None)
    assert bool(found.losses) is (not has_majority and best is not None)


def test_a_folder_of_another_version_is_not_taken_for_lost() -> None:
    """With that version it may be one of a majority, from which nothing is lost."""
    other = replace(held(2, problem="has version 9"), is_other_version=True)
    found = judged(held(1), other)
    assert not found.has_majority and found.best is not None
    assert "server 2 is of another version" in found.refusal
    aside = replace(other, is_set_aside=True)
    assert judged(held(1), aside).refusal == ""
    assert "loses nothing" in judged(held(1), other, held(3)).refusal


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        # The current epoch goes before the zxid: the longer log may be of a deposed leader.
        (held(1, current=3, last=z(3, 90)), held(2, current=4, last=z(4, 1))),
        (held(1, current=3, last=z(3, 90)), held(2, current=4, last=z(3, 80))),
        (held(1, last=z(4, 8)), held(2, last=z(4, 9))),
        # A promise is no history.
        (held(1, current=3, accepted=9, last=z(3, 9)), held(2, current=4, last=z(3, 1))),
        # An uncertain log that lost what came with its epoch is as good as its last transaction.
        (
            held(1, current=5, last=z(3, 1), is_uncertain=True, initial=z(3, 9)),
            held(2, current=4, last=z(3, 2)),
        ),
    ],
)
def test_the_best_history_is_the_one_that_an_election_would_take(
    worse: HeldFolder, better: HeldFolder
) -> None:
    assert worse.rank < better.rank
    for order in ([worse, better], [better, worse]):
        assert judged(*order, config=replace(CONFIG, servers=5)).best is better


def test_an_uncertain_log_that_is_whole_keeps_its_epoch() -> None:
    assert held(1, current=5, last=z(3, 9), is_uncertain=True, initial=z(3, 9)).rank[0] == 5


def test_what_may_be_lost() -> None:
    only = replace_committed(held(2, current=4, last=z(4, 7)), z(4, 5))
    lost, kept, sessions = judged(only).losses
    assert "acknowledged after 4:7" in lost and "2023-11-14 22:13:20.123 UTC" in lost
    assert "missing disks of server 1, 3" in lost
    assert "what follows 4:5 up to 4:7" in kept and "is kept" in kept
    assert "all sessions end" in sessions
    torn = judged(held(1), held(2, is_uncertain=True)).losses
    assert "the log of server 2 was torn" in torn[1]


def replace_committed(folder: HeldFolder, committed: Zxid) -> HeldFolder:
    folder.committed = committed
    return folder


def test_all_promises_count_for_the_new_epoch() -> None:
    found = judged(
        held(1, accepted=7), held(2, accepted=9, problem="damaged"), HeldFolder(ServerId(3), "/x")
    )
    assert sorted(found.accepted) == [7, 9]


def test_what_a_launch_would_do() -> None:
    text = judged(held(1), held(2)).launch
    assert "starts server 1, 2 from its disk, and server 3 without a vote" in text
    assert "nothing is lost" in text
    text = judged(held(1)).launch
    assert "server 1 from its disk, and server 2, 3 without a vote" in text
    assert "1 of 3 votes are there, and 2 healthy ones are needed" in text
    assert "finds no disk" in judged().launch
    # Something that cannot be read may be the majority.
    unreadable = [UnreadableFolder(ServerId(3), "no permission")]
    found = judged(held(1), unreadable=unreadable)
    assert "starts nothing: no node that answered holds server 2, 3" in found.launch
    assert found.unread == ["host-3: no permission"]
    assert "server 3 is not started" in judged(held(1), held(2), unreadable=unreadable).launch


def test_another_number_of_servers_is_refused() -> None:
    with pytest.raises(ConfigError, match="has a server 4"):
        judge(CONFIG, [NodeReport("n", "n", {}, [], folders=[_of(held(4))])], [held(4)])


def _of(each: HeldFolder) -> FoundFolder:
    return FoundFolder(each.server_id, each.folder, each.identity)


def test_histories_of_two_ensembles_are_not_mixed() -> None:
    with pytest.raises(ForeignFolder, match="uuid v"):
        judge(CONFIG, NODES, [held(1), held(2, uuid="v")])
    with pytest.raises(ForeignFolder):
        judge(CONFIG, NODES, [held(1, is_set_aside=True), held(2, uuid="v", is_set_aside=True)])
    # A foreign folder that was set aside is no source; without an identity it is nobody's.
    found = judge(CONFIG, NODES, [held(1), held(2, uuid="v", last=z(9, 9), is_set_aside=True)])
    assert found.best is not None and found.best.server_id == 1


def test_a_recovery_that_was_interrupted_goes_on_from_its_own_folders() -> None:
    new = held(1, uuid="v", supersedes=("u",), current=10_004, last=z(4, 9))
    old = held(2, last=z(4, 12))
    found = judge(CONFIG, NODES, [old, new])
    assert (found.uuid, found.superseded, found.best) == ("v", ["u"], new)
    assert [found.folders[index] for index in found.votes] == [new]
    # It was interrupted between the two names of the only folder.
    found = judge(CONFIG, NODES, [held(1, is_set_aside=True)])
    assert found.uuid == "u" and found.best is not None and found.votes == []


def test_a_folder_that_two_nodes_see_is_one() -> None:
    here, there = held(1), held(1)
    there.node_id = "n2"
    assert len(judge(CONFIG, NODES, [here, there]).folders) == 1
    both = [HeldFolder(ServerId(1), "/x", node_id=node) for node in ("a", "b")]
    assert len(judge(CONFIG, NODES, both).folders) == 2


def test_the_number_of_servers_is_that_on_the_disks() -> None:
    node = NodeReport(
        "n", "n", {}, [], record=EnsembleRecord("u", 5), folders=[_of(held(n)) for n in (1, 6)]
    )
    config = with_recorded_size(CONFIG, (), [node])
    assert (config.servers, config.observers) == (5, 1)
    stated = with_recorded_size(CONFIG, ("servers", "observers"), [node])
    assert stated == CONFIG
    assert with_recorded_size(CONFIG, (), []) == CONFIG


@pytest.mark.parametrize("removed", ["", "was not added, because the change was undone"])
def test_a_newcomer_that_was_not_added_is_no_observer(removed: str) -> None:
    """A change was interrupted before its first step, or undone then."""
    first = MemberList(ZERO, {ServerId(n): FOUNDING_DISK for n in (1, 2, 3)})
    newcomer = replace(_of(held(4)), members=StoredMembers(first, removed))
    founder = _of(held(1))
    node = NodeReport("n", "n", {}, [], record=EnsembleRecord("u", 3), folders=[founder, newcomer])
    config = with_recorded_size(CONFIG, (), [node])
    assert (config.servers, config.observers) == (3, 0)


def test_the_number_of_servers_is_that_of_the_newest_list() -> None:
    grown = MemberList(Zxid(9), {ServerId(n): FOUNDING_DISK for n in (1, 2, 4, 5, 6)})
    knows = replace(_of(held(1)), members=StoredMembers(grown))
    node = NodeReport("n", "n", {}, [], record=EnsembleRecord("u", 3), folders=[knows])
    config = with_recorded_size(CONFIG, (), [node])
    assert (config.servers, config.observers) == (5, 0)
    assert with_recorded_size(CONFIG, ("servers", "observers"), [node]) == CONFIG


def test_the_member_list_says_who_has_votes() -> None:
    """Grown from three servers to five, of which two are left: no majority, though two of three."""
    five = {ServerId(n): FOUNDING_DISK for n in (1, 2, 3, 4)} | {ServerId(5): DiskId("five")}
    left = [held(1), held(5, disk="five"), held(2, disk="another")]
    for each in left:
        each.members = five
    found = judged(*left, config=replace(CONFIG, observers=2))
    assert [found.folders[index].server_id for index in found.votes] == [1, 5]
    assert (found.servers, found.missing, found.has_majority) == (5, [2, 3, 4], False)
    assert "2 of 5 votes are there, and 3 healthy ones" in found.launch
