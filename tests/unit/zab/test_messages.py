"""Messages of peers: their bytes come back as they were, and their tags do not change."""

from typing import get_args

import msgspec
import pytest

from raykeeper.zab import messages
from raykeeper.zab.ids import FOUNDING, ZERO, Epoch, ServerId
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
from tests.unit.zab.histories import S1, S2, z

MINE, BEST = Vote(Epoch(1), z(1, 3), S1), Vote(Epoch(2), z(2, 1), S2)
ALL: list[ZabMessage] = [
    Notification(4, BEST, PeerState.LOOKING, True, MINE, FOUNDING),
    FollowerInfo(Epoch(1), 2, FOUNDING),
    LeaderInfo(Epoch(2), 2),
    AckEpoch(Epoch(1), z(1, 3), False),
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
    assert [message.__struct_config__.tag for message in ALL] == list(range(1, 19))


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
        [1, "?", [0, 0, 1], 0, True, [0, 0, 1]],
        [1, 1, ["?", 0, 1], 0, True, [0, 0, 1]],
        [1, 1, [0, "?", 1], 0, True, [0, 0, 1]],
        [1, 1, [0, 0, "?"], 0, True, [0, 0, 1]],
        [2, "?", 1, True],
        [3, "?", 1],
        [4, "?", 0, True],
        [4, 0, "?", True],
        *([tag, "?"] for tag in (6, 7, 9, 12, 13, 15, 16)),
        [11, "?", 0],
        [11, 0, "?"],
        [14, "?", [b"x"]],
    ],
)
def test_numbers_out_of_range_are_refused(fields: list[object], number: int) -> None:
    """An epoch above the last one would be promised on disk, a round above 2^64 - 1 not be sent."""
    data = msgspec.msgpack.encode(
        [number if field == "?" else _put(field, number) for field in fields]
    )
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(data, type=ZabMessage)  # type: ignore[arg-type]


def _put(field: object, number: int) -> object:
    if isinstance(field, list):
        return [number if part == "?" else part for part in field]
    return field


def test_votes_are_ordered_by_epoch_then_zxid_then_room_then_server() -> None:
    votes = [
        Vote(Epoch(0), ZERO, ServerId(9)),
        Vote(Epoch(1), z(1, 1), ServerId(3)),
        Vote(Epoch(1), z(1, 2), ServerId(7), has_room=False),
        Vote(Epoch(1), z(1, 2), ServerId(1)),
        Vote(Epoch(1), z(1, 2), ServerId(2)),
        Vote(Epoch(2), z(1, 1), ServerId(1)),
    ]
    shuffled = [votes[i] for i in (3, 0, 5, 4, 2, 1)]
    assert sorted(shuffled, key=lambda vote: vote.rank) == votes
