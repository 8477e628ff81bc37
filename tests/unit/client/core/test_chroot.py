"""Chroot: every path that leaves has the prefix, and none that comes back."""

from typing import Any

import pytest

from raykeeper.client.core.chroot import ROOT, Chroot
from raykeeper.client.core.effects import CallWatchers, Complete, Fail
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import NodeExistsError, OperationTimeoutError
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    ErrorReply,
    EventType,
    GetDataReply,
    GetEphemeralsReply,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    Check,
    CloseSession,
    Compare,
    CompareField,
    CountDescendants,
    Create,
    Delete,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    ReadChildren,
    ReadData,
    ReadStat,
    Reconfig,
    Relation,
    SetAcls,
    SetData,
    Sync,
    WhoAmI,
)
from raykeeper.znodes.txns import MultiResults, OpChildren, OpDone, OpFailed
from tests.unit.client.wire import STAT, Wire, Z, done

APP = Chroot("/apps/one")
IS_THERE = CompareField.EXISTS, Relation.EQUAL, 1


@pytest.mark.parametrize(
    ("ask", "inside"),
    [
        (Create("/a", b"v", 0), Create("/apps/one/a", b"v", 0)),
        (Create("/", b"v", 0), Create("/apps/one", b"v", 0)),
        (Create("/", b"v", 2), Create("/apps/one/", b"v", 2)),
        (Delete("/a", 3), Delete("/apps/one/a", 3)),
        (SetData("/", b"v", 3), SetData("/apps/one", b"v", 3)),
        (SetAcls("/a", [], 3), SetAcls("/apps/one/a", [], 3)),
        (Query(GetData, "/a", "w", True), Query(GetData, "/apps/one/a", "w", True)),
        (Query(Exists, "/"), Query(Exists, "/apps/one")),
        (Query(GetChildren, "/a/b"), Query(GetChildren, "/apps/one/a/b")),
        (Query(Sync, "/"), Query(Sync, "/apps/one")),
        (GetAcls(0, "/a"), GetAcls(0, "/apps/one/a")),
        (CountDescendants(0, "/"), CountDescendants(0, "/apps/one")),
        # A prefix of a string: those of /apps/one1 are not inside.
        (GetEphemerals(0, "/"), GetEphemerals(0, "/apps/one/")),
        (
            MultiRead(0, [ReadData("/a"), ReadStat("/"), ReadChildren("/b")]),
            MultiRead(0, [ReadData("/apps/one/a"), ReadStat("/apps/one"),
                          ReadChildren("/apps/one/b")]),
        ),
        (
            Multi([Compare("/a", *IS_THERE)], [Create("/", b"", 2), Check("/c", 1)],
                        [Delete("/d", 1), Create("/e", b"", 0)]),
            Multi([Compare("/apps/one/a", *IS_THERE)],
                        [Create("/apps/one/", b"", 2), Check("/apps/one/c", 1)],
                        [Delete("/apps/one/d", 1), Create("/apps/one/e", b"", 0)]),
        ),
        # These have no path.
        (CloseSession(), CloseSession()),
        (AddAuth("digest", b"u:p"), AddAuth("digest", b"u:p")),
        (WhoAmI(0), WhoAmI(0)),
        (Reconfig(4, 0, True), Reconfig(4, 0, True)),
        (Query(GetData, "/zookeeper/config", ignores_chroot=True),
         Query(GetData, "/zookeeper/config", ignores_chroot=True)),
    ],
)  # fmt: skip
def test_requests_get_the_prefix(ask: Any, inside: Any) -> None:
    assert APP.prepend(ask) == inside


Z1 = Zxid(1)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (WriteReply(1, Z1, 0, "/apps/one/a", STAT), WriteReply(1, Z1, 0, "/a", STAT)),
        (WriteReply(1, Z1, 0, "/apps/one", STAT), WriteReply(1, Z1, 0, "/", STAT)),
        (WriteReply(1, Z1, 0, "", STAT), WriteReply(1, Z1, 0, "", STAT)),
        (WriteReply(1, Z1, -8, "no server joins", None),
         WriteReply(1, Z1, -8, "no server joins", None)),
        (
            WriteReply(1, Z1, -101, "", None, MultiResults(True, [OpDone("/apps/one/a", STAT),
                    OpDone("", None), OpChildren(["x"], STAT), OpFailed(-101)])),
            WriteReply(1, Z1, -101, "", None, MultiResults(True, [OpDone("/a", STAT),
                    OpDone("", None), OpChildren(["x"], STAT), OpFailed(-101)])),
        ),
        (GetEphemeralsReply(1, Z1, ["/apps/one/a", "/apps/one/b/c"]),
         GetEphemeralsReply(1, Z1, ["/a", "/b/c"])),
        (GetDataReply(1, Z1, b"/apps/one", STAT), GetDataReply(1, Z1, b"/apps/one", STAT)),
    ],
)  # fmt: skip
def test_replies_lose_the_prefix(answer: Any, shown: Any) -> None:
    assert APP.strip_reply(answer) == shown


@pytest.mark.parametrize(
    ("path", "shown"), [
        *(("/apps/one/a", "/a"), ("/apps/one", "/"), ("", "")),
        *(("/zookeeper/config", "/zookeeper/config"), ("/apps/one1", "/apps/one1")),
    ],
)  # fmt: skip
def test_paths_are_mapped_both_ways(path: str, shown: str) -> None:
    assert APP.strip(path) == shown
    assert ROOT.strip(path) == path


def test_the_core_maps_requests_and_replies() -> None:
    wire = Wire(chroot=APP, request_timeout_ms=2000).serving()
    create = Create("/a", b"", 0)
    read = Query(GetData, "/a", "watcher")
    sent = wire.submit(create, create, read)[0].requests
    assert sent[2] == GetData(1, "/apps/one/a", True)
    made, failed, got = wire.items(
        WriteReply(1, Z[2], 0, "/apps/one/a", STAT),
        done(2, Code.NODE_EXISTS),
        GetDataReply(1, Z[2], b"", STAT),
    )
    assert made == Complete(create, WriteReply(1, Z[2], 0, "/a", STAT))
    assert isinstance(failed, Fail) and type(failed.error) is NodeExistsError
    assert failed.error.path == "/a"
    assert isinstance(got, Complete)
    (fired,) = wire.items(WatcherEvent(EventType.CHANGED, "/apps/one/a", Z[3]))
    assert isinstance(fired, CallWatchers)
    assert (fired.watchers, fired.event.path) == (["watcher"], "/a")
    missing = Query(Exists, "/b", "watcher")
    wire.submit(missing)
    wire.items(ErrorReply(2, Z[3], Code.NO_AUTH))
    wire.watching(Query(Exists, "/c", "watcher"))
    wire.submit(create)
    (late,) = wire.at(3001).wake()
    assert type(late.error) is OperationTimeoutError and late.error.path == "/a"
    wire.submit(Query(Exists, "/d"))
    ends = wire.at(20_000).wake()
    assert [effect.error.path for effect in ends if isinstance(effect, Fail)] == ["/d"]
    assert [effect.event.path for effect in ends if isinstance(effect, CallWatchers)] == ["/c"]
