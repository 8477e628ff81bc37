"""The steps of a founding on a node, each of which may be the last one before a crash."""

from pathlib import Path

import pytest

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner
from raykeeper.actors.disk.storage_errors import FolderInUse
from raykeeper.clusters.config import EnsembleConfig, LabelPin
from raykeeper.clusters.node_discovery import inspect_node
from raykeeper.clusters.node_report import EnsembleRecord, NodeReport
from raykeeper.clusters.placement import PlacementError
from raykeeper.clusters.recovery.evidence import HeldFolder, gather_evidence
from raykeeper.clusters.recovery.founding import (
    adopt_new_folders,
    choose_nodes,
    export_state,
    found_new_history,
    prepared_folder,
    write_prepared,
)
from raykeeper.clusters.recovery.judgement import judge
from raykeeper.clusters.recovery.survey import RecoveryRefusedError, Survey
from raykeeper.zab.ids import Epoch, ServerId
from tests.contract.server_folders import ServerFolder, UnforcedFiles
from tests.unit.clusters.recovery.test_evidence import LIMITS, LOG
from tests.unit.clusters.recovery.test_judgement import NODES, held

ONE, TWO = ServerId(1), ServerId(2)
RECORD = EnsembleRecord("new", 3)
CONFIG = EnsembleConfig(name="coord", servers=3)


def old_folders(data: Path, *servers: int) -> None:
    for server in servers:
        made = ServerFolder(data / f"coord/{server}", UnforcedFiles(), LIMITS, server_id=server)
        made.append(LOG)
        made.storage.close()


def prepare(data: Path, server: ServerId, epoch: int = 10_001) -> None:
    best = gather_evidence(str(data), "coord")[0]
    chunks = [chunk for piece in export_state(best) for chunk in piece]
    owner = FolderOwner("coord", "new", server)
    identity = DiskIdentity(owner, f"new {server}", is_founding=True, supersedes=["8c1f"])
    write_prepared(str(data), identity, Epoch(epoch), best.last, chunks)


def adopt(data: Path, *servers: ServerId) -> list[str]:
    return adopt_new_folders(str(data), "coord", RECORD, servers)


def test_the_old_folders_are_set_aside_and_the_new_ones_take_their_places(tmp_path: Path) -> None:
    old_folders(tmp_path, 1, 3)
    (tmp_path / "coord/5").write_text("not a folder")
    prepare(tmp_path, ONE)
    assert {f.identity.owner.ensemble_uuid for f in folders_of(tmp_path)} == {"8c1f"}
    prepare(tmp_path, TWO)
    aside = adopt(tmp_path, ONE, TWO)
    assert [Path(path).name[:13] for path in aside] == [
        "1.superseded-",
        "3.superseded-",
        "5.superseded-",
    ]
    found = inspect_node(str(tmp_path), "coord")
    assert found.record == RECORD
    assert [(f.server_id, f.identity.disk_uuid) for f in found.folders if f.identity] == [
        (1, "new 1"),
        (2, "new 2"),
    ]
    names = sorted(path.name for path in (tmp_path / "coord").iterdir())
    assert [name for name in names if "superseded" not in name] == ["1", "2", "ensemble.json"]
    # Done again, nothing changes; what was set aside can still be read.
    assert adopt(tmp_path, ONE, TWO) == []
    evidence = gather_evidence(str(tmp_path), "coord")
    assert [(e.server_id, e.problem) for e in evidence if e.is_set_aside and e.server_id < 5] == [
        (1, ""),
        (3, ""),
    ]
    assert {e.sessions for e in evidence if not e.is_set_aside} == {0}


def folders_of(data: Path) -> list[HeldFolder]:
    return [e for e in gather_evidence(str(data), "coord") if not e.is_set_aside and e.identity]


def test_a_folder_in_use_is_not_set_aside(tmp_path: Path) -> None:
    old_folders(tmp_path, 1)
    prepare(tmp_path, ONE)
    lock = lock_folder(OS_FILESYSTEM, tmp_path / "coord/1")
    with pytest.raises(FolderInUse):
        adopt(tmp_path, ONE)
    OS_FILESYSTEM.close(lock)
    assert len(adopt(tmp_path, ONE)) == 1


def test_a_node_without_a_new_folder_only_sets_aside(tmp_path: Path) -> None:
    old_folders(tmp_path, 2)
    (tmp_path / "coord/2/identity").write_bytes(b"damaged")
    assert len(adopt(tmp_path)) == 1
    found = inspect_node(str(tmp_path), "coord")
    assert (found.folders, found.record) == ([], None)


def test_what_an_earlier_recovery_prepared_is_removed(tmp_path: Path) -> None:
    old_folders(tmp_path, 1)
    left = prepared_folder(str(tmp_path), "coord", "given up", ONE)
    left.mkdir(parents=True)
    prepare(tmp_path, ONE)
    assert not left.parent.exists()
    assert prepared_folder(str(tmp_path), "coord", "new", ONE).is_dir()


def test_interrupted_between_two_nodes_it_begins_again(tmp_path: Path) -> None:
    """Nodes a and b, of which only a has adopted: the history of a goes on, above its epoch."""
    a, b = tmp_path / "a", tmp_path / "b"
    old_folders(a, 1)
    old_folders(b, 2)
    prepare(a, ONE)
    adopt(a, ONE)
    found = judge(
        CONFIG, NODES, [*gather_evidence(str(a), "coord"), *gather_evidence(str(b), "coord")]
    )
    assert (found.uuid, found.superseded) == ("new", ["8c1f"])
    assert found.best is not None and found.best.folder == str(a / "coord/1")
    assert max(found.accepted) == 10_001


@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_founded_if_it_is_refused(is_there: bool) -> None:
    folders = [held(1), held(2)] if is_there else []
    survey = Survey(CONFIG, [], judge(CONFIG, NODES, folders))
    with pytest.raises(RecoveryRefusedError, match="majority" if is_there else "healthy"):
        found_new_history(survey)


def node(name: str, **more: object) -> NodeReport:
    return NodeReport(**{"node_id": name, "name": name, "labels": {}, "resources": [], **more})  # type: ignore[arg-type]


def test_new_folders_stay_where_the_old_ones_are() -> None:
    # Of two disks of a server that of the better history; one that was set aside draws nobody, nor
    # does one on a node that cannot be written.
    worse, better = held(2, current=3), held(2, current=4)
    worse.node_id, better.node_id = "n3", "n1"
    aside = held(3, is_set_aside=True)
    gone = held(1)
    gone.node_id = "away"
    nodes = [node("n1"), node("n2"), node("n3")]
    chosen = choose_nodes(CONFIG, nodes, [worse, better, aside, gone, held(4)])
    assert chosen[TWO] == "n1" and sorted(chosen) == [1, 2, 3]
    assert sorted(chosen.values()) == ["n1", "n2", "n3"]
    pinned = EnsembleConfig(name="coord", servers=3, placement=LabelPin("slot"))
    with pytest.raises(PlacementError, match="slot=1"):
        choose_nodes(pinned, nodes, [])
    with pytest.raises(PlacementError, match="no node could be read"):
        choose_nodes(CONFIG, [], [])
