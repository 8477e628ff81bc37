"""A replica's whole state against the truth: every field of every znode, session and outcome."""

from collections.abc import Mapping

from raykeeper.zab.ids import ServerId
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import WriteOutcome
from raykeeper.znodes.znode import stat_of
from tests.simulation.checks import quotas
from tests.simulation.checks.session_view import Told
from tests.simulation.checks.truth import Truth


def _told(kept: WriteOutcome) -> Told:
    return Told(kept.zxid, kept.code, kept.path, kept.stat, kept.results)


def tree_is_true(server: ServerId, state: State, truth: Truth) -> None:
    """Check that a replica as of the newest transaction has exactly the true znodes."""
    znodes = state.tree.znodes
    assert znodes.keys() == truth.znodes.keys(), (
        f"Replicas: {server} differs in {sorted(znodes.keys() ^ truth.znodes.keys())}"
    )
    for path, znode in znodes.items():
        true = truth.znodes[path]
        traits = znode.attributes
        others = (None, 0, 0) if traits is None else (traits.acls, traits.aversion, traits.ttl_ms)
        assert (znode.value, stat_of(znode), *others) == (
            *(true.value, true.stat()),
            *(true.acls, true.aversion, true.ttl_ms),
        ), f"Replicas: {server} has {znode} at {path}, not {true}"
        start = 1 if path == "/" else len(path) + 1
        children = {child[start:] for child in znode.children or ()}
        assert children == true.children, f"Replicas: {server} differs in the children of {path}"
    for subtree, usage in state.tree.quotas._usage.items():
        counted = quotas.usage(truth.znodes, subtree)
        assert (usage.znodes, usage.bytes) == counted, (
            f"Replicas: {server} counts {usage} below {subtree}, not {counted}"
        )


def ephemerals_are_true(server: ServerId, state: State, truth: Truth) -> None:
    """Check that a replica has the ephemerals of each living session, and of no closed one."""
    owned = {owner: set(paths) for owner, paths in state.tree.ephemerals.items()}
    true = {key: s.ephemerals for key, s in truth.sessions.items() if s.ephemerals}
    assert owned == true, f"Replicas: {server} has the ephemerals {owned}, not {true}"


def sessions_are_true(
    server: ServerId, state: State, truth: Truth, told: Mapping[SessionId, dict[int, Told]]
) -> None:
    """Check that a replica has exactly the living sessions, with the outcomes to repeat."""
    living = {key: s for key, s in truth.sessions.items() if s.closed_at is None}
    sessions = state.sessions.by_id
    assert sessions.keys() == living.keys(), (
        f"Replicas: {server} differs in the sessions {sorted(sessions.keys() ^ living.keys())}"
    )
    for session_id, session in sessions.items():
        true = living[session_id]
        assert (session.password, session.owner_zxid, session.last_number, session.auth_ids) == (
            true.password,
            true.owner,
            true.last_number,
            true.known_as(truth.zxid),
        ), f"Replicas: {server} has {session}, not {true}"
        due = range(session.acked + 1, session.last_number + 1)
        assert list(session.reply_cache) == list(due), (
            f"Outcomes: {server} keeps {list(session.reply_cache)} of {due}"
        )
        for number, kept in session.reply_cache.items():
            expected = told[session_id][number]
            assert _told(kept) == expected, f"Outcomes: {server} keeps {kept}, not {expected}"
