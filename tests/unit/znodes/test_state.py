"""State: applying each kind of transaction, the outcome told, and twice is once."""

import msgspec
import pytest

from raykeeper.zab.feature_levels import LEVEL_MIN, FeatureLevel
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.state import State, outcome_of
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    RaiseLevelTxn,
    ReconfigErrorTxn,
    ReconfigTxn,
    ReplaceVoterTxn,
    SetDataTxn,
    Txn,
    TxnBody,
    UnknownTxnError,
    WriteOutcome,
    decode_txn,
    encode_txn,
)
from tests.unit.znodes.one_leader import OneLeader

SESSION = SessionId(1)
OPENED = CreateSessionTxn(SESSION, b"p" * 16, Millis(5_000), ServerId(1), 7)
STAT_SET = Stat(Zxid(2), Zxid(3), Millis(20), Millis(30), 1, 0, 0, 1, 3, 0, Zxid(2))
STAT_CREATED = Stat(Zxid(2), Zxid(2), Millis(20), Millis(20), 0, 0, 0, 1, 1, 0, Zxid(2))

HISTORY: list[tuple[int, TxnBody]] = [
    (0, OPENED),
    (1, CreateTxn("/e", b"x", SESSION, 1)),
    (2, SetDataTxn("/e", b"xyz", STAT_SET)),
    (3, ErrorTxn(Code.BAD_VERSION)),
    (4, CreateTxn("/p", b"", SessionId(0), 2)),
    (5, DeleteTxn("/p")),
    (0, CreateSessionErrorTxn(ServerId(1), 8, Code.AUTH_FAILED)),
    (6, CloseSessionTxn(SESSION, ["/e"])),
    (0, ReplaceVoterTxn(ServerId(2), DiskId("d1"))),
    (0, ReplaceVoterTxn(ServerId(2), DiskId("d2"))),
    (0, ReplaceVoterTxn(ServerId(1), DiskId("d1"))),
]


def encoded(index: int, acked: int = 0) -> bytes:
    number, change = HISTORY[index]
    return encode_txn(
        Txn(SESSION if number else SessionId(0), number, acked, Millis(10 * (index + 1)), change)
    )


def after(count: int) -> State:
    state = State()
    for index in range(count):
        state.apply(Zxid(index + 1), encoded(index))
    return state


def test_a_new_state_is_the_same_everywhere() -> None:
    state = State()
    assert (state.zxid, state.consistent_at, state.time_ms) == (ZERO, ZERO, 0)
    assert state.digest() == State().digest() != 0


def test_each_transaction_is_applied_and_returned() -> None:
    state = after(2)
    assert (state.zxid, state.time_ms) == (2, 20)
    znode = state.tree.get("/e")
    assert znode is not None
    assert znode.ctime is state.time_ms
    txn = state.apply(Zxid(3), encoded(2))
    assert txn == Txn(SESSION, 2, 0, Millis(30), HISTORY[2][1])
    assert znode.value == b"xyz"
    for index in range(3, 7):
        state.apply(Zxid(index + 1), encoded(index))
    assert state.tree.get("/p") is None
    session = state.sessions.get(SESSION)
    assert session is not None
    assert session.reply_cache == {
        1: WriteOutcome(Zxid(2), 0, "/e", STAT_CREATED),
        2: WriteOutcome(Zxid(3), 0, "", STAT_SET),
        3: WriteOutcome(Zxid(4), Code.BAD_VERSION, "", None),
        4: WriteOutcome(Zxid(5), 0, "/p", msgspec.structs.replace(
            STAT_CREATED, czxid=5, mzxid=5, pzxid=5, ctime=50, mtime=50, ephemeral_owner=0,
            data_length=0)),
        5: WriteOutcome(Zxid(6), 0, "", None),
    }  # fmt: skip
    state.apply(Zxid(8), encoded(7))
    assert state.tree.get("/e") is None
    assert state.sessions.get(SESSION) is None


def replaced(*voters: tuple[int, str]) -> State:
    state = State()
    for counter, (server, disk) in enumerate(voters, 1):
        change = ReplaceVoterTxn(ServerId(server), DiskId(disk))
        state.apply(Zxid(counter), encode_txn(Txn(SessionId(0), 0, 0, Millis(9), change)))
    return state


def test_the_list_of_members_names_the_last_disk_of_each() -> None:
    """Rule D3. Who was never replaced is on its founding disk, and not in here."""
    assert after(8).voters == {}
    assert after(9).voters == {2: "d1"}
    assert after(11).voters == {2: "d2", 1: "d1"}


MEMBERS = MemberList(
    Zxid(2), {ServerId(1): FOUNDING_DISK, ServerId(4): DiskId("d")}, (ServerId(5),)
)


def test_a_member_list_replaces_the_whole_list_once() -> None:
    state = replaced((1, "old"))
    set_config = SetDataTxn("/zookeeper/config", b"the list", STAT_CREATED)
    changes = [ReconfigTxn(MEMBERS, set_config), ReconfigTxn(MEMBERS), ReconfigTxn(MEMBERS)]
    for zxid, change in zip([2, 3, 3], changes, strict=True):
        state.apply(Zxid(zxid), encode_txn(Txn(SessionId(0), 0, 0, Millis(9), change)))
    founding = MemberList(ZERO, {ServerId(1): FOUNDING_DISK})
    assert state.member_list(founding) == state.members == MEMBERS
    assert state.voters == {4: "d"}
    config = state.tree.get("/zookeeper/config")
    assert config is not None and config.value == b"the list"
    assert state.digest() != replaced((4, "d")).digest()


def test_a_list_is_said_again_by_a_transaction_that_writes_no_config() -> None:
    """So a replay of the first one, over a fuzzy snapshot that has the list, does not count."""
    state = State()
    set_config = SetDataTxn("/zookeeper/config", b"the list", STAT_CREATED)
    first, again = ReconfigTxn(MEMBERS, set_config), ReconfigTxn(MEMBERS)
    second = ReconfigTxn(MemberList(Zxid(4), MEMBERS.voters), set_config)
    said = [(1, state.is_list_said_again)]
    last = ReconfigTxn(second.members)
    for zxid, change in [(2, first), (2, first), (3, again), (3, again), (4, second), (5, last)]:
        state.apply(Zxid(zxid), encode_txn(Txn(SessionId(0), 0, 0, Millis(9), change)))
        said.append((zxid, state.is_list_said_again))
    assert said == [(1, True), (2, False), (2, False), (3, True), (3, True), (4, False), (5, True)]


def test_a_disk_is_replaced_in_a_changed_list_too() -> None:
    state = State()
    disks = [ReplaceVoterTxn(ServerId(server), DiskId("new")) for server in (4, 4, 9)]
    for zxid, change in enumerate([ReconfigTxn(MEMBERS), *disks], 2):
        state.apply(Zxid(zxid), encode_txn(Txn(SessionId(0), 0, 0, Millis(9), change)))
    assert state.members == MEMBERS.with_disk(ServerId(4), DiskId("new"), Zxid(3))


def test_the_outcome_of_a_change_of_members() -> None:
    config = SetDataTxn("/zookeeper/config", b"the list", STAT_SET)
    for change, outcome in (
        (ReconfigTxn(MEMBERS, config), WriteOutcome(Zxid(2), 0, "the list", STAT_SET)),
        (ReconfigErrorTxn(-14, "open"), WriteOutcome(Zxid(2), -14, "open", None)),
    ):
        assert outcome_of(Zxid(2), Txn(SESSION, 1, 0, Millis(9), change)) == outcome


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # The order in which it came about does not matter.
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True),
        ([(1, "z"), (1, "a")], [(1, "a")], True),
        # Which disk it is, and whose, does.
        ([(1, "a")], [(1, "b")], False),
        ([(1, "a")], [(2, "a")], False),
        ([(1, "a"), (2, "b")], [(1, "b"), (2, "a")], False),
        ([(1, "a")], [], False),
        # Two members on disks of one name do not cancel.
        ([(1, "a"), (2, "a")], [], False),
    ],
)
def test_the_digest_covers_the_list_of_members(
    one: list[tuple[int, str]], other: list[tuple[int, str]], same: bool
) -> None:
    assert (replaced(*one).digest() == replaced(*other).digest()) is same


@pytest.mark.parametrize("count", range(1, len(HISTORY) + 1))
def test_applying_a_transaction_twice_changes_nothing(count: int) -> None:
    state = after(count)
    before = (state.digest(), len(state.tree.znodes))
    state.apply(Zxid(count), encoded(count - 1))
    assert (state.digest(), len(state.tree.znodes)) == before


def test_every_transaction_changes_the_digest() -> None:
    digests = {after(count).digest() for count in range(len(HISTORY) + 1)}
    # All but the refusal to open, which leaves nothing behind.
    assert len(digests) == len(HISTORY)


def test_acknowledged_outcomes_are_forgotten() -> None:
    state = after(3)
    state.apply(Zxid(4), encoded(3, acked=2))
    session = state.sessions.get(SESSION)
    assert session is not None
    assert list(session.reply_cache) == [3]


def test_transactions_of_one_millisecond_share_its_number() -> None:
    """Half of the memory of a znode's numbers."""
    state = after(1)
    for zxid in (2, 3):
        change = CreateTxn(f"/{zxid}", b"", SessionId(0), zxid)
        state.apply(Zxid(zxid), encode_txn(Txn(SessionId(0), 0, 0, Millis(10**12), change)))
    one, other = state.tree.get("/2"), state.tree.get("/3")
    assert one is not None
    assert other is not None
    assert one.ctime is other.mtime


def test_a_malformed_transaction_changes_nothing() -> None:
    state = after(2)
    before = state.digest()
    with pytest.raises(UnknownTxnError, match="transaction 0:3 is none that this program knows"):
        state.apply(Zxid(3), b"\xc1")
    with pytest.raises(UnknownTxnError, match=r"feature levels 1 to 2"):
        state.apply(Zxid(3), b"\x93\x01\x02\x03")
    assert (state.digest(), state.zxid) == (before, 2)


def test_the_end_of_a_session_has_its_outcome_without_a_table() -> None:
    txn = Txn(SESSION, 6, 0, Millis(80), HISTORY[7][1])
    assert outcome_of(Zxid(8), txn) == WriteOutcome(Zxid(8), 0, "", None)


def raising(level: int) -> bytes:
    change = RaiseLevelTxn(FeatureLevel(level))
    return encode_txn(Txn(SessionId(0), 0, 0, Millis(500), change))


def test_a_level_is_raised_once_and_for_all() -> None:
    state = after(2)
    before = state.digest()
    assert state.level == LEVEL_MIN
    state.apply(Zxid(3), raising(1))
    assert (state.level, state.digest()) == (1, before)  # the program before has the same digest
    state.apply(Zxid(3), raising(2))
    assert state.level == 2 and state.digest() != before
    state.apply(Zxid(4), raising(1))
    assert state.level == 2
    with pytest.raises(UnknownTxnError, match="transaction 0:5 requires feature level 3"):
        state.apply(Zxid(5), raising(3))
    state.newest_level = LEVEL_MIN
    with pytest.raises(UnknownTxnError, match="this program knows 1 alone"):
        state.apply(Zxid(5), raising(2))
    assert (state.level, state.zxid) == (2, 4)


def test_the_raise_of_a_level_is_a_transaction_without_a_session() -> None:
    leader = OneLeader()
    leader.open()
    assert leader.prepare_level(2) == RaiseLevelTxn(FeatureLevel(2))
    assert decode_txn(leader.log[-1][1]).session_id == 0
    assert leader.state.level == 1
    leader.apply()
    assert leader.state.level == 2
