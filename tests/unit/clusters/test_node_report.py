"""The reports of the nodes: folders of ended histories stand by themselves."""

from msgspec.structs import replace

from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.node_report import FoundFolder, in_order, part_superseded, superseded_uuids
from raykeeper.clusters.placement import FolderFormat, place
from tests.unit.clusters.test_placement import hold, node

CONFIG = EnsembleConfig(servers=3)


def new(server: int) -> FoundFolder:
    found = hold(server, uuid="new")
    assert found.identity is not None
    return replace(found, identity=replace(found.identity, supersedes=["older", "u"]))


def test_folders_of_an_ended_history_are_parted() -> None:
    damaged = FoundFolder(hold(2).server_id, "/x", None)
    nodes = [node("a", new(1)), node("b", hold(2), damaged), node("c", hold(3, uuid="other"))]
    a, b, c = part_superseded(nodes)
    assert (a, c) == (nodes[0], nodes[2])
    assert (b.folders, b.superseded) == ([damaged], [hold(2)])
    assert part_superseded([a, b, c]) == [a, b, c]
    assert superseded_uuids([a, b, c]) == ["older", "u"]
    # Without a folder of the newer history nobody knows.
    assert part_superseded(nodes[1:]) == nodes[1:]


def test_an_old_disk_that_comes_back_has_no_vote() -> None:
    """Both are founding disks, and so have the same name in the member list."""
    nodes = part_superseded([node("a", new(1)), node("b", hold(2)), node("c", new(3))])
    plan = place(CONFIG, nodes, {})
    assert [(p.server_id, p.node_id, p.format) for p in plan.placements] == [
        (1, "a", FolderFormat.KEEP),
        (2, "b", FolderFormat.JOINING),
        (3, "c", FolderFormat.KEEP),
    ]
    assert plan.ensemble_uuid == "new"
    (warning,) = plan.warnings
    assert "host-b: /data/coord/2 is of the history that a recovery has ended" in warning


def test_uuids_stand_in_the_order_of_the_recoveries() -> None:
    """The first one salts the hashes in ACLs. A folder of the second history knows one only."""
    assert in_order([["u1"], ["u1", "u0"], []]) == ["u1", "u0"]
    assert in_order([["b"], ["b", "a", "c"], ["b", "a"]]) == ["b", "a", "c"]
    assert in_order([]) == []
