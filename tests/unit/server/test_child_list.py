"""The children of a znode in pages, by name."""

import pytest

from raykeeper.server.admin_queries import ROWS_MAX, ChildrenPage, ChildRow, ListChildren
from raykeeper.znodes.children import SHARD_SIZE, ShardedChildren
from raykeeper.znodes.requests import CreateMode
from raykeeper.znodes.znode import Znode
from tests.harness.admin_servers import answer_of
from tests.harness.caller import Caller
from tests.harness.pure_servers import PureServer

MILLION = 1_000_000


def page_of(host: PureServer, query: ListChildren) -> ChildrenPage:
    page = answer_of(host, query).page
    assert isinstance(page, ChildrenPage)
    return page


def names_of(page: ChildrenPage) -> list[str]:
    return [each.name for each in page.rows]


def small_tree() -> tuple[PureServer, Caller]:
    host = PureServer()
    caller = host.caller(1)
    for path in ("/a", "/a/z", "/a/b", "/a/c", "/a/b/d", "/a/B", "/a-b", "/a0"):
        caller.ask(caller.create(path, path.encode()))
    return host, caller


def test_a_row_tells_of_a_child_what_a_browser_shows() -> None:
    host, caller = small_tree()
    caller.ask(caller.create("/a/e", b"", CreateMode.EPHEMERAL))
    assert page_of(host, ListChildren("/a")) == ChildrenPage(
        [
            ChildRow("B", 0, 4, 0),  # type: ignore[arg-type]
            ChildRow("b", 1, 4, 0),  # type: ignore[arg-type]
            ChildRow("c", 0, 4, 0),  # type: ignore[arg-type]
            ChildRow("e", 0, 0, caller.session_id),
            ChildRow("z", 0, 4, 0),  # type: ignore[arg-type]
        ],
        "z",
        5,
        0,
        is_there=True,
    )


@pytest.mark.parametrize(
    ("path", "after", "rows_max", "names", "left_out"),
    [
        ("/", "", 100, ["a", "a-b", "a0", "zookeeper"], 0),
        ("/", "a", 2, ["a-b", "a0"], 1),
        ("/a", "", 2, ["B", "b"], 2),
        ("/a", "b", 2, ["c", "z"], 0),
        ("/a", "bb", 1, ["c"], 1),
        ("/a", "z", 2, [], 0),
        ("/a", "", -5, ["B"], 3),
        ("/a/c", "", 1, [], 0),
    ],
)
def test_a_page_begins_behind_a_name(
    path: str, after: str, rows_max: int, names: list[str], left_out: int
) -> None:
    host, _ = small_tree()
    page = page_of(host, ListChildren(path, after, rows_max))
    assert (names_of(page), page.left_out, page.is_there) == (names, left_out, True)
    assert page.last == (names[-1] if names else "")


def test_a_znode_that_is_not_there_has_no_children() -> None:
    host, _ = small_tree()
    for path in ("/missing", "no path", ""):
        assert page_of(host, ListChildren(path)) == ChildrenPage([], "", 0, 0, is_there=False)


def test_what_is_deleted_while_the_list_is_made_has_no_row() -> None:
    host, caller = small_tree()
    steps = host.server.answer(ListChildren("/a", "", 3))
    next(steps)
    caller.ask(caller.delete("/a/c"), caller.create("/a/A"))
    with pytest.raises(StopIteration) as ended:
        next(steps)
    page = ended.value.value.page
    assert (names_of(page), page.last, page.total, page.left_out) == (["B", "b"], "c", 4, 1)


def test_a_million_children_are_listed_in_pages_of_bounded_steps() -> None:
    host, _ = small_tree()
    state = host.server.state
    znode = state.tree.znodes["/a/c"]
    # Only their names are looked at, but for those on the page.
    names = [f"/a/c/{(number * 611_953) % MILLION:07}" for number in range(MILLION)]
    children = ShardedChildren([])
    for czxid, name in enumerate(names, start=1):
        children.add(name, czxid)  # type: ignore[arg-type]
    znode.children = children
    shown: dict[str, Znode] = {
        f"/a/c/{number:07}": znode for number in range(500_000, 500_000 + ROWS_MAX)
    }
    state.tree.znodes.update(shown)
    steps = host.server.answer(ListChildren("/a/c", "0499999", 1 << 40))
    made = 0
    with pytest.raises(StopIteration) as ended:
        while True:
            next(steps)
            made += 1
    page = ended.value.value.page
    assert names_of(page) == [path.rpartition("/")[2] for path in shown]
    assert (page.total, page.left_out) == (MILLION, MILLION // 2 - ROWS_MAX)
    assert made == -(-MILLION // SHARD_SIZE)
