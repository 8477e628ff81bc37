"""Long answers bit by bit: lists as of one moment, whatever changes meanwhile, and counts."""

import pytest

from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.children import SHARD_SIZE, SHARDED_FROM
from raykeeper.znodes.pages import (
    PAGE_CHARS,
    ChildrenPages,
    DescendantCount,
    PathsPages,
)
from raykeeper.znodes.reads import reply_to_aux_read, reply_to_read
from raykeeper.znodes.replies import CountDescendantsReply, GetChildrenReply, GetEphemeralsReply
from raykeeper.znodes.requests import CountDescendants, GetChildren, GetEphemerals, SessionId
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import CreateTxn

OWNER, NOBODY = SessionId(7), SessionId(0)
CROWD = 2 * SHARDED_FROM + 100


class Grove:
    """A tree in which znodes come and go, each at a zxid of its own."""

    def __init__(self) -> None:
        self.state = State()
        self.zxid = 0

    def create(self, *paths: str, owner: SessionId = NOBODY) -> None:
        for path in paths:
            self.zxid += 1
            parent = path.rpartition("/")[0] or "/"
            creates = self.state.tree.znodes[parent].child_create_count + 1
            change = CreateTxn(path, b"", owner, creates)
            self.state.tree.create(Zxid(self.zxid), Millis(0), change)
        self.state.zxid = Zxid(self.zxid)

    def delete(self, *paths: str) -> None:
        for path in paths:
            self.zxid += 1
            self.state.tree.delete(Zxid(self.zxid), path)
        self.state.zxid = Zxid(self.zxid)

    def children(self, path: str, page: int) -> ChildrenPages:
        pages = reply_to_read(self.state, (), GetChildren(1, path, False), page)
        assert isinstance(pages, ChildrenPages)
        return pages

    def count(self, path: str, page: int) -> CountDescendantsReply | DescendantCount:
        found = reply_to_aux_read(self.state, session(), CountDescendants(1, path), page)
        assert isinstance(found, CountDescendantsReply | DescendantCount)
        return found


def session(session_id: SessionId = OWNER) -> Session:
    return Session(session_id, b"", Millis(1), Zxid(1), 0, 0, {}, 0, "", (), ServerId(0), False, ())


def numbered(parent: str, count: int) -> list[str]:
    return [f"{parent}/{number}" for number in range(count)]


@pytest.mark.parametrize("count", [12, SHARDED_FROM, CROWD])
def test_a_list_does_not_change_between_its_pages(count: int) -> None:
    grove = Grove()
    grove.create("/a", *numbered("/a", count))
    begun = grove.state.zxid
    listing = grove.children("/a", 5 if count == 12 else 1_000)
    told: list[GetChildrenReply] = []
    number = 0
    while not listing.is_over:
        told.append(listing.next(grove.state))
        grove.delete(f"/a/{count - number - 1}")
        grove.create(f"/a/new{number}", f"/a/{count - number - 1}")
        number += 1
    assert sorted(n for page in told for n in page.children) == sorted(map(str, range(count)))
    assert [page.more for page in told] == [True] * (len(told) - 1) + [False]
    assert {(page.zxid, page.stat.num_children) for page in told} == {(begun, count)}
    assert max(len(page.children) for page in told) <= (5 if count == 12 else 1_000)


def test_lists_begun_at_different_times_differ() -> None:
    """Each owns the parts as of its moment, also those that another one has already."""
    grove = Grove()
    grove.create("/a", *numbered("/a", CROWD))
    lists = []
    for number in range(4):
        lists.append(grove.children("/a", SHARD_SIZE))
        grove.delete(f"/a/{number}", f"/a/{CROWD - number - 1}")
    for number, listing in enumerate(lists):
        names: list[str] = []
        while not listing.is_over:
            names += listing.next(grove.state).children
        assert sorted(names, key=int) == [str(n) for n in range(number, CROWD - number)]


def test_a_page_is_bounded_in_characters_too() -> None:
    grove = Grove()
    long = "x" * 8_000
    grove.create("/a", *(f"/a/{number}{long}" for number in range(100)))
    listing = grove.children("/a", SHARDED_FROM)
    told: list[GetChildrenReply] = []
    while not listing.is_over:
        told.append(listing.next(grove.state))
    assert sum(len(page.children) for page in told) == 100
    assert all(sum(map(len, page.children)) < PAGE_CHARS + 8_010 for page in told)
    assert len(told) > 2


def test_a_list_that_fits_is_one_reply() -> None:
    grove = Grove()
    grove.create("/a", *numbered("/a", 5))
    item = reply_to_read(grove.state, (), GetChildren(1, "/a", False), 5)
    assert isinstance(item, GetChildrenReply) and not item.more


def test_ephemerals_are_paged_with_a_prefix() -> None:
    """Parts of which nothing matches tell nothing, but in the end that there is no more."""
    grove = Grove()
    grove.create("/a", "/b")
    wanted = numbered("/a", 3) + numbered("/a", CROWD)[-3:]
    grove.create(*numbered("/a", 3), owner=OWNER)
    grove.create(*numbered("/b", CROWD), owner=OWNER)
    grove.create(*numbered("/a", CROWD)[-3:], owner=OWNER)
    grove.create(*numbered("/b", CROWD + SHARD_SIZE)[CROWD:], owner=OWNER)
    pages = reply_to_aux_read(grove.state, session(), GetEphemerals(1, "/a/"), 2)
    assert isinstance(pages, PathsPages)
    grove.delete(*wanted)
    told: list[GetEphemeralsReply] = []
    while not pages.is_over:
        page = pages.next(grove.state)
        if page is not None:
            told.append(page)
    assert sorted(path for page in told for path in page.paths) == sorted(wanted)
    assert [page.more for page in told] == [True] * (len(told) - 1) + [False]
    assert len(told[-1].paths) == 0


def test_ephemerals_in_parts_go_with_their_session() -> None:
    grove = Grove()
    paths = numbered("", CROWD)
    grove.create(*paths, owner=OWNER)
    assert len(grove.state.tree.ephemerals[OWNER]) == CROWD
    grove.delete(*paths)
    assert grove.state.tree.ephemerals == {}


def walked(grove: Grove, count: CountDescendantsReply | DescendantCount) -> CountDescendantsReply:
    steps = 0
    while isinstance(count, DescendantCount):
        item = count.next(grove.state)
        steps += 1
        assert (item is None) is not count.is_over
        if item is not None:
            return item
    return count


@pytest.mark.parametrize("page", [3, 50, 10_000])
def test_a_count_is_exact(page: int) -> None:
    grove = Grove()
    grove.create("/a", *numbered("/a", 20))
    for path in numbered("/a", 20)[::3]:
        grove.create(*numbered(path, 4))
    grove.create("/ab", *numbered("/ab", 5))
    assert walked(grove, grove.count("/a", page)).count == 20 + 7 * 4
    assert walked(grove, grove.count("/ab", page)).count == 5
    assert walked(grove, grove.count("/ab/1", page)).count == 0


def test_a_count_at_rest_is_exact_in_crowds_too() -> None:
    grove = Grove()
    grove.create("/a", "/a/b", "/a/c", *numbered("/a/b", CROWD), *numbered("/a/c", CROWD))
    found = walked(grove, grove.count("/a", 1_000))
    assert found == CountDescendantsReply(1, grove.state.zxid, 2 * CROWD + 2)
    assert walked(grove, grove.count("/", 1_000)).count == len(grove.state.tree.znodes) - 1


def test_a_count_counts_what_stays_and_nothing_deleted() -> None:
    grove = Grove()
    grove.create("/a", *numbered("/a", 20))
    count = grove.count("/a", 5)
    assert isinstance(count, DescendantCount)
    grove.delete(*numbered("/a", 20)[:5])
    grove.create("/a/late", "/a/19/below", "/a/0")
    found = walked(grove, count)
    stayed, at_most = 15, 15 + 3
    assert stayed <= found.count <= at_most
    assert found.zxid < found.until == grove.state.zxid


def test_few_ephemerals_with_long_paths_come_in_pages_too() -> None:
    grove = Grove()
    paths = [f"/{number}{'x' * 8_000}" for number in range(50)]
    grove.create(*paths, owner=OWNER)
    pages = reply_to_aux_read(grove.state, session(), GetEphemerals(1, "/"), 4_096)
    assert isinstance(pages, PathsPages)
