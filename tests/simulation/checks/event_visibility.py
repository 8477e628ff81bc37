"""Which events may name their path to a watcher: READ by the ACL that the znode had then decides.

A client that was away gets its missed events by the identities that the server knows when it
returns: it may have proved more in the meantime. A server without a leader may know that a session
has ended, or belongs to another client.
"""

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import Acls, Identities
from tests.simulation.checks import acls as acl_rules
from tests.simulation.checks.session_view import SessionView
from tests.simulation.checks.truth import Trigger, Truth


def must_be_told(truth: Truth, seen: SessionView, trigger: Trigger) -> bool:
    """Return whether this client could read the znode when the event happened."""
    return _could_read(truth, seen, trigger.acls, trigger.zxid)


def may_be_told(truth: Truth, seen: SessionView, acls: Acls | None) -> bool:
    """Return whether this client can read the znode by all identities it has proved until now."""
    return acl_rules.may(acls, _proved(truth, seen), acl_rules.READ)


def is_ever_hidden(truth: Truth, seen: SessionView, path: str, trigger: Trigger) -> bool:
    """Return whether the client could not read the znode at `path` at some time since."""
    return any(
        was is not None and not _could_read(truth, seen, was.acls, zxid)
        for zxid, was in truth.between(path, trigger.zxid, truth.zxid)
    )


def is_ever_shown(truth: Truth, seen: SessionView, path: str, trigger: Trigger) -> bool:
    """Return whether the client could read the znode at `path` at some time since."""
    return any(
        was is not None and may_be_told(truth, seen, was.acls)
        for _, was in truth.between(path, trigger.zxid, truth.zxid)
    )


def _could_read(truth: Truth, seen: SessionView, acls: Acls | None, zxid: Zxid) -> bool:
    if acls is None:
        return True
    session = truth.sessions.get(seen.session_id)
    who = session.known_as(zxid) if session is not None else ()
    if session is not None and session.closed_at is not None:
        has_ended = session.closed_at <= zxid
        who = () if has_ended or seen.was_read_only else who
    if seen.was_read_only and seen.fenced_after is not None:
        who = ()
    return acl_rules.may(acls, who, acl_rules.READ)


def _proved(truth: Truth, seen: SessionView) -> Identities:
    session = truth.sessions.get(seen.session_id)
    return session.proven[-1][1] if session is not None and session.proven else ()
