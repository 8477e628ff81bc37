"""Names of the trace events of a store: what it found damaged and what it did about it."""

from typing import Final

from raykeeper.zab.trace_events import TraceName

LOG_TAIL_CUT: Final = TraceName("log.tail_cut", "segment", "offset", "last")
"""The last batch was bad and was cut. As a rule a crash has torn it. But it may have been
acknowledged, so this server's history is uncertain until it is synchronized (rule D4)."""

SNAPSHOT_INVALID: Final = TraceName("snapshot.invalid", "reason")
"""A snapshot is damaged; an older one is used."""

LEFTOVER_REMOVED: Final = TraceName("storage.leftover_removed", "name")
"""A file or folder of an interrupted operation was removed."""

SYNC_INTERRUPTED: Final = TraceName("storage.sync_interrupted", "last", "current")
"""The log is of a newer epoch than the current one: a crash during synchronization."""

LOG_PART_DAMAGED: Final = TraceName("log.part_damaged", "reason")
"""A damaged part of the log that no start needs was dropped; learners get a snapshot."""

PROMISES_MENDED: Final = TraceName("storage.promises_mended", "file")
"""One of the two copies of the promises was torn or damaged and was written again."""

REPAIRED: Final = TraceName("storage.repaired", "disk", "reason")
"""The content of the folder is void; the server starts without its promises."""
