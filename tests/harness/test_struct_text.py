"""The texts of structs: how they look, and that they say everything."""

import pytest
from msgspec import Struct

from raykeeper.zab.effects import Effect, InstallSnapshot, LogRun, Role, RoleChanged
from raykeeper.zab.ids import DiskId, Epoch, ServerId, Zxid, make_zxid
from raykeeper.zab.messages import (
    AckEpoch,
    Diff,
    Notification,
    PeerState,
    Ping,
    Proposals,
    SnapshotChunk,
    Vote,
    ZabMessage,
)
from tests.harness.struct_text import format_struct, format_value, parse_struct

Z13 = make_zxid(Epoch(1), 3)
VOTE = Vote(Epoch(1), Z13, ServerId(2))
FULL = Vote(Epoch(1), Z13, ServerId(2), is_willing=False)
MOVED = {ServerId(2): DiskId("new"), ServerId(3): DiskId("a b")}
Union = ZabMessage | Effect


class Window(Struct):
    first: int = 1
    last: int = 2
    nested: Vote | Diff | None = None


@pytest.mark.parametrize(
    ("struct", "text"),
    [
        (Diff(), "Diff"),
        (Ping(4), "Ping 4"),
        (AckEpoch(Epoch(1), Z13, True), "AckEpoch current_epoch=1 last_zxid=1:3 promised=yes"),
        # A default in between is left out as well.
        (
            AckEpoch(Epoch(1), Z13, False, committed=Z13),
            "AckEpoch current_epoch=1 last_zxid=1:3 promised=no committed=1:3",
        ),
        # Structs, dictionaries and enums within another one.
        (
            Notification(7, VOTE, PeerState.LOOKING, True, FULL, DiskId(""), MOVED),
            "Notification round=7 vote=(1 1:3 2) state=LOOKING has_vote=yes "
            "own_vote=(1 1:3 2 no) disk='' voter_disks=2=new,3='a b'",
        ),
        (RoleChanged(Role.LOOKING, None), "RoleChanged role=LOOKING leader=none"),
        # Bytes that are none, look like something else, or like the notation itself.
        (Proposals(Zxid(1), []), "Proposals first=0:1 txns=()"),
        (Proposals(Zxid(1), [b"", b"no", b"a,b"]), "Proposals first=0:1 txns='',no,'a,b'"),
        (SnapshotChunk(b"it's, (so)"), "SnapshotChunk \"it's, (so)\""),
        (SnapshotChunk(b"\x00\xff\n"), r"SnapshotChunk '\x00ÿ\n'"),
        (
            InstallSnapshot(Z13, Z13, [LogRun(Z13, [b"c", b"d"]), LogRun(Z13, [b"e"])]),
            "InstallSnapshot zxid=1:3 consistent_at=1:3 tail=(1:3 c,d),(1:3 e)",
        ),
        (Window(last=5), "Window last=5"),
        (Window(nested=FULL), "Window nested=(Vote 1 1:3 2 no)"),
    ],
)  # fmt: skip
def test_a_struct_and_its_text(struct: Struct, text: str) -> None:
    assert format_struct(struct) == text
    assert parse_struct(text, Union | Window) == struct


def test_names_of_fields_may_be_left_out() -> None:
    text = "Notification 7 (epoch=1 zxid=1:3 leader=2) state=LOOKING has_vote=yes (1 1:3 2 no) ''"
    found = parse_struct(text, ZabMessage)
    assert found == Notification(7, VOTE, PeerState.LOOKING, True, FULL, DiskId(""))


def test_required_fields_may_have_defaults() -> None:
    defaults = {"promised": True, "last_zxid": Zxid(1), "number": 4}
    found = parse_struct("AckEpoch 1 last_zxid=1:3", ZabMessage, defaults)
    assert found == AckEpoch(Epoch(1), Z13, True)


@pytest.mark.parametrize(
    ("value", "text"),
    [(Z13, "1:3"), (3, "3"), ((ServerId(1), "gone away"), "1,'gone away'"), ([], "()")],
)
def test_a_value_of_any_type(value: object, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize("text", ["Pong", "Ping four", "Ping 4 5", "Ping number=4 4 4"])
def test_what_is_no_struct_is_refused(text: str) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        parse_struct(text, Ping | Diff)
