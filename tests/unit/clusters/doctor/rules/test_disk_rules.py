"""Each rule about disks and folders: facts with a fault, what it finds, and healthy ones."""

import pytest
from msgspec.structs import replace

from raykeeper.clusters.doctor.rules.disk_rules import DISK_RULES, SLOW_FORCE_US
from raykeeper.clusters.doctor.rules.facts import (
    DiskFacts,
    EnsembleFacts,
    KeeperFacts,
    SetAsideFolder,
)
from raykeeper.zab.ids import DiskId
from tests.unit.clusters.doctor.healthy import (
    HEALTHY,
    MIB,
    Planted,
    cases,
    folder,
    found_by,
    with_folder,
    with_node,
    with_server,
)

OLD = replace(folder(2), disk=DiskId("old"))
ASIDE = SetAsideFolder("/data/coord/2.stale-1", 7)
NO_KEEPER = replace(HEALTHY, keeper=KeeperFacts(False))
SLOW = DiskFacts(device=7, free_bytes=500 * MIB, force_us=123_456)
BROKEN = DiskFacts(force_problem="/data is read-only")

PLANTED: Planted = {
    "disk.full": [
        (
            with_server(2, has_disk_space=False),
            [("server 2", "logs nothing: its disk is full")],
        )
    ],
    "disk.room": [
        # Two snapshots of 100 MiB and two segments of 64 MiB.
        (
            with_node(2, disk=DiskFacts(device=7, free_bytes=327 * MIB)),
            [
                (
                    "node host2",
                    "has 327 MiB free below data_dir; the next snapshots and segments of server 2 "
                    "may take 328 MiB",
                )
            ],
        ),
        (with_node(2, disk=DiskFacts(device=7, free_bytes=328 * MIB)), []),
        # Servers that share a disk share its room.
        (
            with_server(1, with_node(2, folders=(folder(1), folder(2))), node_id="node2"),
            [
                (
                    "node host2",
                    "has 500 MiB free below data_dir; the next snapshots and segments of servers "
                    "1 and 2 may take 656 MiB",
                )
            ],
        ),
        (with_node(2, disk=DiskFacts(device=8, free_bytes=0)), []),
        (with_node(2, disk=None), []),
    ],
    "disk.slow": [
        (with_node(2, disk=SLOW), [("node host2", "takes 123 ms to force 4 KiB below data_dir")]),
        (
            with_node(2, disk=replace(SLOW, force_us=SLOW_FORCE_US)),
            [("node host2", "takes 100 ms to force 4 KiB below data_dir")],
        ),
        (with_node(2, disk=replace(SLOW, force_us=SLOW_FORCE_US - 1)), []),
        (with_node(2, disk=replace(SLOW, force_us=None)), []),
        (with_node(2, disk=None), []),
        # Nobody writes there.
        (with_server(2, with_node(2, disk=SLOW), node_id="node1"), []),
    ],
    "disk.not_writable": [
        (with_node(2, disk=BROKEN), [("node host2", "/data is read-only")]),
        (with_server(2, with_node(2, disk=BROKEN), node_id="node1"), []),
    ],
    "folder.damaged": [
        (
            with_folder(2, damage=("log.1 is damaged", "snapshot.2 is damaged")),
            [
                ("server 2 on node host2", "log.1 is damaged"),
                ("server 2 on node host2", "snapshot.2 is damaged"),
            ],
        )
    ],
    "folder.unreadable": [
        (with_node(2, unreadable=("permission denied",)), [("node host2", "permission denied")])
    ],
    "folder.other_version": [
        (
            with_folder(2, other_version="log.1 has version 9"),
            [("server 2 on node host2", "log.1 has version 9")],
        )
    ],
    "record.damaged": [(with_node(2, record_damage="no JSON"), [("node host2", "no JSON")])],
    "folder.stale": [
        # Server 2 runs elsewhere, on the disk with its vote.
        (
            with_node(1, folders=(folder(1), OLD)),
            [("node host1", "/data/coord/2 is not the disk with the vote of server 2")],
        ),
        # It runs here and waits for its vote, which has a finding of its own.
        (with_node(2, folders=(OLD,)), []),
        # Nobody knows which disk has the vote; or which disk this is.
        (replace(with_node(1, folders=(OLD,)), voting_disks={}), []),
        (with_node(1, folders=(replace(OLD, disk=None),)), []),
        (with_node(1, folders=(folder(2),)), []),
        # A keeper removes what it has set aside, after a week here.
        (with_node(2, set_aside=(ASIDE,)), []),
        (
            with_node(2, set_aside=(replace(ASIDE, age_days=8),)),
            [("node host2", "/data/coord/2.stale-1 was set aside 8 days ago")],
        ),
        (
            with_node(2, NO_KEEPER, set_aside=(ASIDE,)),
            [("node host2", "/data/coord/2.stale-1 was set aside 7 days ago")],
        ),
    ],
}


@pytest.mark.parametrize(("name", "facts", "found"), cases(PLANTED))
def test_finds(name: str, facts: EnsembleFacts, found: list[tuple[str, str]]) -> None:
    assert found_by(DISK_RULES, name, facts) == found


@pytest.mark.parametrize("name", [rule.name for rule in DISK_RULES])
def test_finds_a_planted_fault_and_nothing_else(name: str) -> None:
    assert any(found for _, found in PLANTED[name])
    assert found_by(DISK_RULES, name, HEALTHY) == []
