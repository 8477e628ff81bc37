"""The sizes of the parts of the tree."""

import pytest

from raykeeper.server import tree_sizes
from raykeeper.server.admin_queries import ROWS_MAX, MeasureTree, TreePage, TreeRow
from raykeeper.znodes.children import SHARDED_FROM
from raykeeper.znodes.requests import CreateMode
from tests.harness.admin_servers import answer_of
from tests.harness.caller import Caller
from tests.harness.pure_servers import PureServer


def row_of(host: PureServer, query: MeasureTree | None = None) -> TreeRow:
    page = answer_of(host, query or MeasureTree()).page
    assert isinstance(page, TreePage) and page.row is not None
    return page.row


def small_tree() -> tuple[PureServer, Caller]:
    host = PureServer()
    caller = host.caller(1)
    for path, size in {"/a": 10, "/a/b": 100, "/a/b/c": 7, "/a/d": 0, "/e": 500, "/f": 0}.items():
        caller.ask(caller.create(path, bytes(size)))
    caller.ask(caller.create("/f/g", b"1", CreateMode.EPHEMERAL))
    return host, caller


def test_a_row_has_the_sums_of_all_below_it() -> None:
    host, _ = small_tree()
    row = row_of(host, MeasureTree("/a"))
    assert (row.path, row.znodes, row.value_bytes, row.children) == ("/a", 4, 10, 2)
    assert row.data_bytes == 117 + len("/a/a/b/a/b/c/a/d")
    assert (row.ephemerals, row.left_out) == (0, 0)
    assert [(each.path, each.znodes, each.value_bytes) for each in row.rows] == [
        ("/a/b", 2, 100),
        ("/a/d", 1, 0),
    ]
    assert all(each.rows == [] and each.left_out == 0 for each in row.rows)


def test_the_whole_tree_is_what_the_statistics_say() -> None:
    host, _ = small_tree()
    row, stats = row_of(host), host.server.stats()
    assert (row.znodes, row.data_bytes, row.ephemerals) == (
        stats.znodes,
        stats.data_bytes,
        stats.ephemerals,
    )
    assert [each.path for each in row.rows] == ["/e", "/a", "/zookeeper", "/f"]
    assert row.rows[-1].ephemerals == 1


def test_rows_go_as_deep_as_they_are_asked_for() -> None:
    host, _ = small_tree()
    (row,) = (each for each in row_of(host, MeasureTree(depth=9)).rows if each.path == "/a")
    assert [each.path for each in row.rows[0].rows] == ["/a/b/c"]
    assert row_of(host, MeasureTree(depth=0)).rows == []
    assert row_of(host, MeasureTree(depth=-1)).znodes == host.server.stats().znodes


def test_the_largest_children_are_kept_and_the_others_summed() -> None:
    host, _ = small_tree()
    row = row_of(host, MeasureTree(rows_max=2))
    assert [each.path for each in row.rows] == ["/e", "/a"]
    assert row.left_out == 2
    assert row.left_out_znodes == row.znodes - 1 - sum(each.znodes for each in row.rows)
    own = row.value_bytes + len(row.path)
    assert row.left_out_bytes == row.data_bytes - own - sum(each.data_bytes for each in row.rows)
    assert len(row_of(host, MeasureTree(rows_max=-5)).rows) == 1


def test_a_missing_znode_has_no_row() -> None:
    host, _ = small_tree()
    page = answer_of(host, MeasureTree("/missing")).page
    assert page == TreePage(None, host.server.state.zxid)


def test_a_deep_table_has_fewer_rows_of_each_znode() -> None:
    host = PureServer()
    caller = host.caller(1)
    for path in ("/a", "/a/b", "/a/b/c", "/a/b/c/d"):
        caller.ask(caller.create(path))
    caller.acked = caller.number
    caller.ask(*(caller.create(f"/a/b/c/d/{number}") for number in range(12)))
    row = row_of(host, MeasureTree("/a/b/c/d", 1, 1 << 40))
    assert len(row.rows) == 12
    row = row_of(host, MeasureTree("/a", 4, 1 << 40))
    (lowest,) = row.rows[0].rows[0].rows
    assert (len(lowest.rows), lowest.left_out, lowest.left_out_znodes) == (10, 2, 2)


def test_a_large_znode_is_walked_in_steps() -> None:
    host = PureServer()
    caller = host.caller(1)
    caller.ask(caller.create("/a"))
    for start in range(0, SHARDED_FROM + 1_000, 1_000):
        caller.acked = caller.number
        caller.ask(*(caller.create(f"/a/{start + each:05}", b"12") for each in range(1_000)))
    count = host.server.state.tree.znodes["/a"].children
    assert count is not None
    steps = host.server.answer(MeasureTree("/a", rows_max=ROWS_MAX))
    made = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            row = end.value.page.row
            break
        made += 1
    assert made == len(count) // tree_sizes.VISITS_MAX
    assert (row.children, row.znodes, len(row.rows)) == (len(count), len(count) + 1, ROWS_MAX)
    assert (row.left_out, row.rows[0].path) == (len(count) - ROWS_MAX, "/a/05999")
    assert row_of(host, MeasureTree("/", depth=0)).znodes == host.server.stats().znodes


@pytest.mark.parametrize("at", [1, 2, 3])
def test_what_is_deleted_during_the_walk_may_count_or_not(
    monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(tree_sizes, "VISITS_MAX", 2)
    host, caller = small_tree()
    before = host.server.stats().znodes
    steps = host.server.answer(MeasureTree())
    for _ in range(at):
        next(steps)
    zxid = host.server.state.zxid
    caller.ask(caller.delete("/f/g"), caller.delete("/f"), caller.create("/a/new"))
    with pytest.raises(StopIteration) as ended:
        while True:
            next(steps)
    answer = ended.value.value
    assert before - 2 <= answer.page.row.znodes <= before + 1
    assert (answer.page.begun_at, answer.zxid) == (zxid, host.server.state.zxid)
