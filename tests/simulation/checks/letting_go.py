"""When a client must let go, looked at before it is too late: clocks, deadlines and verdicts.

DESIGN section 7. What may happen is judged, not only what did: a session that could expire while
its client counts on it is a broken promise, whether or not anybody expires it in this run.
"""

from raykeeper.zab.ids import Millis, ServerId


def lets_go_before_it_can_expire(who: object, lets_go_at: int, expires_at: int) -> None:
    """A client lets go before the leader's tracker may call its session overdue, in true time."""
    assert lets_go_at <= expires_at, (
        f"LetGo: {who} counts on its session until {lets_go_at}, it may expire at {expires_at}"
    )


def old_news_are_kept_back(
    server: ServerId, now: Millis, contact: Millis | None, shortest_ms: Millis
) -> None:
    """A server answers reads only while it heard of a leader within the shortest timeout (Z5)."""
    assert contact is not None and now - contact < shortest_ms, (
        f"OldNews: {server} answers reads at {now}, and heard of a leader at {contact}"
    )


def servers_keep_the_protocol(who: object, reason: str) -> None:
    """No server sends its client what is not its turn, nor what was not asked for."""
    assert not reason.startswith(("it answered", "it connected", "it sent")), (
        f"Protocol: {who} leaves its server: {reason}"
    )
