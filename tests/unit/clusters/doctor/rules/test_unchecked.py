"""What the doctor says that it has not looked at."""

from msgspec.structs import replace

from raykeeper.clusters.doctor.rules.unchecked import find_unchecked
from tests.unit.clusters.doctor.healthy import AT, HEALTHY, with_folder, with_server


def test_a_healthy_ensemble_is_looked_at_whole() -> None:
    assert find_unchecked(HEALTHY) == []


def test_files_that_were_not_read_in_time_are_told() -> None:
    assert find_unchecked(with_folder(2, unread_files=3)) == [
        "3 files of server 2 on node host2, which were not read within the time limit"
    ]


def test_a_tree_that_cannot_be_compared_is_told() -> None:
    assert find_unchecked(with_server(1, zxid=AT + 1)) == [
        "the tree of server 1: no other server had applied just as much"
    ]
    assert find_unchecked(with_server(1, digest=0)) == ["the tree of server 1, started just now"]
    assert find_unchecked(with_server(1, digest=0, is_active=False)) == []


def test_a_single_server_has_nothing_to_be_compared_with() -> None:
    assert find_unchecked(replace(HEALTHY, servers=HEALTHY.servers[:1])) == []


def test_without_a_server_that_tells_nobody_knows_where_the_folders_are() -> None:
    facts = replace(HEALTHY, settings={}, servers=())
    assert find_unchecked(facts) == ["disks and folders: no server tells where they are"]
