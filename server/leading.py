"""What an established leader does beside Zab: prepare requests, keep sessions alive or end them.

ZooKeeper: `LeaderRequestProcessor`, `PrepRequestProcessor`, `LearnerHandler` (REQUEST, PING,
REVALIDATE), `LeaderSessionTracker`.

Invariants: a write is prepared only under its session's present owner number and as the next
number; a session is expired only by a verdict that knew of its last touch, or as that of a process
that is dead and has it under its present owner number; a heartbeat is confirmed only for a session
that is not about to end.
"""

from collections import deque
from collections.abc import Mapping

from raykeeper.server import server_notes as notes
from raykeeper.server.effects import TrackSessions
from raykeeper.server.mortals import Mortals
from raykeeper.server.peer_messages import (
    ForwardConnect,
    ForwardedWrite,
    Touch,
    WriteGap,
)
from raykeeper.server.server_context import ServerContext
from raykeeper.zab.effects import Note
from raykeeper.zab.ids import ZERO, DiskId, Epoch, Millis, ServerId, Zxid, show_zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.learners import Stage
from raykeeper.znodes.expiry import Expiry, SessionReport, TouchedSession, Verdict
from raykeeper.znodes.preparation import Preparation
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.txns import Change

PROPOSAL_BYTES_MAX = 1 << 20
"""Transactions proposed in one run, unless a single one is larger."""


ENDED_AT_ONCE = 100
"""Containers and znodes with a TTL that are deleted in one step, so that writes go on beside."""
ENDS_OUTSTANDING_MAX = 1_000
"""Transactions under way, beyond which no more of them are deleted than these at each report."""


class Leading:
    """One reign of this server, from its activation to the end of its role."""

    def __init__(
        self, context: ServerContext, epoch: Epoch, moved: Mapping[ServerId, DiskId]
    ) -> None:
        """`moved` are the votes that the initial history of this epoch put on other disks."""
        self.epoch = epoch
        self.preparation = Preparation(context.state, context.limits)
        self._mortals = Mortals(context.state, context.now.mono)
        self._are_more_due = False
        self._context = context
        self._txns: list[bytes] = []
        self._txn_bytes = 0
        self._first = ZERO  # zxid of the first of them
        self._room = 0  # for so many, before the counter is exhausted
        self._proposed: deque[tuple[Zxid, Millis]] = deque()  # ends of runs, when proposed
        self._unrepeated = dict(moved)
        self._restoring: dict[ServerId, DiskId] = {}  # votes proposed to rest on another disk
        # Sessions: what the next report will say, and when each was touched last (in reports).
        self._batch = 0
        self._touched: dict[SessionId, None] = {}
        self._ended: list[SessionId] = []
        self._last_touch: dict[SessionId, int] = {}
        self._needs_full = True
        self._losses: list[Millis] = []
        self._own_expiry: Expiry | None = None

    # Requests.

    def writes(self, sender: ServerId, writes: list[ForwardedWrite]) -> list[WriteGap]:
        """Prepare writes that came through `sender`, in order. Returns what it must be told."""
        preparation = self.preparation
        gaps: list[WriteGap] = []
        fenced = SessionId(0)
        for forwarded in writes:
            session_id, number = forwarded.session_id, forwarded.write.number
            session = preparation.session(session_id)
            if session is None or session.owner != forwarded.owner:
                if fenced != session_id:
                    fenced = session_id  # one note, whatever was under way
                    detail = (session_id, number, sender)
                    self._context.out.append(Note(notes.WRITE_FENCED, detail))
                continue
            last = session.last_number
            if number <= last:
                continue  # a repeat: answered where the client is connected
            window = self._context.limits.outcomes_max
            if number != last + 1 or number - forwarded.write.acked > window:
                if not gaps or gaps[-1].session_id != session_id:
                    gaps.append(WriteGap(session_id, forwarded.owner))
                    self._context.out.append(Note(notes.WRITE_GAP, (session_id, last, number)))
                continue
            if (zxid := self._next_zxid()) is None:
                break
            wall = self._context.now.wall
            self._add(preparation.write(zxid, wall, session_id, forwarded.write))
        for each in preparation.soft_quotas_exceeded():
            over = (each.path, each.znodes, each.bytes)
            self._context.out.append(Note(notes.QUOTA_EXCEEDED, over))
        return gaps

    def connect(self, sender: ServerId, forwarded: ForwardConnect) -> None:
        """Prepare the opening or moving of a session for a client of `sender`."""
        if (zxid := self._next_zxid()) is not None:
            wall = self._context.now.wall
            request, connection = forwarded.request, forwarded.connection
            self._add(
                self.preparation.open_session(
                    zxid, wall, sender, connection, request, forwarded.host
                )
            )

    def propose(self) -> None:
        """Propose what was prepared since the last call, as one run."""
        if not self._txns:
            return
        txns, self._txns, self._txn_bytes = self._txns, [], 0
        peer, now = self._context.peer, self._context.now.mono
        peer.propose(txns, now)
        self._proposed.append((peer.history.logged, now))

    # The replicated state.

    def applied(self, zxid: Zxid) -> None:
        """Everything up to `zxid` was applied: its preparation records are of no more use."""
        self.preparation.applied(zxid)
        context = self._context
        while self._proposed and self._proposed[0][0] <= zxid:
            end, at = self._proposed.popleft()
            took = context.now.mono - at
            if took > context.options.slow_request_ms:
                stage = "own disk" if context.peer.history.synced < end else "followers"
                context.out.append(Note(notes.PROPOSAL_SLOW, (show_zxid(end), stage, took)))

    def opened(self, session_id: SessionId) -> None:
        """A session was opened or moved: it begins a full timeout."""
        self._touch(session_id)

    def closed(self, session_id: SessionId) -> None:
        """A session has ended."""
        self._touched.pop(session_id, None)
        self._last_touch.pop(session_id, None)
        self._ended.append(session_id)

    def changed(self, change: Change) -> None:
        """A transaction was applied, and there are containers or znodes with a TTL."""
        self._mortals.changed(change, self._context.now.mono)

    @property
    def wants_step(self) -> bool:
        """Whether more znodes can be ended at once, before the next report."""
        return self._are_more_due and self.preparation.outstanding < ENDS_OUTSTANDING_MAX

    def end_znodes(self) -> None:
        """Delete the containers and znodes with a TTL that are due, as many as one step may."""
        context, mortals = self._context, self._mortals
        self._are_more_due = False
        if not context.state.tree.mortals:
            return
        due = mortals.due(context.now.mono, ENDED_AT_ONCE)
        self._are_more_due = mortals.is_behind(context.now.mono)
        for path, znode in due:
            if (zxid := self._next_zxid()) is None:
                self._are_more_due = False
                mortals.put_back(path, context.now.mono)
                continue
            txn = self.preparation.end_znode(zxid, context.now.wall, path, znode.mzxid)
            if txn is not None:
                self._add(txn)

    # The member list.

    def restore_votes(self) -> None:
        """Give servers on new disks their vote back: they have what a quorum has (rule D3)."""
        role = self._broadcasting()
        assert role is not None, "asked when everything was told that ends a reign"
        is_voter = self._context.peer.settings.members.is_voter
        unrepeated, self._unrepeated = self._unrepeated, {}
        for server, disk in unrepeated.items():
            self._replace_voter(server, disk)
        for learner in list(role.learners):  # the reign may end by it, and they are forgotten
            server, disk = learner.server_id, learner.disk
            has_lost_vote = not learner.votes and is_voter(server)
            is_back = learner.stage is Stage.FOLLOWING and learner.is_logging
            if has_lost_vote and is_back and self._restoring.get(server) != disk:
                self._replace_voter(server, disk)

    def voter_replaced(self, server: ServerId, disk: DiskId, is_new: bool) -> None:
        """A vote rests on another disk: say it once more, so that all logs tell it is committed.

        Else an ensemble that begins anew after that very transaction would not count the vote.
        The same goes for what an earlier leader left, see `restore_votes`.
        """
        if is_new and self._restoring.get(server) == disk:
            self._replace_voter(server, disk)

    def _replace_voter(self, server: ServerId, disk: DiskId) -> None:
        if (zxid := self._next_zxid()) is not None:
            self._restoring[server] = disk
            self._context.peer.settings.members.changing(server, disk)
            wall = self._context.now.wall
            self._add(self.preparation.replace_voter(zxid, wall, server, disk))

    # Sessions.

    def touches(self, touches: list[Touch]) -> list[SessionId]:
        """Sessions were heard. Returns those that must not be confirmed."""
        rejected = []
        for touch in touches:
            if self.preparation.owner_of(touch.session_id) == touch.owner:
                self._touch(touch.session_id)
            else:
                rejected.append(touch.session_id)
        return rejected

    def report(self) -> None:
        """Tell the tracker what was heard since the last report, or be the tracker."""
        self._batch += 1
        sessions = self._context.state.sessions.by_id
        if self._needs_full:
            self._last_touch = dict.fromkeys(sessions, self._batch)
            named = list(sessions)
        else:
            named = [session_id for session_id in self._touched if session_id in sessions]
        touched = [
            TouchedSession(session_id, sessions[session_id].owner, sessions[session_id].timeout_ms)
            for session_id in named
        ]
        report = SessionReport(self.epoch, self._batch, self._needs_full, touched, self._ended)
        self._needs_full = False
        self._touched = {}
        self._ended = []
        if self._own_expiry is None:
            self._context.out.append(TrackSessions(report))
            return
        now = self._context.now.mono
        self._own_expiry.report(report, now)
        self.verdicts(self._own_expiry.verdicts(now))

    def verdicts(self, verdicts: list[Verdict]) -> None:
        """Expire the overdue sessions that were not touched after the tracker last heard."""
        for verdict in verdicts:
            session_id = verdict.session_id
            if (
                verdict.epoch != self.epoch
                or self.preparation.owner_of(session_id) != verdict.owner
                or self._last_touch.get(session_id) != verdict.batch
            ):
                self._context.out.append(Note(notes.VERDICT_DROPPED, session_id))
                continue
            if not self._expire(session_id, notes.SESSION_EXPIRED):
                return

    def processes_gone(self, sessions: list[Touch]) -> None:
        """End the sessions of dead processes, unless they are with another connection by now."""
        for touch in sessions:
            session_id = touch.session_id
            if self.preparation.owner_of(session_id) != touch.owner:
                self._context.out.append(Note(notes.DEPARTURE_DROPPED, session_id))
            elif not self._expire(session_id, notes.SESSION_DEPARTED):
                return  # it is told again in the next reign

    def tracker_lost(self) -> None:
        """What the tracker knew is gone: every session gets its whole timeout again.

        A second loss before any session could have expired would keep the dead alive for ever, so
        the leader then tracks its sessions itself until the end of its reign.
        """
        if self._own_expiry is not None:
            return  # nobody asks it any more
        context = self._context
        now = context.now.mono
        context.out.append(Note(notes.TRACKER_LOST, len(self._losses)))
        self._needs_full = True
        since = now - context.limits.session_timeout_max_ms
        self._losses = [at for at in self._losses if at > since]
        self._losses.append(now)
        if len(self._losses) > 1:
            self._own_expiry = Expiry()
            context.out.append(Note(notes.TRACKER_REPLACED, self.epoch))

    # Within.

    def _expire(self, session_id: SessionId, note: str) -> bool:
        """End a session that has an owner; False when this reign has no zxid left for it."""
        if (zxid := self._next_zxid()) is None:
            return False
        txn = self.preparation.expire_session(zxid, self._context.now.wall, session_id)
        assert txn is not None, session_id
        self._context.out.append(Note(note, session_id))
        self._add(txn)
        return True

    def _touch(self, session_id: SessionId) -> None:
        self._touched[session_id] = None
        # The report that will say so is the next one; an older verdict does not know of it.
        self._last_touch[session_id] = self._batch + 1

    def _next_zxid(self) -> Zxid | None:
        """The zxid of the next transaction, None when this reign can have no more."""
        role = self._broadcasting()
        if role is None or not self._context.peer.history.has_room:
            return None  # a write is sent again in the next reign
        if not self._txns:
            self._first, self._room = role.next_zxid(), role.room
        if len(self._txns) >= self._room:
            self.propose()
            self._context.out.append(Note(notes.COUNTER_EXHAUSTED, self.epoch))
            self._context.peer.abdicate("the counter is exhausted", self._context.now.mono)
            return None
        return Zxid(self._first + len(self._txns))

    def _broadcasting(self) -> LeaderBroadcast | None:
        role = self._context.peer.broadcasting
        return role if role is not None and role.epoch == self.epoch else None

    def _add(self, txn: bytes) -> None:
        self._txns.append(txn)
        self._txn_bytes += len(txn)
        if self._txn_bytes >= PROPOSAL_BYTES_MAX:
            self.propose()
