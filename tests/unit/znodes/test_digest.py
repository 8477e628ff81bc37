"""Digest terms: every field counts, and equal differences do not cancel."""

import pytest

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.digest import children_term, data_hash, record_term

FIELDS = ("/a", b"v", Zxid(1), Zxid(2), Millis(3), Millis(4), 5, 6)


@pytest.mark.parametrize("changed", range(len(FIELDS)))
def test_every_field_of_a_znode_counts(changed: int) -> None:
    fields: list[object] = list(FIELDS)
    fields[changed] = ("/b", b"w", 9, 9, 9, 9, 9, 9)[changed]
    assert data_hash(*fields) != data_hash(*FIELDS)  # type: ignore[arg-type]


def test_a_value_is_bound_to_its_path() -> None:
    swapped = data_hash("/a", b"b", *FIELDS[2:]) ** 2 + data_hash("/b", b"a", *FIELDS[2:]) ** 2
    straight = data_hash("/a", b"a", *FIELDS[2:]) ** 2 + data_hash("/b", b"b", *FIELDS[2:]) ** 2
    assert swapped != straight


def test_null_data_is_another_value_than_an_empty_one() -> None:
    hashes = {data_hash("/a", value, *FIELDS[2:]) for value in (None, b"", b"\0")}
    assert len(hashes) == 3


def test_children_count_once_a_child_was_created() -> None:
    assert children_term("/a", 0, Zxid(9)) == 0
    terms = {
        children_term("/a", 1, Zxid(9)),
        children_term("/a", 2, Zxid(9)),
        children_term("/a", 1, Zxid(8)),
        children_term("/b", 1, Zxid(9)),
    }
    assert len(terms) == 4


def test_the_same_difference_in_many_znodes_does_not_cancel() -> None:
    """A replica whose clock shows other milliseconds: CRCs differ by the same bits everywhere."""

    def total(mtime: int) -> int:
        return sum(
            data_hash(f"/{n}", b"", Zxid(1), Zxid(2), Millis(3), Millis(mtime), 0, 0) ** 2
            for n in range(64)
        )

    assert len({total(mtime) for mtime in range(500)}) == 500


def test_the_digests_are_equal_in_every_process_and_version() -> None:
    """A change here is a change of the protocol: servers of two versions would seem to differ."""
    assert data_hash(*FIELDS) == 3_552_627_399
    assert data_hash("/a", None, *FIELDS[2:]) == 1_345_235_304
    assert children_term("/a", 1, Zxid(9)) == 5_304_346_856_255_232_900
    assert record_term(b"record") == 6_780_384_789_663_674_401
