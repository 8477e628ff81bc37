"""Real files, read while a server of another thread appends, rolls, publishes and prunes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.commands.inspection.audit_log import AuditEntry, Wanted, print_log
from raykeeper.commands.inspection.verification import verify_folder
from raykeeper.znodes.requests import SetData
from tests.contract.server_folders import ServerFolder, UnforcedFiles
from tests.model.histories import START, Command, written

COMMANDS: list[Command] = [
    *START,
    *(("write", n % 2, SetData("/a", b"%d" % n * 60, -1)) for n in range(1_500)),
]
LOG = written(COMMANDS).log
HISTORY = dict(LOG)
SNAPSHOT_EVERY = 100


def verified(folder: Path) -> None:
    found = verify_folder(FolderReader(folder), with_digest=True)
    assert found.contents.problems == []
    assert len(set(found.digests.values())) <= 1


def told(folder: Path) -> None:
    entries: list[AuditEntry] = []
    print_log(FolderReader(folder), Wanted(), entries.append)
    zxids = [entry.zxid for entry in entries]
    assert zxids == [zxid for zxid in HISTORY if zxids and zxids[0] <= zxid <= zxids[-1]]


@pytest.mark.parametrize("look", [verified, told])
def test_nothing_looks_damaged_while_a_server_writes(
    tmp_path: Path, look: Callable[[Path], None]
) -> None:
    limits = StorageLimits(segment_bytes=8192, snapshots_kept=2)
    server = ServerFolder(tmp_path / "coord" / "1", UnforcedFiles(), limits)

    def serve() -> None:
        for start in range(0, len(LOG), SNAPSHOT_EVERY):
            server.append(LOG[start : start + SNAPSHOT_EVERY])
            server.snapshot()

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve)
        while not serving.done():
            try:
                look(server.folder)
            except StorageError as error:
                # The segment went with an older snapshot: documented, and to be tried again.
                assert "was removed by its server while" in str(error)
        serving.result()
    look(server.folder)
