"""Prepares requests on an established leader, and proposes them.

ZooKeeper: `LeaderRequestProcessor`, `PrepRequestProcessor`, `LearnerHandler` (REQUEST).

Invariant: a write is prepared only under its session's present owner zxid and as the next number.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.container_manager import ContainerManager
from raykeeper.server.context import ServerContext
from raykeeper.server.leader_session_tracker import LeaderSessionTracker
from raykeeper.server.member_changes import MemberChanges
from raykeeper.server.peer_messages import (
    ForwardConnect,
    ForwardedWrite,
    WriteGap,
)
from raykeeper.server.write_stages import FORCE, QUORUM
from raykeeper.zab.feature_levels import LEVEL_MIN
from raykeeper.zab.ids import ZERO, DiskId, Epoch, Millis, ServerId, Zxid, format_zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.learners import Learner, Stage
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.requests import Reconfig, SessionId
from raykeeper.znodes.txns import ReconfigErrorTxn, TxnBody

PROPOSED_BYTES_MAX = 1 << 20
"""Bytes of transactions proposed in one run, unless a single one is larger."""
DELETED_PER_STEP = 100
"""Containers and znodes with a TTL that one step deletes, so that writes are not held up."""
DELETIONS_OUTSTANDING_MAX = 1_000
"""With so many transactions under way, `DELETED_PER_STEP` are deleted at each report only."""


class LeaderRequestProcessor:
    """The leader's part from the activation of one epoch to the end of the role."""

    def __init__(
        self,
        context: ServerContext,
        epoch: Epoch,
        inherited_votes: Mapping[ServerId, DiskId],
        has_digest: Callable[[Learner], bool],
    ) -> None:
        """`inherited_votes`: the disk of each vote that the epoch's initial history moved."""
        self.epoch = epoch
        self._changes = MemberChanges(context, has_digest)
        # Told since this server leads, also by servers that are no members yet.
        self._addresses: dict[ServerId, str] = {}
        self._is_config_due = False
        self.prep = PrepRequestProcessor(
            context.state, context.limits, self._next_list, self._addresses
        )
        self._container_manager = ContainerManager(
            context.state, context.now.mono, context.options.container_grace_ms
        )
        self._has_more_due = False
        self._context = context
        self._txns: list[bytes] = []
        self._txn_bytes = 0
        self._first_zxid = ZERO  # the zxid of the first of `_txns`
        self._counter_left = 0  # transactions until the counter is exhausted
        self._step_zxid = ZERO  # of the newest step of the member list that was prepared
        self._proposed: deque[tuple[Zxid, Millis]] = deque()  # ends of runs, when proposed
        self._unrepeated_votes = dict(inherited_votes)
        self._proposed_level = LEVEL_MIN
        self.sessions = LeaderSessionTracker(context, epoch, self.prep, self._next_zxid, self._add)

    # Requests.

    def prepare_writes(self, sender: ServerId, writes: list[ForwardedWrite]) -> list[WriteGap]:
        """Prepare writes that came through `sender`, in order; return the gaps to report to it."""
        preparation = self.prep
        gaps: list[WriteGap] = []
        fenced = SessionId(0)
        wall, window = self._context.now.wall, self._context.limits.outcomes_max
        for forwarded in writes:
            session_id, number = forwarded.session_id, forwarded.write.number
            session = preparation.session(session_id)
            if session is None or session.owner_zxid != forwarded.owner_zxid:
                if fenced != session_id:
                    fenced = session_id  # one trace event, however many writes were under way
                    detail = (session_id, number, sender)
                    self._context.trace(trace_events.WRITE_FENCED, detail)
                continue
            last = session.last_number
            if number <= last:
                continue  # a repeat: the server of the client answers it
            if number != last + 1 or number - forwarded.write.acked > window:
                if not gaps or gaps[-1].session_id != session_id:
                    gaps.append(WriteGap(session_id, forwarded.owner_zxid))
                    self._context.trace(trace_events.WRITE_GAP, (session_id, last, number))
                continue
            if (zxid := self._next_zxid()) is None:
                break
            self._add(preparation.prepare_write(zxid, wall, session_id, forwarded.write))
        for each in preparation.soft_quotas_exceeded():
            over = (each.path, each.znodes, each.bytes)
            self._context.trace(trace_events.QUOTA_EXCEEDED, over)
        return gaps

    def prepare_connect(self, sender: ServerId, forwarded: ForwardConnect) -> None:
        """Prepare to create or move a session for a client of `sender`."""
        if (zxid := self._next_zxid()) is not None:
            wall = self._context.now.wall
            request, connection = forwarded.request, forwarded.connection
            self._add(
                self.prep.prepare_create_session(
                    zxid, wall, sender, connection, request, forwarded.host
                )
            )

    def propose(self) -> None:
        """Propose what was prepared since the last call, in runs; behind an open step, nothing.

        A step waits until the list before it was said again, and all behind it waits with it.
        Counterexample for more: 4 takes the place of 3 of three. The leader, 2, commits the step,
        and then by the new list a write on 2 and 4, and is lost. 1 and 3 could not know that the
        step is committed, nor what 4 has acknowledged, and nobody could lead (docs/MEMBERS.md).
        """
        context = self._context
        peer, now = context.peer, context.now.mono
        while count := self._count_of_run():
            txns, self._txns = self._txns[:count], self._txns[count:]
            self._first_zxid = Zxid(self._first_zxid + count)
            self._counter_left -= count
            self._txn_bytes -= sum(map(len, txns))
            context.counters.proposed += count
            peer.propose(txns, now)
            self._proposed.append((peer.history.logged, now))

    def propose_behind_step(self) -> None:
        """Propose what waits behind a step that is delivered, before a transfer that waits too.

        As soon as the list counts, the leader may hand over, or step down for a nominee that has
        all of the log. What is still to be proposed would wait for the next leader.
        """
        role = self._broadcast_role()
        if role is not None and role.is_transferring:
            self.propose()

    def _count_of_run(self) -> int:
        """Return how many of the prepared transactions are the next run.

        None while the disk is full (rule D6): `_next_zxid` prepares no more then, and what was
        prepared before ends with the role, so it is forwarded again to the next leader.
        """
        ready = self._txns if self._context.peer.history.has_disk_space else []
        if self._step_zxid > self._context.state.zxid:
            before = self._step_zxid - self._first_zxid
            ready = ready[: max(0, before + self._changes.may_propose)]
        if not ready or self._txn_bytes < PROPOSED_BYTES_MAX:
            return len(ready)
        bytes_, count = 0, 0
        while count < len(ready) and bytes_ < PROPOSED_BYTES_MAX:
            bytes_ += len(ready[count])
            count += 1
        return count

    # The replicated state.

    def on_applied(self, zxid: Zxid) -> None:
        """Drop the outstanding changes up to `zxid`, and trace the proposals that took long."""
        self.prep.applied(zxid)
        context = self._context
        while self._proposed and self._proposed[0][0] <= zxid:
            end, at = self._proposed.popleft()
            took = context.now.mono - at
            context.counters.commits.observe(took)
            if took > context.options.slow_request_ms:
                stage = FORCE if context.peer.history.synced < end else QUORUM
                context.trace(trace_events.PROPOSAL_SLOW, (format_zxid(end), stage, took))

    def on_expiring_changed(self, change: TxnBody) -> None:
        """Schedule the containers and znodes with a TTL that an applied change touches."""
        self._container_manager.on_txn(change, self._context.now.mono)

    @property
    def is_handing_over(self) -> bool:
        """Whether nothing more may be prepared: the lead is being transferred."""
        role = self._broadcast_role()
        return role is not None and role.is_handing_over

    @property
    def has_work(self) -> bool:
        """Whether more znodes can be deleted before the next report."""
        return self._has_more_due and self.prep.outstanding < DELETIONS_OUTSTANDING_MAX

    def delete_expired_znodes(self) -> None:
        """Delete the containers and znodes with a TTL that are due, as many as one step may."""
        context, containers = self._context, self._container_manager
        self._has_more_due = False
        if not context.state.tree.expiring_paths:
            return
        due = containers.pop_due(context.now.mono, DELETED_PER_STEP)
        self._has_more_due = containers.is_behind(context.now.mono)
        for path, znode in due:
            if (zxid := self._next_zxid()) is None:
                self._has_more_due = False
                containers.retry(path, context.now.mono)
                continue
            txn = self.prep.prepare_delete_expired(zxid, context.now.wall, path, znode)
            if txn is not None:
                self._add(txn)

    # The member list.

    def restore_votes(self) -> None:
        """Give servers on new disks their vote back: they have what a quorum has (rule D3)."""
        role = self._broadcast_role()
        assert role is not None, "called only while this server leads"
        self._changes.watch_lags()
        self.say_members_again()
        is_voter = self._context.peer.settings.members.is_voter
        for learner in list(role.learners):  # the role may end by it, which clears them
            server, disk = learner.server_id, learner.disk
            has_lost_vote = not learner.has_vote and is_voter(server)
            is_back = learner.stage is Stage.FOLLOWING and learner.is_logging
            if has_lost_vote and is_back and not self._changes.is_open:
                self._replace_voter(server, disk)

    def say_members_again(self) -> None:
        """Propose a delivered list once more, so that all logs show that it is committed.

        Counterexample for less: an ensemble that restarts right after that transaction would not
        count by it. The earlier leader may not have done it: its disk was full, or its role ended.
        """
        members = self._context.state.members
        if not self._changes.needs_repeat:
            return
        said: list[Callable[[Zxid, Millis], bytes]]
        if members is not None:
            said = [lambda zxid, wall: self.prep.prepare_repeated_list(zxid, wall, members)]
        else:
            said = [
                partial(self._prepare_vote, server, disk)
                for server, disk in self._unrepeated_votes.items()
            ]
        zxid = self._context.state.zxid
        for prepare in said:
            if (taken := self._next_zxid()) is None:
                return
            zxid = taken
            self._add(prepare(zxid, self._context.now.wall))
        self._unrepeated_votes = {}
        self._changes.repeated(zxid)

    def raise_level(self) -> None:
        """Raise the feature level once all members follow and know a newer one.

        An older program that joins later is refused by the leader, and does not start on a disk
        that holds the raise. Until all announced it, one of them could be left out for ever.
        """
        role, context = self._broadcast_role(), self._context
        if role is None:
            return  # it may have ended within this report
        settings = context.peer.settings
        members = settings.members.delivered
        known = role.learners.level_of_all((*members.voters, *members.observers))
        level = min(known or LEVEL_MIN, settings.levels.raise_to)
        if self._changes.is_open:
            return  # its list may have a server with an older program
        if level <= max(context.state.level, self._proposed_level):
            return
        if (zxid := self._next_zxid()) is not None:
            self._proposed_level = level
            self._add(self.prep.prepare_raise_level(zxid, context.now.wall, level))

    def reconfig(self, op: Reconfig) -> Zxid | ReconfigErrorTxn:
        """Propose a step for an operator; return the version of its list, or why it is refused."""
        if (zxid := self._next_zxid()) is None:
            me = self._context.peer.settings.server_id
            text = f"server {me} proposes nothing now: its disk is full, or its lead ends"
            return ReconfigErrorTxn(Code.SYSTEM_ERROR, text)
        txn = self.prep.prepare_reconfig(zxid, self._context.now.wall, op)
        if isinstance(txn, ReconfigErrorTxn):
            return txn
        self._add(txn)
        return zxid

    @property
    def open_step(self) -> str:
        """The step of the member list that is under way, in words; empty if none is."""
        return self._changes.open_step

    def learn_address(self, server: ServerId, address: str) -> None:
        """Have /zookeeper/config name this address of a server for clients of ZooKeeper."""
        self._addresses[server] = address
        self._is_config_due = True

    def update_config(self) -> None:
        """Write the addresses that servers have told into /zookeeper/config, if they are new.

        Not while a step is open: the list that it makes is there already, and not delivered yet.
        """
        if not self._is_config_due or self._changes.is_open:
            return
        if (zxid := self._next_zxid()) is not None:
            self._is_config_due = False
            context, told = self._context, self._addresses
            members, wall = context.peer.settings.members.delivered, context.now.wall
            txn = self.prep.prepare_config(zxid, wall, told, members.voters, members.observers)
            if txn is not None:
                self._add(txn)

    def _next_list(self, op: Reconfig, zxid: Zxid) -> MemberList | ReconfigErrorTxn:
        members = self._changes.next_list(op, zxid)
        if isinstance(members, MemberList):
            self._changes.begin(f"{self._changes.describe(op)}, version {zxid:x}", op.leaving)
            self._step_zxid = zxid
            self._context.peer.list_logged(members)
        return members

    def _replace_voter(self, server: ServerId, disk: DiskId) -> None:
        if (zxid := self._next_zxid()) is not None:
            self._changes.begin(f"the vote of server {server} moves to its new disk")
            self._step_zxid = zxid
            self._unrepeated_votes[server] = disk
            self._context.peer.settings.members.disk_logged(server, disk, zxid)
            self._add(self._prepare_vote(server, disk, zxid, self._context.now.wall))

    def _prepare_vote(self, server: ServerId, disk: DiskId, zxid: Zxid, wall: Millis) -> bytes:
        return self.prep.prepare_replace_voter(zxid, wall, server, disk)

    # Within.

    def _next_zxid(self) -> Zxid | None:
        """Return the zxid of the next transaction, None when this epoch can have no more."""
        role = self._broadcast_role()
        if role is None or role.is_handing_over or not self._context.peer.history.has_disk_space:
            return None  # a write is forwarded again to the next leader
        count = len(self._txns)
        if not count:
            self._first_zxid, self._counter_left = role.next_zxid(), role.counter_left
        if count >= self._counter_left:
            self.propose()
            self._context.trace(trace_events.COUNTER_EXHAUSTED, self.epoch)
            self._context.peer.step_down("the counter is exhausted", self._context.now.mono)
            return None
        return Zxid(self._first_zxid + count)

    def _broadcast_role(self) -> LeaderBroadcast | None:
        role = self._context.peer.broadcasting
        return role if role is not None and role.epoch == self.epoch else None

    def _add(self, txn: bytes) -> None:
        self._txns.append(txn)
        self._txn_bytes += len(txn)
        if self._txn_bytes >= PROPOSED_BYTES_MAX:
            self.propose()
