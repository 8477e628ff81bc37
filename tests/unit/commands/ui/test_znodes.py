"""The routes of one znode: by the viewer's own session, with versions, and only with `--edit`."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import pytest

from raykeeper.client import make_acl, make_digest_acl
from raykeeper.zab.effects import Role
from raykeeper.znodes.requests import CreateMode
from tests.harness.page_stage import TOKEN, Page, PureSource, open_page
from tests.harness.pure_servers import TIMING

ODD = "/a <img src=x onerror=alert(1)> \u202e'\"&é %2f?#"
ZNODE = "/api/v1/znode"


@asynccontextmanager
async def editable(**settings: Any) -> AsyncIterator[Page]:
    """A page on which a viewer has signed in who may edit."""
    async with open_page(**{"may_edit": True, **settings}) as page:
        await page.visit()
        yield page


async def read(page: Page, path: str, **more: str) -> Any:
    return (await page.request("GET", ZNODE, params={"path": path, **more}))[1]


async def put(page: Page, body: Any) -> tuple[int, Any]:
    """Send a change with a long body."""
    data, headers = BytesIO(json.dumps(body).encode()), {"Content-Type": "application/json"}
    return await page.request("PUT", ZNODE, data=data, headers=headers)


async def test_a_znode_is_told_with_value_stat_and_acl() -> None:
    async with editable() as page:
        caller = page.source.servers[1].caller(1)
        caller.ask(caller.create("/a", b"hello", CreateMode.EPHEMERAL))
        told = await read(page, "/a")
        assert {key: told[key] for key in ("path", "value", "value_base64", "offset")} == {
            "path": "/a",
            "value": "hello",
            "value_base64": None,
            "offset": 0,
        }
        assert told["is_text"] is True
        assert told["acls"] == [
            {
                "scheme": "world",
                "id": "anyone",
                "permissions": ["read", "write", "create", "delete", "admin"],
            }
        ]
        assert (told["stat"]["version"], told["stat"]["data_length"]) == (0, 5)
        assert told["stat"]["ephemeral_owner"] == f"{caller.session_id:#x}"
        status, told = await page.request("GET", ZNODE, params={"path": "/no"})
        assert (status, told["error"]) == (404, "/no: no such znode")


async def test_a_mebibyte_of_bytes_comes_in_parts_and_as_a_file() -> None:
    value = bytes(range(256)) * 4_096
    async with editable() as page:
        async with await page.source.connect() as client:
            await client.create("/big", value)
        parts, offset = b"", 0
        while offset < len(value):
            told = await read(page, "/big", offset=str(offset))
            assert (told["value"], told["is_text"]) == (None, False)
            part = base64.b64decode(told["value_base64"])
            assert len(part) == 64 << 10
            parts, offset = parts + part, offset + len(part)
        assert parts == value
        whole = await read(page, "/big", length=str(1 << 20))
        assert base64.b64decode(whole["value_base64"]) == value
        assert (await read(page, "/big", offset=str(1 << 30)))["value"] == ""
        async with page.http.get(f"{page.url}/api/v1/value?path=/big") as response:
            assert await response.read() == value
            assert response.content_type == "application/octet-stream"
            assert response.headers["Content-Disposition"].startswith("attachment")
        body = {"path": "/big", "version": 0, "value_base64": base64.b64encode(value).decode()}
        assert (await put(page, body))[0] == 200
        status, told = await put(page, {**body, "value_base64": "A" * 2_000_000})
        assert (status, told["kind"]) == (413, "ApiError")


async def test_odd_names_and_html_go_through_unchanged() -> None:
    async with editable() as page:
        value = "<img src=x onerror=alert(1)>\u202e\x00"
        created = await page.request("POST", ZNODE, json={"path": ODD, "value": value})
        assert created == (201, {"path": ODD})
        async with page.http.get(f"{page.url}{ZNODE}", params={"path": ODD}) as response:
            assert response.content_type == "application/json"
            assert "\u202e" not in await response.text(), "the document is ASCII"
            told = await response.json()
        assert (told["path"], told["value"]) == (ODD, value)
        _, told = await page.request("GET", "/api/v1/children")
        assert ODD[1:] in [each["name"] for each in told["children"]]


async def test_a_change_states_the_version_that_was_seen() -> None:
    async with editable() as page:
        await page.request("POST", ZNODE, json={"path": "/a", "value": "one"})
        change = {"path": "/a", "value": "two", "version": 0}
        status, told = await page.request("PUT", ZNODE, json=change)
        assert (status, told["stat"]["version"]) == (200, 1)
        status, told = await page.request("PUT", ZNODE, json=change)
        assert (status, told["kind"]) == (409, "BadVersionError")
        for version, expected in {"0": 409, "1": 200}.items():
            path = f"{ZNODE}?path=/a&version={version}"
            assert (await page.request("DELETE", path, json={}))[0] == expected
        assert (await page.request("GET", f"{ZNODE}?path=/a"))[0] == 404


async def test_a_creation_may_be_sequential_or_a_container() -> None:
    async with editable() as page:
        await page.request("POST", ZNODE, json={"path": "/c", "value": "", "container": True})
        sequential = {"path": "/c/n-", "value_base64": "AAE=", "sequence": True}
        status, told = await page.request("POST", ZNODE, json=sequential)
        assert (status, told["path"]) == (201, "/c/n-0000000000")
        assert (await read(page, told["path"]))["value"] == "\x00\x01"
        for body, expected, part in (
            ({"path": "/c", "value": ""}, 409, "exists"),
            ({"path": "/x/y", "value": ""}, 404, "/x"),
            ({"path": "x", "value": ""}, 400, "must start"),
            ({**sequential, "container": True}, 400, "not both"),
        ):
            status, told = await page.request("POST", ZNODE, json=body)
            assert status == expected and part in told["error"], told
        path = f"{ZNODE}?path=/c&version=0"
        status, told = await page.request("DELETE", path, json={})
        assert (status, told["kind"]) == (409, "NotEmptyError")


@pytest.mark.parametrize(
    ("method", "body", "part"),
    [
        ("PUT", {"path": "/a", "value": "x"}, "version"),
        ("PUT", {"path": "/a", "value": "x", "version": -1}, "must be the one that was seen"),
        ("PUT", {"path": "/a", "value": "x", "version": 1 << 31}, "must be the one"),
        ("PUT", {"path": "/a", "value": "x", "version": "0"}, "version"),
        ("PUT", {"path": "/a", "version": 0}, "either value or value_base64"),
        ("PUT", {"path": "/a", "value": "", "value_base64": "", "version": 0}, "either value or"),
        ("PUT", {"path": "/a", "value_base64": "é", "version": 0}, "no base64"),
        ("PUT", {"path": "/a", "value_base64": "A", "version": 0}, "no base64"),
        ("PUT", {"path": "/a", "value": "x", "version": 0, "force": True}, "force"),
        ("POST", {"value": "x"}, "path"),
        ("POST", [], "body is not"),
        ("POST", {"path": 7, "value": ""}, "path"),
    ],
)
async def test_what_is_wrong_in_a_body_is_named(method: str, body: Any, part: str) -> None:
    async with editable() as page:
        status, told = await page.request(method, ZNODE, json=body)
        assert status == 400 and part in told["error"], told


async def test_a_deletion_needs_a_version_and_a_change_needs_json() -> None:
    async with editable() as page:
        for query in ("path=/a", "path=/a&version=-1", "path=/a&version=x", "version=0"):
            status, told = await page.request("DELETE", f"{ZNODE}?{query}", json={})
            assert status == 400, told
        for method in ("PUT", "POST", "DELETE"):
            status, told = await page.request(method, f"{ZNODE}?path=/a&version=0", data=b"{}")
            assert status == 415 and "application/json" in told["error"]
        headers = {"Content-Type": "application/json"}
        for data in (b"", b"{", b"\xff"):
            status, told = await page.request("POST", ZNODE, data=data, headers=headers)
            assert status == 400, told
        assert (await page.request("DELETE", "/api/v1/identities", data=b""))[0] == 415


async def test_without_edit_every_change_is_refused() -> None:
    async with editable(may_edit=False) as page:
        body = {"path": "/a", "value": "x", "version": 0}
        for method, path in (
            ("PUT", ZNODE),
            ("POST", ZNODE),
            ("DELETE", f"{ZNODE}?path=/a&version=0"),
        ):
            status, told = await page.request(method, path, json=body)
            assert status == 403 and "without --edit" in told["error"]
        assert (await page.request("GET", f"{ZNODE}?path=/"))[0] == 200


async def test_acls_decide_by_the_identities_that_the_viewer_entered() -> None:
    async with editable() as page:
        async with await page.source.connect() as client:
            ann = make_digest_acl("ann", "secret", all=True)
            await client.create("/mine", b"v", acl=[ann])
            await client.create("/shown", b"v", acl=[ann, make_acl("world", "anyone", read=True)])
        for path in ("/mine", "/shown"):
            body = {"path": path, "value": "w", "version": 0}
            status, told = await page.request("PUT", ZNODE, json=body)
            assert (status, told["kind"]) == (403, "NoAuthError")
        assert (await page.request("GET", f"{ZNODE}?path=/mine"))[0] == 403
        assert (await page.request("GET", "/api/v1/value?path=/mine"))[0] == 403
        assert (await read(page, "/shown"))["acls"][0]["id"] == "ann:x"
        identities = "/api/v1/identities"
        entered = {"scheme": "digest", "credential": "ann:secret"}
        status, told = await page.request("POST", identities, json=entered)
        assert status == 200 and {"scheme": "digest", "user": "ann"} in told["identities"]
        assert (await read(page, "/mine"))["value"] == "v"
        body = {"path": "/mine", "value": "w", "version": 0}
        assert (await page.request("PUT", ZNODE, json=body))[0] == 200

        # Another viewer, and a program, have not entered it.
        headers = {"Authorization": f"Bearer {TOKEN}", "Cookie": ""}
        assert (await page.get(ZNODE, path="/mine"))[0] == 200, "the cookie comes first"
        page.http.cookie_jar.clear()
        assert (await page.request("GET", f"{ZNODE}?path=/mine", headers=headers))[0] == 403
        await page.visit()
        assert (await page.request("GET", f"{ZNODE}?path=/mine"))[0] == 403


async def test_identities_end_with_the_session_of_the_viewer() -> None:
    async with editable() as page:
        identities = "/api/v1/identities"
        entered = {"scheme": "scrypt", "credential": "ann:secret"}
        await page.request("POST", identities, json=entered)
        _, told = await page.request("GET", identities)
        assert {each["scheme"] for each in told["identities"]} == {"scrypt", "ip"}
        assert await page.request("DELETE", identities, json={}) == (200, {"identities": []})
        _, told = await page.request("GET", identities)
        assert told["identities"] == [{"scheme": "ip", "user": "127.0.0.1"}]
        for scheme, credential, expected in (
            ("plain", "ann:secret", 403),
            ("digest", "ann", 403),
        ):
            body = {"scheme": scheme, "credential": credential}
            status, told = await page.request("POST", identities, json=body)
            assert (status, told["kind"]) == (expected, "AuthFailedError")
        assert (await page.request("POST", identities, json={"scheme": "digest"}))[0] == 400


async def test_without_a_leader_changes_are_refused_and_a_new_viewer_reads_on() -> None:
    source = PureSource()
    source.connect_s = 0.5
    async with editable(source=source) as page:
        await page.request("POST", ZNODE, json={"path": "/a", "value": "x"})
        for other in (2, 3):
            source.servers.crash(other)
        source.dialer.rest()
        source.pass_time(20 * TIMING.tick_ms)
        assert source.servers[1].server.peer.role is Role.LOOKING
        body = {"path": "/a", "value": "y", "version": 0}
        assert (await page.request("PUT", ZNODE, json=body))[0] == 503
        page.http.cookie_jar.clear()
        await page.visit()
        status, told = await page.request("GET", f"{ZNODE}?path=/a")
        assert (status, told["value"]) == (200, "x")
        status, told = await page.request("PUT", ZNODE, json=body)
        assert (status, told["kind"]) == (503, "NotReadOnlyError")
