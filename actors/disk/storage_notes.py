"""Names of the notes of a store: what a start found and repaired."""

from typing import Final

LOG_TAIL_CUT: Final = "log.tail_cut"
"""The last batch was torn by a crash and is gone; it had not been acknowledged."""

SNAPSHOT_INVALID: Final = "snapshot.invalid"
"""A snapshot is damaged and was passed over for an older one."""

LEFTOVER_REMOVED: Final = "storage.leftover_removed"
"""A file or folder that an interrupted operation left behind was removed."""

SYNC_INTERRUPTED: Final = "storage.sync_interrupted"
"""The log is of a newer epoch than the current one: a crash during synchronization."""
