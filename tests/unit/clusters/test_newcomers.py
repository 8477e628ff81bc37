"""Newcomers: which nodes and ports are free, and what is noted in the folder of one that left."""

import socket
from pathlib import Path

import pytest

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.members_file import StoredMembers, read_members, write_members
from raykeeper.actors.disk.storage_errors import FolderInUse
from raykeeper.clusters import newcomers
from raykeeper.clusters.config import EnsembleConfig, port_problems, ports_of
from raykeeper.clusters.member_steps.vocabulary import MemberChangeError
from raykeeper.clusters.membership import founding_members
from raykeeper.clusters.newcomers import note_leaving, taken_ports
from raykeeper.clusters.voting_disks import VotingDisks
from raykeeper.zab.ids import FOUNDING_DISK, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from tests.unit.clusters.test_placement import node as report

FOUR = ServerId(4)
OLD, NEW = (MemberList(Zxid(number), {ServerId(1): FOUNDING_DISK}) for number in (5, 9))


@pytest.mark.parametrize(("address", "family"), [("127.0.0.1", socket.AF_INET), ("::1", None)])
def test_a_port_that_somebody_listens_at_is_taken(address: str, family: int | None) -> None:
    with socket.socket(family or socket.AF_INET6, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            pytest.skip(f"this machine has no {address}")
        listener.listen()
        port = listener.getsockname()[1]
        assert taken_ports(address, [port]) == [port]
    assert taken_ports(address, [port]) == []


def test_a_server_has_its_ports_by_its_id() -> None:
    config = EnsembleConfig(zookeeper_port=2181, zookeeper_admin_port=2187)
    assert ports_of(config, FOUR) == [2184, 2190]
    assert ports_of(EnsembleConfig(), FOUR) == []
    assert list(port_problems(config, ServerId(6))) == []
    (problem,) = port_problems(config, ServerId(7))
    assert problem.startswith("zookeeper_port (2181) and zookeeper_admin_port (2187) overlap")
    (problem,) = port_problems(EnsembleConfig(zookeeper_port=65_530), ServerId(7))
    assert problem == "zookeeper_port (65530) leaves no port for each of 7 servers"


def test_no_newcomer_starts_on_a_node_that_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    founders = founding_members(EnsembleConfig())
    monkeypatch.setattr(newcomers, "ask_voting_disks", lambda _: VotingDisks())
    monkeypatch.setattr(newcomers, "_unfitness", lambda *_: "")

    def node_for(node: str, leaving: set[str], at: dict[int, str]) -> str:
        running = {ServerId(server): where for server, where in at.items()}
        places = newcomers._Places(
            [report(x) for x in "abcd"], founders, dict.fromkeys(running), running, "u", leaving
        )
        return newcomers._plan(EnsembleConfig(), FOUR, node, places).placements[0].node_id

    at = {1: "a", 2: "b", 3: "c"}
    assert node_for("", set(), at) == "d"
    assert node_for("", {"d"}, at) == "a"
    assert node_for("d", {"d"}, at) == "d"  # the operator has named it
    with pytest.raises(
        MemberChangeError, match=r"^no node for server 4: host-a is drained; host-b"
    ):
        node_for("", {*"abcd"}, at)


@pytest.mark.parametrize(
    ("there", "given", "noted"),
    [
        (None, NEW, StoredMembers(NEW, "was not added")),
        (StoredMembers(OLD), NEW, StoredMembers(NEW, "was not added")),
        (StoredMembers(NEW), OLD, StoredMembers(NEW, "was not added")),
        (StoredMembers(OLD), None, StoredMembers(OLD, "was not added")),
        # What the server has noted itself stays; and without any list nothing is noted.
        (StoredMembers(OLD, "left"), NEW, StoredMembers(OLD, "left")),
        (None, None, None),
    ],
)
def test_why_a_server_is_no_member_is_noted_in_its_folder(
    tmp_path: Path,
    there: StoredMembers | None,
    given: MemberList | None,
    noted: StoredMembers | None,
) -> None:
    folder = tmp_path / "coord/4"
    folder.mkdir(parents=True)
    if there is not None:
        write_members(folder, there)
    is_done = note_leaving(str(tmp_path), "coord", FOUR, given, "was not added")
    assert read_members(folder) == noted
    assert is_done is (noted is not None and noted.removed == "was not added")


def test_nothing_is_noted_where_a_server_runs(tmp_path: Path) -> None:
    folder = tmp_path / "coord/4"
    folder.mkdir(parents=True)
    lock = lock_folder(OS_FILESYSTEM, folder)
    with pytest.raises(FolderInUse):
        note_leaving(str(tmp_path), "coord", FOUR, NEW, "was not added")
    OS_FILESYSTEM.close(lock)
    assert read_members(folder) is None
