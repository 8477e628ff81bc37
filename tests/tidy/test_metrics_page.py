"""docs/METRICS.md has every metric with its type, its labels and its meaning."""

import pytest

from raykeeper.server.request_counts import LOCAL_KINDS, TXN_KINDS
from tests.tidy.metrics_page import PAGE, TABLES, table_of, with_tables


def test_the_page_has_the_metrics_of_the_code() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "run python -m tests.tidy.metrics_page"


def test_the_page_names_the_labels_that_all_have() -> None:
    page = PAGE.read_text()
    for name, (labels, _) in TABLES.items():
        section = page[: page.index(f"<!-- {name} -->")].rpartition("\n## ")[2]
        assert all(f"`{label}`" in section for label in labels), name


def test_the_page_names_every_kind_of_request() -> None:
    page = PAGE.read_text()
    kinds = {*LOCAL_KINDS.values(), *TXN_KINDS.values(), "connect", "sync", "close_session"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []


@pytest.mark.parametrize("change", ["counter", "`kind`", "Answered requests"])
def test_a_page_that_says_otherwise_is_noticed(change: str) -> None:
    page, table = PAGE.read_text(), table_of(TABLES["servers"][1])
    other = page.replace(table, table.replace(change, "something", 1))
    assert other != page
    assert with_tables(other) == page
