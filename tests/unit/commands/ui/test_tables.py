"""The routes of the tables: what the commands print as JSON."""

import asyncio
import json
from typing import Any

import pytest

from raykeeper.client.errors import ConnectionLossError, EnsembleNotFoundError
from raykeeper.clusters.admin import EnsembleAdmin
from raykeeper.clusters.keeper_journal import ELECTION, Journal
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.commands.tables import locks_document, sessions_document, tree_document
from raykeeper.commands.ui.source import LateError
from raykeeper.zab.effects import Role
from raykeeper.znodes.requests import CreateMode
from tests.harness.decisions import BEGUN
from tests.harness.page_stage import NAME, TOKEN, Page, PureSource, open_page
from tests.harness.pure_servers import OPTIONS, TIMING, PureServers

LATE = "no answer within 2 s"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PLACE = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL


async def test_a_document_is_that_of_the_command() -> None:
    async with open_page() as page:
        servers = page.source.servers
        callers = [servers[each].caller(each) for each in (1, 2, 3)]
        callers[0].ask(callers[0].create("/q"), callers[0].get("/", watch=True))
        for caller in callers:
            caller.ask(caller.create("/q/lock-", flags=PLACE))
        admin = EnsembleAdmin(page.source.asked)
        for path, expected in (
            ("sessions", sessions_document(NAME, admin.sessions(100))),
            ("locks", locks_document(NAME, admin.locks())),
            ("sizes", tree_document(NAME, admin.tree_sizes())),
        ):
            assert await page.get(f"/api/v1/{path}") == (200, json.loads(json.dumps(expected)))
        (lock,) = (await page.get("/api/v1/locks", path="/q", contenders="2"))[1]["locks"]
        assert [each["state"] for each in lock["contenders"]] == ["holds", "waits"]
        (watch,) = (await page.get("/api/v1/watches", path="/"))[1]["watches"]
        assert (watch["path"], watch["session_id"]) == ("/", f"{callers[0].session_id:#x}")
        _, watches = await page.get("/api/v1/watches", session=f"{callers[1].session_id:#x}")
        assert watches["watches"] == []


async def test_the_status_is_told_with_the_keeper() -> None:
    async with open_page() as page:
        page.source.keeper_status = KeeperStatus(leads=True, problem="a node is full")
        status, told = await page.get("/api/v1/status")
        assert (status, told["leader"], told["keeper"]["problem"]) == (200, 3, "a node is full")
        assert [each["role"] for each in told["servers"]] == ["follower", "follower", "leader"]


async def test_a_dead_and_a_late_server_are_shown_and_the_rest_goes_on() -> None:
    async with open_page() as page:
        page.source.asked.silent[2] = LATE
        page.source.servers.crash(1)
        page.source.servers.leader.caller(7)
        await page.server.feed.look()
        for path in ("sessions", "locks", "watches", "sizes", "children"):
            status, told = await page.get(f"/api/v1/{path}")
            assert status == 200, (path, told)
            problems = {each["server_id"]: each["problem"] for each in told["servers"]}
            assert problems == {1: "its actor is dead", 2: LATE, 3: ""}, path
        _, look = await page.get("/api/v1/load")
        stats = [each["stats"] is None for each in look["load"]["servers"]]
        assert (stats, look["load"]["leader"]) == ([True, True, False], 3)
        _, told = await page.get("/api/v1/status")
        assert [each["role"] for each in told["servers"]] == ["down", "down", "leader"]
        _, told = await page.get("/api/v1/events")
        texts = [each["text"] for each in told["changes"]]
        assert texts == ["server 1 is down: its actor is dead", f"server 2 is down: {LATE}"]


async def test_without_a_leader_the_tables_say_so() -> None:
    async with open_page() as page:
        servers = page.source.servers
        for other in (2, 3):
            servers.crash(other)
        while servers[1].server.peer.role is not Role.LOOKING:
            servers.pass_time(TIMING.tick_ms)
        await page.server.feed.look()
        _, look = await page.get("/api/v1/load")
        assert (look["problem"], look["load"]["leader"]) == ("", None)
        for path in ("sessions", "locks", "sizes", "children"):
            status, told = await page.get(f"/api/v1/{path}")
            assert (status, told["told_by"]) == (200, 1)
            assert not any(each["has_leader"] for each in told["servers"])
        _, told = await page.get("/api/v1/status")
        assert (told["leader"], "server 2 is down" in str(told["reason"])) == (None, True)


async def test_where_no_server_answers_nothing_is_told_but_that() -> None:
    async with open_page() as page:
        page.source.asked.silent = dict.fromkeys((1, 2, 3), LATE)
        for path, rows in {
            "sessions": "sessions",
            "locks": "locks",
            "children": "children",
        }.items():
            status, told = await page.get(f"/api/v1/{path}")
            assert (status, told["told_by"], told[rows]) == (200, None, [])
        assert (await page.get("/api/v1/sizes"))[1]["tree"] is None


@pytest.mark.parametrize(
    ("error", "status"),
    [(LateError("Ray is late"), 504), (EnsembleNotFoundError("no such ensemble"), 503)],
)
async def test_an_ensemble_that_cannot_be_asked_is_told(error: Exception, status: int) -> None:
    async with open_page() as page:
        page.source.problem = error
        for path in ("status", "sessions", "locks", "watches", "sizes", "children"):
            expected = {"error": str(error), "kind": type(error).__name__}
            assert await page.get(f"/api/v1/{path}") == (status, expected)
        assert (await page.get("/api/v1/ensemble"))[0] == 200


async def test_ten_thousand_sessions_come_in_pages() -> None:
    servers = PureServers(1, options=OPTIONS)
    for number in range(1, 10_001):
        servers[1].caller(number)
    async with open_page(PureSource(servers)) as page:
        ids: list[str] = []
        while True:
            after = {"after": ids[-1]} if ids else {}
            status, told = await page.get("/api/v1/sessions", limit="1000", **after)
            assert (status, told["total"], len(told["sessions"])) == (200, 10_000, 1_000)
            ids += [each["session_id"] for each in told["sessions"]]
            if not told["left_out"]:
                break
        assert len(set(ids)) == len(ids) == 10_000
        assert (await page.get("/api/v1/sessions"))[1]["left_out"] == 9_900


async def test_children_come_in_pages() -> None:
    async with open_page() as page:
        caller = page.source.servers[1].caller(1)
        names = ["a", "b <b>", "c\u202e", "é"]
        caller.ask(caller.create("/x"), *(caller.create(f"/x/{each}", b"12") for each in names))
        caller.ask(caller.create("/x/e", flags=CreateMode.EPHEMERAL))
        status, told = await page.get("/api/v1/children", path="/x", limit="3")
        assert status == 200
        assert [each["name"] for each in told["children"]] == ["a", "b <b>", "c\u202e"]
        assert told["children"][0] == {
            "name": "a",
            "children": 0,
            "value_bytes": 2,
            "session_id": None,
        }
        assert (told["path"], told["last"], told["total"], told["left_out"]) == (
            *("/x", "c\u202e", 5, 2),
        )
        _, told = await page.get("/api/v1/children", path="/x", after=told["last"])
        assert [each["name"] for each in told["children"]] == ["e", "é"]
        assert told["children"][0]["session_id"] == f"{caller.session_id:#x}"
        for path in ("children", "sizes"):
            status, told = await page.get(f"/api/v1/{path}", path="/missing")
            assert (status, told["error"]) == (404, "/missing: no such znode")


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("sessions?limit=0", "limit must be a number from 1 to 1000, not '0'"),
        ("sessions?limit=1001", "limit must be"),
        ("sessions?after=x", "after must be a session id such as 0x1f, not 'x'"),
        ("locks?path=a", "a path must start with"),
        ("locks?contenders=many", "contenders must be a number"),
        ("watches?session=-", "session must be a session id"),
        ("sizes?depth=21", "depth must be a number from 0 to 20"),
        ("children?path=/a/", "path"),
        ("children?path=%ff", "path"),
        ("stream?after=x", "after must be a number"),
    ],
)
async def test_what_is_wrong_in_a_query_is_named(path: str, part: str) -> None:
    async with open_page() as page:
        status, told = await page.request("GET", f"/api/v1/{path}", headers=BEARER)
        assert status == 400 and part in told["error"], told


async def looks_of(page: Page, query: str, count: int, **headers: str) -> list[dict[str, Any]]:
    """Return the first looks of a new stream."""
    looks: list[dict[str, Any]] = []
    async with page.http.get(
        f"{page.url}/api/v1/stream{query}", headers={**BEARER, **headers}
    ) as stream:
        assert stream.content_type == "text/event-stream"
        while len(looks) < count:
            line = (await stream.content.readline()).decode()
            if line.startswith("data: "):
                looks.append(json.loads(line.removeprefix("data: ")))
    return looks


async def test_a_stream_has_the_looks_and_goes_on_where_it_ended() -> None:
    async with open_page() as page:
        await page.server.feed.after(0)
        for _ in range(2):
            page.source.pass_time(1_000)
            await page.server.feed.look()
        looks = await looks_of(page, "", 3)
        assert [each["number"] for each in looks] == [1, 2, 3]
        assert looks[2]["load"]["servers"][0]["rates"]["interval_ms"] == 1_000
        assert [each["number"] for each in await looks_of(page, "?after=2", 1)] == [3]
        resumed = looks_of(page, "?after=0", 1, **{"Last-Event-ID": "3"})
        waiting = asyncio.ensure_future(resumed)
        page.source.pass_time(1_000)
        await page.server.feed.look()
        assert [each["number"] for each in await waiting] == [4]


async def test_a_stream_has_no_head() -> None:
    async with open_page() as page:
        assert (await page.request("HEAD", "/api/v1/stream", headers=BEARER))[0] == 405
        assert (await page.request("HEAD", "/api/v1/load", headers=BEARER))[0] == 200


async def test_there_are_not_more_streams_than_allowed() -> None:
    async with open_page(viewers_max=1) as page:
        async with page.http.get(f"{page.url}/api/v1/stream", headers=BEARER) as stream:
            await stream.content.readline()
            status, told = await page.get("/api/v1/stream")
            assert status == 503 and "1 pages are open; `--viewers` allows more" in told["error"]
        # The place is free once the server has seen that the page was closed.
        while (await page.get("/api/v1/stream?after=x"))[0] == 503:
            await page.server.feed.look()


async def test_what_the_keeper_decided_is_told_or_why_not() -> None:
    async with open_page() as page:
        async with await page.source.connect() as client:
            journal = Journal(client)
            await journal.create_paths()
            leadership = await client.election(ELECTION).lead()
            await journal.write_decision(leadership, BEGUN)
        status, told = await page.get("/api/v1/events")
        (event,) = told["events"]
        assert (status, told["problem"], event["step"]) == (200, "", "begun")
        page.source.connect = _no_server  # type: ignore[method-assign]
        await page.server.viewers.close_all()
        status, told = await page.get("/api/v1/events")
        assert (status, told["events"], "no server" in told["problem"]) == (200, [], True)


async def _no_server() -> Any:
    raise ConnectionLossError("", "no server takes the session")
