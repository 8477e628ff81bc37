"""The beginning of a new history: nothing is left of the sessions, and the rest stays."""

from raykeeper.zab.ids import ZERO, DiskId, ServerId
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.children import SHARDED_FROM
from raykeeper.znodes.new_history import begin_new_history
from raykeeper.znodes.paths import MEMBER_PLAN_PATH
from raykeeper.znodes.requests import Create, SessionId
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from tests.unit.znodes.one_leader import OneLeader

EPHEMERAL = 1


def with_two_sessions() -> State:
    leader = OneLeader()
    first, second = leader.open(1), leader.open(2)
    for session, op in [
        (first, Create("/kept", b"value", 0)),
        (first, Create("/locks", b"", 0)),
        (first, Create("/locks/1", b"", EPHEMERAL)),
        (second, Create("/locks/2", b"", EPHEMERAL)),
        *((second, Create(f"/locks/many-{n}", b"", EPHEMERAL)) for n in range(SHARDED_FROM + 2)),
    ]:
        leader.prepare(session, op)
    leader.apply()
    return leader.state


def test_sessions_and_their_ephemerals_end() -> None:
    state = with_two_sessions()
    state.voters[ServerId(2)] = DiskId("another")
    state.voters_version = state.zxid
    state.members = MemberList(state.zxid, {ServerId(2): DiskId("another")})
    state.members_said = state.zxid
    zxid, counter = state.zxid, state.tree.znodes["/locks"].child_create_count
    assert len(state.sessions.by_id) == 2 and len(state.tree.ephemerals) == 2
    begin_new_history(state)
    assert (state.sessions.by_id, state.tree.ephemerals, state.voters) == ({}, {}, {})
    assert (state.members, state.members_said, state.voters_version) == (None, ZERO, ZERO)
    assert state.sessions.get(SessionId(1)) is None
    assert "/locks/1" not in state.tree.znodes and "/locks/many-3" not in state.tree.znodes
    locks = state.tree.znodes["/locks"]
    # Sequence numbers never repeat under a parent, and the zxid is that of the old history.
    assert (locks.child_create_count, locks.pzxid, state.zxid) == (counter, zxid, zxid)
    assert state.tree.znodes["/kept"].value == b"value"


def test_an_open_change_of_the_members_is_given_up() -> None:
    leader = OneLeader()
    session = leader.open(1)
    for path in ("/zookeeper/members", MEMBER_PLAN_PATH):
        leader.prepare(session, Create(path, b"{}", 0))
    leader.apply()
    assert MEMBER_PLAN_PATH in leader.state.tree.znodes
    begin_new_history(leader.state)
    assert MEMBER_PLAN_PATH not in leader.state.tree.znodes


def test_all_servers_begin_with_the_same() -> None:
    """Loaded from its snapshot, as every server does, the state has the same digest."""
    state = with_two_sessions()
    begin_new_history(state)
    loader, walk = SnapshotLoader(), SnapshotWalk(state)
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    assert loader.finish(state.zxid, state.zxid).digest() == state.digest()
    again = with_two_sessions()
    begin_new_history(again)
    begin_new_history(again)  # nothing is left to end
    assert again.digest() == state.digest()
