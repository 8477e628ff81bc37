"""The looks at the load, for all pages together."""

import asyncio

from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.commands.ui.load_feed import CHANGES_KEPT, LoadFeed
from tests.harness.page_stage import PureSource


async def test_looks_are_numbered_and_the_newest_are_kept() -> None:
    source = PureSource()
    feed = LoadFeed(source, 1.0, 3)
    for _ in range(5):
        await feed.look()
        source.pass_time(100)
    assert [each["number"] for each in await feed.after(0)] == [3, 4, 5]
    assert [each["number"] for each in await feed.after(4)] == [5]
    first, second, _ = feed.looks
    assert second["load"]["leader"] == 3
    assert second["load"]["servers"][0]["rates"]["interval_ms"] == 100
    assert (first["problem"], first["changes"]) == ("", [])


async def test_a_page_waits_for_the_next_look() -> None:
    feed = LoadFeed(PureSource(), 1.0, 3)
    waiting = asyncio.ensure_future(feed.after(0))
    await asyncio.sleep(0)
    assert not waiting.done()
    await feed.look()
    assert [each["number"] for each in await waiting] == [1]


async def test_a_page_that_knows_looks_of_an_earlier_server_gets_all() -> None:
    feed = LoadFeed(PureSource(), 1.0, 3)
    await feed.look()
    assert [each["number"] for each in await feed.after(1_000)] == [1]


async def test_what_happens_to_servers_is_kept_with_its_time() -> None:
    source = PureSource()
    feed = LoadFeed(source, 1.0, 3)
    await feed.look()
    source.asked.silent[1] = "late"
    await feed.look()
    (change,) = feed.changes
    assert (change["number"], change["text"]) == (1, "server 1 is down: late")
    assert feed.looks[-1]["changes"] == ["server 1 is down: late"]
    for number in range(CHANGES_KEPT):
        source.asked.silent = {} if number % 2 else {1: "late"}
        await feed.look()
    assert len(feed.changes) == CHANGES_KEPT


async def test_an_ensemble_that_cannot_be_asked_is_told_once_and_asked_again() -> None:
    source = PureSource()
    feed = LoadFeed(source, 1.0, 9)
    await feed.look()
    source.problem = EnsembleNotFoundError("no such ensemble")
    for _ in range(2):
        await feed.look()
    source.problem = None
    source.pass_time(100)
    await feed.look()
    assert [each["problem"] for each in feed.looks] == ["", *["no such ensemble"] * 2, ""]
    assert [each["load"] is None for each in feed.looks] == [False, True, True, False]
    assert [each["text"] for each in feed.changes] == [
        "the ensemble cannot be asked: no such ensemble",
        "the ensemble answers again",
    ]
    assert feed.looks[-1]["load"]["servers"][0]["rates"]["interval_ms"] == 100


async def test_it_looks_until_it_is_cancelled() -> None:
    feed = LoadFeed(PureSource(), 0.0, 100)
    running = asyncio.ensure_future(feed.run())
    while len(await feed.after(0)) < 3:
        await asyncio.sleep(0)
    running.cancel()
    assert [each["number"] for each in feed.looks][:3] == [1, 2, 3]
