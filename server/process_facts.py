"""The facts of the process that runs a server, which a pure server must ask its shell for."""

from msgspec import Struct


class ProcessFacts(Struct, frozen=True):
    """One process at one moment, with the folder of its server."""

    open_files: int
    files_max: int
    """The limit of open files, -1 if there is none."""
    snapshot_bytes: int
    log_bytes: int
    environment: tuple[tuple[str, str], ...]
    """Names and values, in the order in which they are shown."""
    disk_free_bytes: int = 0
    disk_bytes: int = 0
    """Of the file system in which the folder is."""
