"""Messages of peers: their bytes come back as they were, and their tags do not change."""

from typing import get_args

import msgspec
import pytest

from raykeeper.zab import messages, wire_types
from raykeeper.zab.ids import ZERO, Epoch, ServerId
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    LogPaused,
    NewLeader,
    Notification,
    PeerState,
    Ping,
    Pong,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotCredit,
    SnapshotEnd,
    Trunc,
    UpToDate,
    Vote,
    ZabMessage,
)
from tests.unit.zab.histories import NEW_DISK, S1, S2, z

MINE, BEST = Vote(Epoch(1), z(1, 3), S1, is_willing=False), Vote(Epoch(2), z(2, 1), S2)
ALL: list[ZabMessage] = [
    Notification(4, BEST, PeerState.LOOKING, True, MINE, NEW_DISK),
    FollowerInfo(Epoch(1), 2, NEW_DISK),
    LeaderInfo(Epoch(2), 2),
    AckEpoch(Epoch(1), z(1, 3), False, True),
    Diff(),
    Trunc(z(1, 3)),
    Snapshot(z(1, 3)),
    SnapshotChunk(b"tree"),
    SnapshotEnd(z(2, 1)),
    SnapshotCredit(),
    NewLeader(Epoch(2), z(2, 1)),
    AckNewLeader(Epoch(2)),
    UpToDate(z(2, 1)),
    Proposals(z(2, 2), [b"a", b"", b"c"]),
    Ack(z(2, 4)),
    Commit(z(2, 4)),
    Ping(9),
    Pong(9),
    LogPaused(),
]


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_round_trip(message: ZabMessage) -> None:
    data = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(data, type=ZabMessage) == message  # type: ignore[arg-type]


def test_tags_are_those_of_the_protocol_and_every_message_is_tested() -> None:
    kinds = get_args(messages.LeaderMessage) + get_args(messages.LearnerMessage)
    assert {type(message) for message in ALL} == {Notification, *kinds}
    assert [message.__struct_config__.tag for message in ALL] == list(range(1, 20))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        msgspec.msgpack.encode([99]),
        msgspec.msgpack.encode([15]),
        msgspec.msgpack.encode([15, "x"]),
        msgspec.msgpack.encode({"type": 15}),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.msgpack.decode(data, type=ZabMessage)  # type: ignore[arg-type]


FAR, BELOW = (1 << 64) - 1, -1


@pytest.mark.parametrize("number", [FAR, BELOW])
@pytest.mark.parametrize(
    "fields",
    [
        [1, "?", [0, 0, 1], 0, True, [0, 0, 1], ""],
        [1, 1, ["?", 0, 1], 0, True, [0, 0, 1], ""],
        [1, 1, [0, "?", 1], 0, True, [0, 0, 1], ""],
        [1, 1, [0, 0, "?"], 0, True, [0, 0, 1], ""],
        [2, "?", 1, ""],
        [3, "?", 1],
        [4, "?", 0, True, False],
        [4, 0, "?", True, False],
        *([tag, "?"] for tag in (6, 7, 9, 12, 13, 15, 16)),
        [11, "?", 0],
        [11, 0, "?"],
        [14, "?", [b"x"]],
    ],
)
def test_numbers_out_of_range_are_refused(fields: list[object], number: int) -> None:
    """An epoch above the last one would be promised on disk, a round above 2^64 - 1 not be sent."""
    decode = msgspec.msgpack.Decoder(ZabMessage).decode
    decode(msgspec.msgpack.encode(_filled(fields, 0)))  # nothing else is wrong
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.msgpack.encode(_filled(fields, number)))


@pytest.mark.parametrize("fields", [[1, 1, [0, 0, 1], 0, True, [0, 0, 1]], [2, 1, 1]])
def test_the_name_of_a_disk_is_bounded(fields: list[object]) -> None:
    """It is written into the member list of everybody."""
    decode = msgspec.msgpack.Decoder(ZabMessage).decode
    decode(msgspec.msgpack.encode([*fields, "d" * wire_types.DISK_ID_CHARS_MAX]))
    for disk in ("d" * (wire_types.DISK_ID_CHARS_MAX + 1), True, None):
        with pytest.raises(msgspec.ValidationError):
            decode(msgspec.msgpack.encode([*fields, disk]))


def test_an_acknowledged_epoch_is_certain_and_a_vote_is_willing_unless_told() -> None:
    """Who was built before these fields says nothing of them."""
    decode = msgspec.msgpack.Decoder(ZabMessage).decode
    assert decode(msgspec.msgpack.encode([4, 1, 0, True])) == AckEpoch(Epoch(1), ZERO, True, False)
    old = decode(msgspec.msgpack.encode([1, 4, [1, 0, 2], 0, True, [1, 0, 2], ""]))
    assert isinstance(old, Notification)
    assert old.own_vote == Vote(Epoch(1), ZERO, S2, is_willing=True)


def _filled(fields: list[object], number: int) -> list[object]:
    return [
        _filled(field, number) if isinstance(field, list) else number if field == "?" else field
        for field in fields
    ]


def test_votes_are_ordered_by_epoch_then_zxid_then_room_then_server() -> None:
    votes = [
        Vote(Epoch(0), ZERO, ServerId(9)),
        Vote(Epoch(1), z(1, 1), ServerId(3)),
        Vote(Epoch(1), z(1, 2), ServerId(7), is_willing=False),
        Vote(Epoch(1), z(1, 2), ServerId(1)),
        Vote(Epoch(1), z(1, 2), ServerId(2)),
        Vote(Epoch(2), z(1, 1), ServerId(1)),
    ]
    shuffled = [votes[i] for i in (3, 0, 5, 4, 2, 1)]
    assert sorted(shuffled, key=lambda vote: vote.rank) == votes


@pytest.mark.parametrize(
    "members",
    [
        [-1, {1: ""}],
        [1, {}],
        [1, dict.fromkeys(range(300), "")],
        [1, {999: ""}],
        [1, {1: "d" * 99}],
        [1, {1: ""}, list(range(300))],
        [1, {1: ""}, [999]],
    ],
)
def test_a_member_list_is_bounded_and_never_empty(members: list[object]) -> None:
    decode = msgspec.msgpack.Decoder(ZabMessage).decode
    fields = [1, 1, [0, 0, 1], 0, True, [0, 0, 1], "", {}]
    told = decode(msgspec.msgpack.encode([*fields, [1, {1: "d", 2: ""}, [3]]]))
    assert told.members.voters == {1: "d", 2: ""}
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.msgpack.encode([*fields, members]))
