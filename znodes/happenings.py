"""What happened to znodes lately: the material of watch events, kept for who was away.

Every server keeps what its last transactions did to znodes, as the tree told it, but for the
values: those of a busy ensemble would push everything else out of the caches, for the few who ask
for them. It is bounded by count and by bytes; `floor` is the zxid up to which something may be
missing. A client that was away and has had every event up to a later zxid is told all it has
missed; with the value, if it asked for that and the znode still has it.

ZooKeeper has no counterpart: `DataTree.setWatches` compares zxids of the state, which lose what was
overwritten, and says nothing to persistent watches.
"""

from collections import deque
from collections.abc import Container, Iterable
from typing import Final

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.replies import Content
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.tree import Happening, Znode, ZnodeChanged, ZnodeCreated, ZnodeDeleted

OVERHEAD_BYTES: Final = 400
"""Of one happening, besides its path."""
TOLD_BYTES_MAX: Final = 1 << 20
"""Of values in the events of one transaction; the values above it are left out."""


class History:
    """The happenings of (floor, now], oldest first; older ones of a cut transaction are no harm."""

    def __init__(self, floor: Zxid, count_max: int, bytes_max: int) -> None:
        self.floor = floor
        self.bytes = 0
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._happened: deque[Happening] = deque()

    def __len__(self) -> int:
        return len(self._happened)

    def add(self, happened: list[Happening]) -> None:
        """Take over what one transaction did; the values are forgotten."""
        kept = self._happened
        for each in happened:
            if type(each) is ZnodeChanged:
                each.old = each.new = None
            elif type(each) is ZnodeCreated:
                each.new = None
            else:
                assert type(each) is ZnodeDeleted, each
                each.old = None
            kept.append(each)
            self.bytes += OVERHEAD_BYTES + len(each.path)
        while self.bytes > self._bytes_max or len(kept) > self._count_max:
            oldest = kept.popleft()
            self.floor = oldest.zxid
            self.bytes -= OVERHEAD_BYTES + len(oldest.path)

    def restart(self, floor: Zxid) -> None:
        """What led to the state at `floor` is not known."""
        self._happened.clear()
        self.bytes = 0
        self.floor = floor

    def after(
        self, zxid: Zxid, paths: Container[str], below: tuple[str, ...]
    ) -> list[list[Happening]] | None:
        """What each later transaction did to some znodes, in order; None when that is not known.

        They are the znodes at `paths`, the children of these (but not their values), and those
        whose paths begin with one of `below`. What concerns nobody is passed over quickly: after
        a server's end, all its clients ask for this at once.
        """
        if zxid < self.floor:
            return None
        txns: list[list[Happening]] = []
        at = None
        for each in reversed(self._happened):
            if each.zxid <= zxid:
                break
            path = each.path
            if not (
                path in paths
                or path.startswith(below)
                or (type(each) is not ZnodeChanged and parent_of(path) in paths)
            ):
                continue
            if each.zxid != at:
                at = each.zxid
                txns.append([])
            txns[-1].append(each)
        for txn in txns:
            txn.reverse()
        txns.reverse()
        return txns


class Contents:
    """Values and Stats before and after, for the events of one transaction.

    They are made once for all who are told of them; together the values stay within a bound.
    """

    def __init__(self, znodes: dict[str, Znode]) -> None:
        """`znodes` are the present ones, which may have a value that is not kept elsewhere."""
        self._znodes = znodes
        self._room = TOLD_BYTES_MAX

    def of(self, happening: Happening) -> tuple[Content | None, Content | None]:
        """Before and after."""
        if isinstance(happening, ZnodeDeleted):
            return self._content(happening.old, happening.stat), None
        new = happening.new
        if new is None:
            new = self._present(happening)
        if isinstance(happening, ZnodeCreated):
            return None, self._content(new, happening.stat)
        old = self._content(happening.old, _stat_before(happening))
        return old, self._content(new, happening.stat)

    def _present(self, happening: ZnodeCreated | ZnodeChanged) -> bytes | None:
        znode, stat = self._znodes.get(happening.path), happening.stat
        if znode is None or (znode.mzxid, znode.version) != (stat.mzxid, stat.version):
            return None
        return znode.value

    def _content(self, value: bytes | None, stat: Stat) -> Content:
        if value is None or len(value) > self._room:
            return Content(None, stat)
        self._room -= len(value)
        return Content(value, stat)


def size_of(contents: Iterable[Content | None]) -> int:
    """Bytes of the values in them."""
    return sum(len(each.value) for each in contents if each is not None and each.value is not None)


def _stat_before(changed: ZnodeChanged) -> Stat:
    stat = changed.stat
    return Stat(
        stat.czxid,
        changed.mzxid,
        stat.ctime,
        changed.mtime,
        changed.version,
        stat.cversion,
        stat.aversion,
        stat.ephemeral_owner,
        changed.length,
        stat.num_children,
        stat.pzxid,
    )
