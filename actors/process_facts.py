"""Reads the facts of the process for the four-letter words: open files, folder, environment.

ZooKeeper: `Environment`, `OSMXBean`.
"""

import os
import platform
import resource
import shutil
import socket
from pathlib import Path

import psutil

from raykeeper.server.process_facts import ProcessFacts

_SNAPSHOTS = ("snapshot.",)
_LOG = ("log.", "spare")


def read_process_facts(folder: Path) -> ProcessFacts:
    """Return the facts of this process and of the server whose data lies in `folder`.

    A thread should call it: it lists the open files and the folder.
    """
    process = psutil.Process()
    disk_bytes, disk_free_bytes = _disk_sizes(folder)
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ProcessFacts(
        open_files=process.num_fds(),
        files_max=-1 if files_max == resource.RLIM_INFINITY else files_max,
        snapshot_bytes=_size_of(folder, _SNAPSHOTS),
        log_bytes=_size_of(folder, _LOG),
        environment=(
            ("host.name", socket.gethostname()),
            ("python.version", platform.python_version()),
            ("os.name", platform.system()),
            ("os.arch", platform.machine()),
            ("os.version", platform.release()),
            ("user.name", process.username()),
            ("user.home", str(Path("~").expanduser())),
            ("user.dir", process.cwd()),
        ),
        disk_free_bytes=disk_free_bytes,
        disk_bytes=disk_bytes,
    )


def _disk_sizes(folder: Path) -> tuple[int, int]:
    """Return the bytes of the file system, and those that are free; 0 without the folder."""
    try:
        disk = shutil.disk_usage(folder)
    except FileNotFoundError:
        return 0, 0
    return disk.total, disk.free


def _size_of(folder: Path, prefixes: tuple[str, ...]) -> int:
    """Return the bytes of all files below `folder` whose names begin so; one may vanish meanwhile.

    It stands in its folder, or in one of its generations.
    """
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            if name.startswith(prefixes):
                try:
                    size += (Path(path) / name).stat().st_size
                except FileNotFoundError:
                    continue
    return size
