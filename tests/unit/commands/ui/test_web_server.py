"""The application and its port: the token, the headers, other sites, and what is served without."""

import asyncio
import re
import socket
import tomllib
from pathlib import Path

import aiohttp
import pytest

from raykeeper.commands.ui.access import HEADERS, AccessControl
from raykeeper.commands.ui.errors import PageError
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.web_server import PAGE, PageServer, served
from tests.harness.page_stage import TOKEN, PureSource, open_page

ROOT = Path(__file__).parents[4]
BEARER = {"Authorization": f"Bearer {TOKEN}"}


async def test_the_first_visit_shows_the_token_and_gets_a_cookie() -> None:
    async with open_page() as page:
        status, text = await page.request("GET", "/")
        assert status == 401 and "Sign in" in text and "main.js" not in text
        async with page.http.get(f"{page.url}/?token={TOKEN}", allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (303, "/")
            cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
        status, text = await page.request("GET", "/")
        assert status == 200 and "/static/main.js" in text
        assert (await page.request("GET", "/api/v1/load"))[0] == 200


async def test_the_form_of_the_login_page_takes_the_token() -> None:
    async with open_page() as page:
        origin = {"Origin": page.url}
        sent = {"data": {"token": "guess"}, "headers": origin}
        status, text = await page.request("POST", "/login", **sent)
        assert status == 403 and "That is not the token" in text
        assert (await page.request("GET", "/api/v1/load"))[0] == 401
        sent["data"] = {"token": f" {TOKEN}\n"}
        assert (await page.request("POST", "/login", **sent))[0] == 303
        assert (await page.request("GET", "/api/v1/load"))[0] == 200


async def test_a_wrong_token_is_refused_with_a_clear_text() -> None:
    async with open_page() as page:
        status, text = await page.request("GET", "/?token=wrong")
        assert status == 403 and "That is not the token. Nothing is shown without it." in text
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "raykeeper-0=a.b"}):
            for path in ("/api/v1/load", "/api/v1/znode?path=/", "/api/v1/stream", "/api/nothing"):
                status, told = await page.request("GET", path, headers=headers)
                assert status == 401 and told["error"].startswith("the token is missing or wrong")
        for method in ("PUT", "POST", "DELETE"):
            assert (await page.request(method, "/api/v1/znode"))[0] == 401


async def test_a_login_is_short() -> None:
    async with open_page() as page:
        status, told = await page.request("POST", "/login", data={"token": "x" * 5_000})
        assert status == 413 and "at most 4096 bytes" in told["error"]

        async def endless():  # type: ignore[no-untyped-def]
            yield b"token="

        assert (await page.request("POST", "/login", data=endless()))[0] == 413


async def test_a_program_needs_no_cookie() -> None:
    async with open_page() as page:
        status, told = await page.get("/api/v1/ensemble")
        assert (status, told["name"], told["may_edit"]) == (200, "coord", False)
        body = {"scheme": "digest", "credential": "a:b"}
        status, told = await page.request("POST", "/api/v1/identities", json=body, headers=BEARER)
        assert status == 403 and "belongs to a viewer with a cookie" in told["error"]


async def test_another_site_gets_nothing_even_with_the_token() -> None:
    async with open_page() as page:
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            status, told = await page.request("GET", "/api/v1/load", headers={**BEARER, **headers})
            assert status == 403 and "must be this" in told["error"]
            assert (await page.request("GET", f"/?token={TOKEN}", headers=headers))[0] == 403
        headers = {**BEARER, "Sec-Fetch-Site": "cross-site"}
        status, told = await page.request("DELETE", "/api/v1/znode?path=/a", headers=headers)
        assert (status, told["error"]) == (403, "another site asks for a change")


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/v1/load", "/api/v1/stream", "/no"])
async def test_every_answer_has_the_headers(path: str) -> None:
    async with open_page() as page, page.http.get(f"{page.url}{path}", headers=BEARER) as response:
        assert {name: response.headers[name] for name in HEADERS} == HEADERS


async def test_only_the_files_of_the_page_are_served() -> None:
    async with open_page() as page:
        for file in PAGE.iterdir():
            status, _ = await page.request("GET", f"/static/{file.name}")
            assert status == (404 if file.suffix == ".html" else 200)
        for name in ("%2e%2e%2fsource.py", "..%2fsource.py", "nothing.js", ""):
            assert (await page.request("GET", f"/static/{name}"))[0] == 404


async def test_every_route_and_option_is_documented() -> None:
    document = (ROOT / "docs/UI.md").read_text()
    app = PageServer(PureSource(), AccessControl(TOKEN, b"key"), PageSettings()).app
    routes = {
        f"{route.method} {route.resource.canonical.removeprefix('/api/v1/')}"
        for route in app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/api/v1/")
    }
    documented = set(re.findall(r"^\| `((?:GET|PUT|POST|DELETE) \w+)`", document, re.MULTILINE))
    assert documented == {each for each in routes if not each.startswith("HEAD")}
    options = {"--port", "--edit", "--interval-s", "--looks", "--viewers", "--idle-s", "--backups"}
    options |= {"--backup-files", "--backup-timeout-s"}
    assert options <= set(re.findall(r"^\| `(--[\w-]+)`", document, re.MULTILINE))


def test_the_files_of_the_page_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pattern,) = project["tool"]["setuptools"]["package-data"]["raykeeper.commands.ui"]
    assert sorted(PAGE.parent.glob(pattern)) == sorted(PAGE.rglob("*"))


async def test_html_has_nothing_inline() -> None:
    for file in PAGE.glob("*.html"):
        text = file.read_text()
        assert "<script>" not in text and "<style" not in text and " style=" not in text
        assert " onclick" not in text and "http:" not in text and "https:" not in text
    for file in PAGE.glob("*.js"):
        text = file.read_text()
        assert not any(each in text for each in ("innerHTML", "outerHTML", "insertAdjacentHTML"))
        assert "document.write" not in text and "eval(" not in text


async def test_an_error_of_its_own_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with open_page() as page:
        page.source.problem = RuntimeError("a bug")
        status, told = await page.get("/api/v1/locks")
        assert (status, told["kind"]) == (500, "ApiError")
        assert "a bug" not in told["error"] and "a bug" in caplog.text


async def test_a_wrong_method_or_path_is_told_as_json() -> None:
    async with open_page() as page:
        assert (await page.get("/api/v1/nothing"))[0] == 404
        status, told = await page.request("POST", "/api/v1/load", headers=BEARER)
        assert (status, told["error"]) == (405, "Method Not Allowed: /api/v1/load")


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = PageServer(PureSource(), AccessControl(TOKEN, b"key"), PageSettings())
        with pytest.raises(PageError, match=rf"cannot listen at 127.0.0.1:{port}: .*--port, 0"):
            async with served(server, port):
                raise AssertionError("it listens")


async def test_the_end_of_the_server_ends_streams_and_sessions() -> None:
    source = PureSource()
    async with aiohttp.ClientSession() as http:
        async with open_page(source) as page:
            await page.get("/api/v1/znode", path="/")
            assert len(source.servers.leader.server.state.sessions.by_id) == 1
            stream = await http.get(f"{page.url}/api/v1/stream", headers=BEARER)
            assert (await stream.content.readline()).startswith(b"id: 1")
            left = asyncio.ensure_future(stream.read())
        assert b"data: " in await left
    assert not source.servers.leader.server.state.sessions.by_id


async def test_idle_viewers_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raykeeper.commands.ui.web_server.IDLE_CHECK_S", 0.001)
    source = PureSource()
    async with open_page(source, idle_s=0.0) as page:
        await page.get("/api/v1/znode", path="/")
        while source.servers.leader.server.state.sessions.by_id:
            await asyncio.sleep(0.001)
