"""For any invalid argument, both clients raise an error at once and send nothing.

The same calls are made on both clients, `Client` with the methods that do not wait. Errors that
only the server can find are in tests/unit/server/test_server_bad_input.py.
"""

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.errors import (
    AuthFailedError,
    BadArgumentsError,
    InvalidAclError,
    KeeperError,
)
from raykeeper.client.operations import READS_MAX
from raykeeper.client.session_options import SessionOptions
from raykeeper.znodes.acl import ENTRIES_CEILING, Acl
from raykeeper.znodes.limits import PATH_CHARS_MAX
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.znode import TTL_MS_MAX
from tests.harness.client_stage import ClientStage
from tests.harness.event_loops import VirtualLoop
from tests.harness.scripted_ensemble import ScriptedEnsemble

HALF = "\ud800"  # half of a surrogate pair, which UTF-8 cannot encode
BAD_PATHS: list[Any] = [
    *("", "a", "a/b", "/a/", "//", "//a", "/a//b", "/.", "/..", "/a/../b", "/a/.", "/\0", "/a\x1f"),
    *("/\x7f", "/\ue000", "/\uffff", "/\U0001f600", "/" + HALF, "/" + "x" * PATH_CHARS_MAX),
    *(None, 3, b"/a", ["/a"]),
]
BAD_VALUES: list[Any] = [None, "text", 3, [b"x"], bytes(11), bytearray(11), memoryview(bytes(11))]
BAD_VERSIONS: list[Any] = [1 << 31, -(1 << 31) - 1, "1", 1.0, True, None]
OPEN = Acl(31, "world", "anyone")
BAD_ACLS: list[Any] = [
    *([], (), 3, "text", [3], [("world", "anyone")], ["text"], OPEN),
    *([Acl(permissions, "world", "anyone")] for permissions in (32, -1, "1", 1.0, True, None)),
    *([OPEN, Acl(1, "world", who)] for who in ("", "somebody", None, 3, HALF)),
    *([Acl(1, scheme, "a:b")] for scheme in ("", "nobody", "super", None, 3, HALF)),
    *(
        [Acl(1, "digest", who)]
        for who in ("no colon", "a:", "a:b:c", f"{HALF}:x", "a:" + "x" * 512)
    ),
    *([Acl(1, "ip", host)] for host in ("", "host", "10.0.0.0/33", "1.2.3", HALF)),
    [Acl(1, "ip", f"10.0.{n >> 8}.{n & 255}") for n in range(ENTRIES_CEILING + 1)],
]
BAD_TTLS: list[Any] = [0, -1, float("nan"), float("inf"), "1", True, TTL_MS_MAX]
BAD_KINDS: list[dict[str, Any]] = [
    *({"ttl_s": ttl} for ttl in BAD_TTLS),
    *({"ttl_s": 1, kind: True} for kind in ("ephemeral", "container")),
    *({"container": True, kind: True} for kind in ("ephemeral", "sequence")),
]


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, _: object) -> None: ...


BAD_WATCHES: list[Any] = [3, True, "text", Unhashable()]

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(name: str, *args: Any, **more: Any) -> Call:
    return name, args, more


LIMITS = QuotaLimits(1)
READS = ("get", "exists", "get_children")
WITH_PATH = [
    *(partial(call, name) for name in ("create", "ensure_path", "delete", "sync", *READS)),
    *(partial(call, name) for name in ("get_acls", "get_all_children_number", "get_quota")),
    *(partial(call, name) for name in ("remove_quota", "t.create", "t.delete", "t.check")),
    *(partial(call, name) for name in ("t.get", "t.exists", "t.get_children", "t.otherwise.get")),
    lambda path: call("set", path, b""),
    lambda path: call("get_many", ["/a", path]),
    lambda path: call("set_acls", path, [OPEN]),
    lambda path: call("set_quota", path, LIMITS),
    lambda path: call("t.set", path, b""),
    lambda path: call("t.set_data", path, b""),
    lambda path: call("t.when", path, "exists", "==", True),
]
CALLS: list[Call] = [
    *(with_path(path) for with_path in WITH_PATH for path in BAD_PATHS),
    *(call("create", path, sequence=True) for path in ("", "a", "//", "/../", "/x\0", "/" + HALF)),
    *(call(name, "/a", value) for name in ("create", "t.create") for value in BAD_VALUES),
    *(call(name, "/a", value) for name in ("set", "t.set", "t.set_data") for value in BAD_VALUES),
    *(call(name, "/a", **kind) for name in ("create", "t.create") for kind in BAD_KINDS),
    *(call(name, "/a", b"", version) for name in ("set", "t.set") for version in BAD_VERSIONS),
    *(call(name, "/a", version) for name in ("delete", "t.delete") for version in BAD_VERSIONS),
    *(call("t.check", "/a", version) for version in BAD_VERSIONS),
    *(call("set_acls", "/a", [OPEN], version) for version in BAD_VERSIONS),
    *(call(name, "/a", watch=watch) for name in READS for watch in BAD_WATCHES),
    *(call(name, "/a", consistency=level) for name in READS for level in ("strong", "", None, 1)),
    *(call("get_many", paths) for paths in ("/a", 3, None, ["/a"] * (READS_MAX + 1))),
    *(call("add_auth", scheme, "a:b") for scheme in (None, 3, b"digest", HALF)),
    *(call("add_auth", "digest", secret) for secret in (None, 3)),
    *(call("get_ephemerals", prefix) for prefix in ("", "a", None, 3, "/" + HALF)),
    *(call("set_quota", path, LIMITS) for path in ("/", "/zookeeper", "/zookeeper/quota")),
    *(call("remove_quota", path) for path in ("/", "/zookeeper", "/zookeeper/quota")),
    *(call("set_quota", "/a", limits) for limits in (None, 3, {}, b"count=1", (1, 2, 3, 4))),
    *(
        call("set_quota", "/a", QuotaLimits(hard_bytes=limit))  # type: ignore[arg-type]
        for limit in (-2, 10**18, "1", 1.0, True, None)
    ),
    *(call("get_config", watch) for watch in BAD_WATCHES),
    *(call("get_config", consistency=level) for level in ("strong", "", None, 1)),
    *(call("reconfig", server) for server in (None, 0, 255, -1, "4", 4.0, True)),
    *(call("reconfig", 4, server) for server in (0, 255, -1, "4", 4.0, True)),
    *(call("reconfig", 4, as_observer=role) for role in (None, 1, "observer")),
    *(call("reconfig", 4, version=version) for version in (-2, 1 << 63, "1", 1.0, True, None)),
    *(call("t.when", "/a", field, "==", 1) for field in ("", "cversion", "VERSION", None, 1)),
    *(call("t.when", "/a", "version", sign, 1) for sign in ("", "=", ">=", None, 1)),
    *(call("t.when", "/a", "version", "==", operand) for operand in (b"1", "1", 1.0, True, None)),
    *(call("t.when", "/a", "mzxid", "<", operand) for operand in (1 << 63, -(1 << 63) - 1)),
    *(call("t.when", "/a", "value", "==", operand) for operand in (1, "1", bytearray(1), None)),
    *(call("t.when", "/a", "exists", "==", operand) for operand in (1, 0, b"", None)),
]
ACL_CALLS: list[Call] = [
    *(call("create", "/a", acl=acl) for acl in BAD_ACLS),
    *(call("ensure_path", "/a", acl=acl) for acl in BAD_ACLS),
    *(call("t.create", "/a", acl=acl) for acl in BAD_ACLS),
    *(call("set_acls", "/a", acl) for acl in BAD_ACLS),
]
AUTH_CALLS: list[Call] = [
    *(call("add_auth", "digest", secret) for secret in ("no colon", b"\xff:b", HALF + ":b")),
    *(call("add_auth", scheme, "a:b") for scheme in ("", "ip", "world", "super", "kerberos")),
]


def method(client: Any, name: str, ending: str) -> Callable[..., Any]:
    """Return a method; `t.` stands for a new transaction, whose methods never wait: none sends."""
    if not name.startswith("t."):
        return getattr(client, name + ending)  # type: ignore[no-any-return]
    target = client.transaction()
    for each in name.split(".")[1:]:
        target = getattr(target, each)
    return target  # type: ignore[no-any-return]


def is_refused(error: BaseException | None, made: Call) -> None:
    assert error is not None, f"{made} was accepted"
    kind = InvalidAclError if made in ACL_CALLS else BadArgumentsError
    assert type(error) is (AuthFailedError if made in AUTH_CALLS else kind), made
    assert isinstance(error, KeeperError) and error.definite


def test_the_blocking_client_refuses_bad_arguments(stage: ClientStage) -> None:
    client = stage.open(value_bytes_max=10)
    for made in (*CALLS, *ACL_CALLS, *AUTH_CALLS):
        name, args, more = made
        error = None
        try:
            method(client, name, "_async")(*args, **more)
        except KeeperError as found:
            error = found
        is_refused(error, made)
    client.sync()
    assert len(stage.ensemble.requests) == 1


async def test_the_async_client_refuses_bad_arguments(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    options = SessionOptions(session_timeout_s=9, timeout_s=1e6, value_bytes_max=10)
    client = await AsyncClient.open(ensemble.servers, ensemble, options, clock=loop.time)
    for made in (*CALLS, *ACL_CALLS, *AUTH_CALLS):
        name, args, more = made
        error = None
        try:
            answer = method(client, name, "")(*args, **more)
            if isawaitable(answer):
                await answer
        except KeeperError as found:
            error = found
        is_refused(error, made)
    await client.sync()
    assert len(ensemble.requests) == 1
    await client.close()
