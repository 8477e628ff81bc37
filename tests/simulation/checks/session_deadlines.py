"""Deadlines of clients, checked in advance: when each lets go, by clocks, deadlines and verdicts.

DESIGN section 7. The checks cover what may happen, not only what did: a session that could expire
while its client counts on it is a broken promise, even if no server expires it in this run.
"""

from typing import TYPE_CHECKING

from raykeeper.zab.ids import Millis, ServerId
from tests.simulation.checks.session_view import known_session

if TYPE_CHECKING:
    from raykeeper.zab.peer import Peer
    from tests.simulation.checks.committed import Committed
    from tests.simulation.node import Node


def lets_go_before_it_can_expire(who: object, lets_go_at: int, expires_at: int) -> None:
    """Check that a client lets go before the tracker may call its session overdue, in true time."""
    assert lets_go_at <= expires_at, (
        f"LetGo: {who} counts on its session until {lets_go_at}, it may expire at {expires_at}"
    )


def nobody_counts_on_too_much(node: "Node", committed: "Committed") -> None:
    """Compare the clients' deadlines with those that the newest leader, `node`, uses."""
    server = node.server
    if server is None or server._leader_requests is None or node.is_frozen:
        return
    leading = server._leader_requests.sessions
    expiry = leading._own_expiry or node.tracker._expiry
    if expiry._epoch != leading.epoch or expiry._needs_full_report:
        return
    for session_id, tracked in expiry._sessions.items():
        seen = committed.by_id[session_id]
        is_believed = (
            leading._last_touch_report.get(session_id) == tracked.batch
            and leading.prep.owner_zxid_of(session_id) == tracked.owner_zxid
        )
        is_its_own = known_session(seen) == session_id and committed.is_held(session_id)
        if is_believed and not seen.is_over and is_its_own:
            # A verdict on a session that is not suspected yet is followed by a second one.
            is_last = not leading._suspects or server.state.sessions.by_id[session_id].is_suspected
            overdue = tracked.due + (0 if is_last else tracked.timeout_ms)
            due = node.clock.moment_of(Millis(overdue + expiry._gaps_ms))
            lets_go_before_it_can_expire(seen, seen.client.lets_go_at, due)


class StaleContacts:
    """Checks that servers cut off from their leader, or its voters, answer no reads."""

    def __init__(self) -> None:
        self._lost_their_role: set[ServerId] = set()

    def stepped(self, node: "Node") -> None:
        """Look at a server after its step."""
        server_id, server = node.server_id, node.server
        assert server is not None, "it has just made a step"
        now = server._context.now.mono
        contact = _last_contact(node, server.peer, now)
        if contact is not None or not server._clients.is_serving_reads:
            self._lost_their_role.discard(server_id)
        elif server_id not in self._lost_their_role:
            # At the end of this step; the server notices at the beginning of the next one.
            self._lost_their_role.add(server_id)
            return
        if server._clients.is_serving_reads:
            shortest_ms = server._context.limits.session_timeout_min_ms
            old_news_are_kept_back(server_id, now, contact, shortest_ms)


def _last_contact(node: "Node", peer: "Peer", now: Millis) -> Millis | None:
    """Return the latest contact that the frames which `node` received allow, in its own reckoning.

    A voter on a new disk, without a vote, counts here, which makes contacts later, never earlier.
    """
    if peer.broadcasting is None:
        return node.heard.get(peer.leader) if peer.is_active and peer.leader is not None else None
    # A leader also counts by a newer list; that makes contacts earlier, never later.
    voters = peer.settings.members.delivered.voters
    others = [node.heard[voter] for voter in voters if voter in node.heard]
    heard = sorted([now, *others], reverse=True)
    majority = len(voters) // 2 + 1
    return heard[majority - 1] if len(heard) >= majority else None


def old_news_are_kept_back(
    server: ServerId, now: Millis, contact: Millis | None, shortest_ms: Millis
) -> None:
    """Check that a server that answers reads heard its leader within the shortest timeout (Z5)."""
    assert contact is not None and now - contact < shortest_ms, (
        f"OldNews: {server} answers reads at {now}, and heard of a leader at {contact}"
    )


def servers_keep_the_protocol(who: object, reason: str) -> None:
    """Check that no server sends a client a frame out of turn, or an answer without a request."""
    violations = ("it answered", "it connected", "it sent a frame", "it sent an unexpected")
    assert not reason.startswith(violations), f"Protocol: {who} leaves its server: {reason}"
