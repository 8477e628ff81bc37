"""Names of the notes of a store: what it found damaged and what it did about it."""

from typing import Final

LOG_TAIL_CUT: Final = "log.tail_cut"
"""The last batch was bad and is gone. Torn by a crash, as a rule; but it cannot be told whether it
had been acknowledged, so this server's word counts less until it is synchronized (rule D4)."""

SNAPSHOT_INVALID: Final = "snapshot.invalid"
"""A snapshot is damaged and was passed over for an older one."""

LEFTOVER_REMOVED: Final = "storage.leftover_removed"
"""A file or folder that an interrupted operation left behind was removed."""

SYNC_INTERRUPTED: Final = "storage.sync_interrupted"
"""The log is of a newer epoch than the current one: a crash during synchronization."""

LOG_PART_DAMAGED: Final = "log.part_damaged"
"""A damaged part of the log that no start needs any more was dropped; learners get a snapshot."""

PROMISES_MENDED: Final = "storage.promises_mended"
"""One of the two copies of the promises was torn or damaged and was written anew."""

REPAIRED: Final = "storage.repaired"
"""What was in the folder does not count any more; the server begins without its promises."""
