"""Names of the trace events of a store: what it found damaged and what it did about it."""

from typing import Final

LOG_TAIL_CUT: Final = "log.tail_cut"
"""The last batch was bad and was cut. As a rule a crash has torn it. But it may have been
acknowledged, so this server's history is uncertain until it is synchronized (rule D4)."""

SNAPSHOT_INVALID: Final = "snapshot.invalid"
"""A snapshot is damaged; an older one is used."""

LEFTOVER_REMOVED: Final = "storage.leftover_removed"
"""A file or folder of an interrupted operation was removed."""

SYNC_INTERRUPTED: Final = "storage.sync_interrupted"
"""The log is of a newer epoch than the current one: a crash during synchronization."""

LOG_PART_DAMAGED: Final = "log.part_damaged"
"""A damaged part of the log that no start needs was dropped; learners get a snapshot."""

PROMISES_MENDED: Final = "storage.promises_mended"
"""One of the two copies of the promises was torn or damaged and was written again."""

REPAIRED: Final = "storage.repaired"
"""The content of the folder is void; the server starts without its promises."""
