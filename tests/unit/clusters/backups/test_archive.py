"""The files of an archive: names, and how the log goes on from file to file."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.clusters.backups.archive import (
    ArchiveContents,
    FullFile,
    PieceFile,
    chain_after,
    contents_of,
    full_name,
    piece_name,
)
from raykeeper.zab.ids import Epoch, Zxid, make_zxid


def piece(after: int, last: int) -> PieceFile:
    return PieceFile(Zxid(after), Zxid(last), piece_name(Zxid(after), Zxid(last)))


def test_names_say_what_the_files_hold_and_sort_as_the_log() -> None:
    zxid, later = make_zxid(Epoch(3), 17), make_zxid(Epoch(4), 1)
    names = [piece_name(zxid, later), full_name(later), full_name(zxid)]
    assert names[2] == "full-00000c0000000011.rkb"
    others = ["full-1.rkb", "log-x.rkb", "full-00000c0000000011.rkb.7.tmp", "README"]
    contents = contents_of([*names, *others])
    assert contents == ArchiveContents(
        [FullFile(zxid, names[2]), FullFile(later, names[1])], [PieceFile(zxid, later, names[0])]
    )


@pytest.mark.parametrize(
    ("pieces", "chain"),
    [
        # Nothing, or nothing that goes on.
        ([], []),
        ([(0, 5), (3, 10)], []),
        ([(11, 20)], []),
        # One behind the other.
        ([(10, 12), (12, 20)], [(10, 12), (12, 20)]),
        # A hole ends it.
        ([(10, 12), (13, 20)], [(10, 12)]),
        # Of several the longest; the joined piece stands for those that it was joined of.
        ([(10, 11), (10, 15), (11, 12), (12, 15), (15, 16)], [(10, 15), (15, 16)]),
        # They may overlap, and begin earlier.
        ([(2, 14), (13, 20)], [(2, 14), (13, 20)]),
        ([(10, 12), (11, 20), (12, 13)], [(10, 12), (11, 20)]),
    ],
)  # fmt: skip
def test_the_log_goes_on(pieces: list[tuple[int, int]], chain: list[tuple[int, int]]) -> None:
    assert chain_after(Zxid(10), sorted(piece(*each) for each in pieces)) == [
        piece(*each) for each in chain
    ]


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 6)), max_size=10), st.integers(0, 15))
def test_a_chain_has_no_hole_and_reaches_as_far_as_any(
    drawn: list[tuple[int, int]], zxid: int
) -> None:
    pieces = sorted({piece(after, after + size) for after, size in drawn})
    chain = chain_after(Zxid(zxid), pieces)
    reached = {zxid}
    for _ in pieces:
        reached |= {p.last for p in pieces if any(p.after <= r < p.last for r in reached)}
    assert max(reached) == (chain[-1].last if chain else zxid)
    steps = [PieceFile(Zxid(0), Zxid(zxid), ""), *chain]
    assert all(a.last < b.last and b.after <= a.last for a, b in pairwise(steps))


def test_where_an_archive_ends() -> None:
    names = [full_name(Zxid(5)), full_name(Zxid(9)), piece_name(Zxid(5), Zxid(7))]
    assert contents_of(names).end() == 9
    assert contents_of([*names, piece_name(Zxid(7), Zxid(12))]).end() == 12
    assert contents_of(names[2:]).end() is None
