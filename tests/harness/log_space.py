"""The space of an in-memory disk for its log: segments and one spare (rule D6)."""

from random import Random


class LogSpace:
    """The segments of a log. A full disk fails to allocate a spare; accepted writes always fit."""

    def __init__(self, segment_bytes: int) -> None:
        self.is_full = False
        """Whether nothing can be allocated."""
        self.has_space = True
        """Whether the last try to allocate a spare succeeded."""
        self._segment_bytes = segment_bytes
        self._left = 0  # bytes left in the last segment
        self._has_spare = True
        self._reported_full = True

    def reopen(self, has_log: bool, random: Random) -> bool:
        """Prepare for a new process. False if there is no space for a log."""
        if self.is_full:
            # To start, the server copies the last segment into the place of the spare; another
            # process may have used the free space for a moment.
            if not self._has_spare and (not has_log or random.random() < 0.3):
                return False
            self._has_spare = self._has_spare and random.random() < 0.5
            if not has_log and not self._has_spare:
                return False
        else:
            self._has_spare = True
        self.has_space = self._reported_full = self._has_spare
        return True

    def append(self, size: int) -> bool | None:
        """Append `size` bytes; return whether that began a new segment, None if it has no space."""
        if size <= self._left:
            self._left -= size
            return False
        if not self._has_spare and self.is_full:
            return None
        self._has_spare = False
        self._left = max(self._segment_bytes, size) - size
        self.replenish()
        return True

    def replenish(self) -> bool:
        """Allocate a spare if there is none, and return `has_space`."""
        self._has_spare = self._has_spare or not self.is_full
        self.has_space = self._has_spare
        return self.has_space

    def has_changed(self) -> bool:
        """Return whether `has_space` has changed since the last call."""
        changed = self.has_space != self._reported_full
        self._reported_full = self.has_space
        return changed

    def clear(self) -> None:
        """Free all segments: the log is empty."""
        self._left = self._segment_bytes if self._has_spare or not self.is_full else 0
