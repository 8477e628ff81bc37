"""Files that are called after a zxid: the segments of the log, and snapshots."""

from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.zab.ids import Zxid


def zxid_name(prefix: str, zxid: Zxid) -> str:
    """The name that stands for `zxid`; names of one prefix sort like their zxids."""
    return f"{prefix}{zxid:016x}"


def zxids_in_names(names: list[str], prefix: str) -> list[Zxid]:
    """The zxids of the files called `prefix` and a number, oldest first.

    Raises:
        CorruptRecord: a file has the prefix, but no number behind it.
    """
    zxids = []
    for name in names:
        if name.startswith(prefix):
            try:
                zxids.append(Zxid(int(name.removeprefix(prefix), 16)))
            except ValueError:
                raise CorruptRecord(f"{name} is not {prefix}<zxid>") from None
    return sorted(zxids)
