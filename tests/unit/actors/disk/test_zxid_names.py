"""Files called after a zxid: their order, and what only looks like one."""

import pytest

from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.actors.disk.zxid_names import zxid_name, zxids_in_names
from raykeeper.zab.ids import ZXID_MAX, Zxid


def test_names_of_one_prefix_sort_like_their_zxids() -> None:
    zxids = [Zxid(0), Zxid(9), Zxid(10), Zxid(1 << 50), Zxid(ZXID_MAX)]
    names = [zxid_name("log.", zxid) for zxid in zxids]
    assert sorted(names) == names
    assert zxids_in_names([*reversed(names), zxid_name("snapshot.", Zxid(5))], "log.") == zxids


@pytest.mark.parametrize("name", ["log.", "log.x", "log.1.old"])
def test_a_prefix_without_a_number_is_damage(name: str) -> None:
    with pytest.raises(CorruptRecord, match=r"is not log\.<zxid>"):
        zxids_in_names([name], "log.")
