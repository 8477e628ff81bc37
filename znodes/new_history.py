"""The state with which a new history begins: what is left of another one, without its sessions.

An ensemble that lost the majority of its disks, or that is restored from a backup, goes on from
an old state under a new identity. The clients of the old history are none of the new one: what
they were told last may be lost. So their sessions end here, and their ephemeral znodes with them,
and every vote rests on a founding disk again. All servers begin with the same bytes.
"""

from raykeeper.zab.ids import ZERO
from raykeeper.znodes.paths import MEMBER_PLAN_PATH
from raykeeper.znodes.state import State


def begin_new_history(state: State) -> None:
    """End all sessions in `state`, in place, and give it the member list of a founding.

    The voters are those of the settings again, each on its founding disk. A change of the members
    that had not ended was about servers of the old history, and is given up.

    `state.zxid` stays: the first transaction of the new history gets a later one, of a higher
    epoch. The parents of the deleted ephemeral znodes have it as their pzxid.
    """
    assert state.zxid >= state.consistent_at, (state.zxid, state.consistent_at)
    for session_id in sorted(state.tree.ephemerals):
        for path in sorted(state.tree.ephemerals.get(session_id, ())):
            state.tree.delete(state.zxid, path)
    for session_id in sorted(state.sessions.by_id):
        state.sessions.close(session_id)
    if MEMBER_PLAN_PATH in state.tree.znodes:
        state.tree.delete(state.zxid, MEMBER_PLAN_PATH)
    state.voters.clear()
    state.voters_version = ZERO
    state.members, state.members_said = None, ZERO
