"""`verify`: the digests of all snapshots agree, or it is told which do not."""

import re

from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.commands.inspection.verification import (
    show_verification,
    verification_document,
    verify_folder,
)
from raykeeper.znodes.requests import Create, SetData
from raykeeper.znodes.state import State
from tests.contract.server_folders import Entry, ServerFolder
from tests.contract.stores import FOLDER
from tests.model.histories import START, Command, written
from tests.unit.commands.printed import printed
from tests.unit.znodes.one_leader import zxid_at as z

COMMANDS: list[Command] = [
    *START,
    *(("write", 0, SetData("/a", b"%d" % n, -1)) for n in range(9)),
    *(("write", 1, Create(f"/b/{n}", b"", 0)) for n in range(6)),
]
LOG: list[Entry] = written(COMMANDS).log


def state_of(log: list[Entry]) -> State:
    state = State()
    for zxid, data in log:
        state.apply(zxid, data)
    return state


def grown() -> ServerFolder:
    server = ServerFolder()
    server.append(LOG[:6])
    server.snapshot()
    server.append(LOG[6:10])
    server.snapshot(LOG[10:13], chunk_bytes=1)
    server.append(LOG[13:], uncommitted=1)
    return server


def test_all_snapshots_of_a_good_folder_have_one_digest() -> None:
    server = grown()
    found = verify_folder(server.reader(), with_digest=True)
    state = state_of(LOG[:18])
    assert verification_document(found) == {
        "folder": "/data/coord/1",
        "is_good": True,
        "problems": [],
        "notes": [],
        "snapshots": 2,
        "segments": len(server.segments()),
        "transactions": 20,
        "last": "1:20",
        "committed": "1:18",
        "znodes": len(state.tree.znodes),
        "digests": {path.name: f"{state.digest():#018x}" for path in server.snapshots()},
    }
    shown = printed(lambda console: show_verification(console, found))
    assert shown.endswith("\ngood\n")
    assert f"digest at 1:18: {state.digest():#018x}, {found.znodes} znodes, from snapshot." in shown


def test_without_digests_no_state_is_loaded() -> None:
    found = verify_folder(grown().reader(), with_digest=False)
    assert (found.is_good, found.digests, found.znodes) == (True, {}, None)


def test_a_folder_without_a_snapshot_has_the_digest_of_its_log() -> None:
    server = ServerFolder()
    server.append(LOG[:8])
    found = verify_folder(server.reader(), with_digest=True)
    assert found.digests == {"the first state": state_of(LOG[:7]).digest()}
    assert found.is_good


def test_a_whole_snapshot_of_another_state_is_told() -> None:
    """Every checksum is good, every zxid in order: only the digests differ."""
    server = ServerFolder()
    server.append(LOG[:6])
    server.snapshot()
    server.append(LOG[6:10])
    other = written([*START, *[("write", 1, Create("/b/x", b"", 0))], *COMMANDS[6:]]).log
    server.state = state_of(other[:10])
    server.snapshot()
    server.append(LOG[10:])
    found = verify_folder(server.reader(), with_digest=True)
    (problem,) = found.contents.problems
    assert re.match(
        r"snapshots and log do not fit together: at 1:19 the digest is 0x\w+ from", problem
    )
    assert verification_document(found)["is_good"] is False
    shown = printed(lambda console: show_verification(console, found))
    assert "damaged: snapshots and log" in shown and shown.endswith("\n1 problems\n")
    assert verify_folder(server.reader(), with_digest=False).is_good


def test_a_log_that_does_not_apply_is_told() -> None:
    """The second half of the log is that of another ensemble, where /b/0 came one write later."""
    server = ServerFolder()
    server.append(LOG[:15])
    other = written([*START, ("write", 0, SetData("/a", b"", -1)), *COMMANDS[5:]]).log
    server.state = state_of(other[:15])
    server.append(other[15:])
    found = verify_folder(server.reader(), with_digest=True)
    (problem,) = found.contents.problems
    assert re.search(r"transaction 1:16 does not fit to the first state: AssertionError", problem)
    assert (found.digests, found.is_good) == ({}, False)


def test_damage_is_told_once() -> None:
    server = grown()
    files = server.at_rest()
    files.flip(server.segments()[1], 100)
    found = verify_folder(FolderReader(FOLDER, files), with_digest=True)
    assert len(found.contents.problems) == len(set(found.contents.problems)) >= 1
    assert found.digests == {}


def test_an_older_snapshot_that_the_log_does_not_reach_is_not_compared() -> None:
    server = grown()
    files = server.at_rest()
    files.lose(server.segments()[0])
    found = verify_folder(FolderReader(FOLDER, files), with_digest=True)
    (note,) = found.contents.notes
    assert "of no use" in note
    assert found.is_good and list(found.digests) == [server.snapshots()[1].name]
    assert found.contents.begin is not None and z(6) < found.contents.begin <= z(10)
