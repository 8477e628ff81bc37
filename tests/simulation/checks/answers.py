"""Checks of answers to a client: in order, never older than before, and true."""

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import Query, WatchAddition, WatchRemoval
from raykeeper.zab.ids import Zxid, format_zxid
from raykeeper.znodes.errors import Code, KeeperError
from raykeeper.znodes.replies import ExistsReply, GetChildrenReply, GetDataReply, WriteReply
from raykeeper.znodes.requests import AuxRead, GetChildren, GetData, Sync, WriteOp
from tests.simulation.checks import acls, aux_reads
from tests.simulation.checks.session_view import PendingRequest, SessionView, Told
from tests.simulation.checks.truth import Truth, show


def answers_in_order(seen: SessionView, ask: object) -> PendingRequest:
    """Check that a client's requests are answered in the order in which it sent them."""
    assert seen.pending and seen.pending[0].ask is ask, (
        f"Fifo: {seen} is answered {ask} before {seen.pending[0].ask if seen.pending else None}"
    )
    return seen.pending.popleft()


def reads_never_go_back(seen: SessionView, zxid: Zxid) -> None:
    """Check that a client reads no state older than one it saw, nor than its own earlier writes."""
    assert zxid >= seen.zxid, (
        f"Monotonic: {seen} reads {format_zxid(zxid)} after {format_zxid(seen.zxid)}"
    )


def writes_come_after_earlier_reads(seen: SessionView, zxid: Zxid) -> None:
    """Check that a read does not see a later write of its own client, unless the read was delayed.

    A read that is sent again on another connection, or that waits while its server looks for a
    leader, is answered when that is over: later writes may have been done before.
    """
    assert zxid > seen.read, (
        f"Fifo: {seen} wrote in {format_zxid(zxid)}, and had read {format_zxid(seen.read)} before"
    )


def nothing_is_shown_before_it_is_committed(truth: Truth, seen: SessionView, zxid: Zxid) -> None:
    """Check that a client sees only what some server has delivered."""
    assert zxid <= truth.zxid, f"Integrity: {seen} is shown {format_zxid(zxid)}"


def syncs_are_recent(seen: SessionView, asked: PendingRequest, zxid: Zxid) -> None:
    """Check that a sync waits for everything that was delivered when it was requested (rule Z4)."""
    assert zxid >= asked.committed, (
        f"Sync: {seen} is shown {format_zxid(zxid)} and asked at {format_zxid(asked.committed)}"
    )


def answer_is_the_outcome(
    seen: SessionView, asked: PendingRequest, answer: WriteReply, due: Told | None
) -> None:
    """Check that the answer to a write is the outcome of the transaction that it became."""
    assert answer.number == asked.number, f"ExactlyOnce: {seen}, {answer} to {asked}"
    told = Told(answer.zxid, answer.code, answer.path, answer.stat, answer.results)
    assert told == due, f"ExactlyOnce: {seen} is told {told}, not {due}, of {asked.ask}"


def refusal_is_the_outcome(
    seen: SessionView, asked: PendingRequest, code: int, due: Told | None
) -> Told:
    """Check that the error of a write is that of the transaction that it became."""
    assert due is not None and code == due.code, (
        f"ExactlyOnce: {seen} is refused {asked.ask} with {code}, not {due}"
    )
    return due


def reads_are_true(truth: Truth, seen: SessionView, query: Query, answer: SuccessReply) -> None:
    """Check that a read returns exactly the committed state as of the zxid it names."""
    path, zxid = query.path, answer.zxid
    was = truth.at(path, zxid)
    assert was is None or acls.may(was.acls, seen.known_as(truth, zxid), acls.READ), (
        f"Access: {seen} reads {path} as of {format_zxid(zxid)}"
    )
    if isinstance(answer, ExistsReply):
        is_true = answer.stat == (was.stat if was is not None else None)
    elif isinstance(answer, GetDataReply):
        is_true = was is not None and (answer.value, answer.stat) == (was.value, was.stat)
    else:
        assert isinstance(answer, GetChildrenReply), answer
        is_true = was is not None and answer.stat == was.stat and _are_all(truth, path, answer)
    assert is_true, (
        f"Truth: {seen} reads {path} as of {format_zxid(zxid)}: {answer}, not {show(was)}"
    )


def _are_all(truth: Truth, path: str, answer: GetChildrenReply) -> bool:
    """Return whether these are all children of `path`: their number is that in the checked Stat."""
    names = set(answer.children)
    if len(names) != len(answer.children) or len(names) != answer.stat.num_children:
        return False
    znode = truth.znodes.get(path)
    if znode is not None and znode.pzxid == answer.stat.pzxid:
        return names == znode.children
    start = "/" if path == "/" else f"{path}/"
    return all(truth.at(start + child, answer.zxid) is not None for child in names)


def missing_is_true(
    truth: Truth, seen: SessionView, asked: PendingRequest, error: KeeperError
) -> None:
    """Check that a read fails only where the znode was missing, or not readable by the session.

    That must be so at some moment since the state that the client has seen; for a linearizable
    read, since everything that was delivered when it was requested.
    """
    query = asked.ask
    assert isinstance(query, Query), query
    may_be = error.code == Code.NO_AUTH or query.kind in (GetData, GetChildren)
    since = max(seen.zxid, asked.committed) if query.linearizable else seen.zxid
    assert may_be and aux_reads.is_ever_refused(truth, seen, query.path, error.code, since), (
        f"Truth: {seen} is refused {query} with {error!r} since {format_zxid(since)}"
    )


def refused_only_without_a_leader(seen: SessionView, asked: PendingRequest) -> None:
    """Check that requests that need a leader are refused only to clients that accept read-only.

    A request with a number is never refused so: it may have been done before.
    """
    assert seen.was_read_only and not asked.number, f"ReadOnly: {seen} is refused {asked.ask}"


def answered_without_a_leader(seen: SessionView, asked: PendingRequest) -> None:
    """Check that a server without a leader answers no request that needs one."""
    ask = asked.ask
    needs_leader = not isinstance(ask, Query | AuxRead | WatchAddition | WatchRemoval) or (
        isinstance(ask, Query) and (ask.linearizable or ask.kind is Sync)
    )
    assert not needs_leader, f"ReadOnly: {seen} is answered {ask} without a leader"


def indefinite_only_where_it_may_have_happened(asked: PendingRequest, error: KeeperError) -> None:
    """Check that only a write has an uncertain outcome."""
    is_write = asked.number or isinstance(asked.ask, WriteOp)
    assert error.definite or is_write, f"Definite: {error!r} of {asked.ask}"


def denied_has_no_effect(seen: SessionView, asked: PendingRequest, due: Told | None) -> None:
    """Check that a write has no effect if its client is told that it surely had none."""
    assert due is None, f"Definite: {seen} was told that {asked.ask} is not done, and it is {due}"


def late_requests_never_leave(seen: SessionView, error: KeeperError) -> None:
    """Check that a request made after the end of a handle fails as surely without effect."""
    assert error.definite, f"Definite: {seen} is over, {error!r}"
