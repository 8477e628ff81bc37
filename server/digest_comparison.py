"""Compares the digests of the replicas at equal zxids; a server that differs from a quorum stops.

The leader sends its digest after the commit it belongs to, so a follower that reads both in order
is at that zxid. The digest of a quorum of voters is right: transactions and snapshots have
checksums, so a difference was made in the memory of a minority, or by a bug there. Such a server,
even the leader, stops at once and restarts without its disk, whose snapshots may hold the same
fault. If no quorum agrees, no server can be blamed; that is traced, and all continue.

A server that has loaded a snapshot takes part once all its znodes are hashed (`Tree.hash_loaded`).

ZooKeeper: `DataTree.compareDigest`, which logs a mismatch and goes on serving.
"""

from typing import Final

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import Restart, SendPeer
from raykeeper.server.peer_messages import DigestMismatch, DigestReply, DigestRequest
from raykeeper.zab.ids import ZERO, ServerId, Zxid, format_zxid
from raykeeper.zab.learners import Learner, Stage
from raykeeper.zab.members import Seat

COMPARE_EVERY_REPORTS: Final = 4
"""Session reports between two comparisons, because hashing all changes takes time."""


class DigestComparison:
    """The comparison while one leader leads; followers use `on_request` alone."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._compared_zxid = ZERO
        self._digests: dict[ServerId, int] = {}
        self._is_over = True
        self._reports = 0
        self._is_wanted = False
        self._confirmed: dict[ServerId, Learner | None] = {}  # each on one attempt to follow

    def send_requests(self) -> None:
        """On the leader, with each session report: now and then request the followers' digests."""
        self._reports += 1
        if self._reports % COMPARE_EVERY_REPORTS:
            return
        context = self._context
        role, zxid = context.peer.broadcasting, context.state.zxid
        is_known = zxid == self._compared_zxid and not self._is_wanted
        if role is None or is_known or context.state.tree.unhashed:
            return
        self._is_wanted = False
        self._compared_zxid = zxid
        self._is_over = False
        digest = context.state.digest()
        self._digests = {context.peer.settings.server_id: digest}
        for learner in role.learners:
            if learner.stage is Stage.FOLLOWING and learner.sent >= zxid:
                context.out.append(SendPeer(learner.server_id, DigestRequest(zxid, digest)))

    def on_request(self, message: DigestRequest) -> None:
        """On a follower: reply with its own digest, if it has applied as much as the leader had."""
        context = self._context
        leader, zxid = context.peer.leader, context.state.zxid
        if leader is not None and zxid == message.zxid and not context.state.tree.unhashed:
            context.out.append(SendPeer(leader, DigestReply(zxid, context.state.digest())))

    def on_reply(self, sender: ServerId, message: DigestReply) -> None:
        """On the leader: record a digest, and stop the servers that differ if a quorum agrees."""
        if self._is_over or message.zxid != self._compared_zxid:
            return
        if message.digest == self._digests[self._context.peer.settings.server_id]:
            self._confirm(sender)
        self._digests[sender] = message.digest
        digest = self._quorum_digest()
        if digest is not None:
            self._judge(digest)
        elif self._have_all_voters_replied():
            self._is_over = True
            if len(set(self._digests.values())) > 1:
                self._trace(trace_events.DIGEST_UNDECIDED, sorted(self._digests))

    def is_confirmed(self, learner: Learner) -> bool:
        """Return whether a learner's digest equalled the leader's since it follows; else ask."""
        is_confirmed = self._confirmed.get(learner.server_id) is learner
        self._is_wanted = self._is_wanted or not is_confirmed
        return is_confirmed

    def on_mismatch(self, zxid: Zxid) -> None:
        """On a server that differs from a quorum: stop, and restart from the others' state."""
        self._trace(trace_events.DIGEST_DIFFERS, [self._context.peer.settings.server_id])
        reason = f"at {format_zxid(zxid)} this server's tree differs from that of a quorum"
        self._context.out.append(Restart(reason, wipe_disk=True))

    def _judge(self, digest: int) -> None:
        me = self._context.peer.settings.server_id
        wrong = [server for server, told in self._digests.items() if told != digest]
        self._digests = dict.fromkeys(self._digests, digest)  # each server is judged once
        for server in wrong:
            if server == me:
                self.on_mismatch(self._compared_zxid)
                return
            self._trace(trace_events.DIGEST_DIFFERS, [server])
            self._context.out.append(SendPeer(server, DigestMismatch(self._compared_zxid)))

    def _quorum_digest(self) -> int | None:
        """Return the digest on which a quorum of voters agrees, None if there is none."""
        peer = self._context.peer
        role, settings = peer.broadcasting, peer.settings
        assert role is not None, "only a leader receives digests"
        seats: dict[int, list[Seat]] = {self._digests[settings.server_id]: [settings.seat]}
        for learner in role.learners:
            if learner.server_id in self._digests:
                seats.setdefault(self._digests[learner.server_id], []).append(learner.seat)
        agreed = [digest for digest, same in seats.items() if settings.members.is_quorum(same)]
        return agreed[0] if agreed else None

    def _confirm(self, sender: ServerId) -> None:
        role = self._context.peer.broadcasting
        assert role is not None, "only a leader receives digests"
        self._confirmed[sender] = role.learners.get(sender)

    def _have_all_voters_replied(self) -> bool:
        role = self._context.peer.broadcasting
        assert role is not None, "only a leader receives digests"
        return all(
            x.server_id in self._digests
            for x in role.learners
            if x.has_vote and x.stage is Stage.FOLLOWING
        )

    def _trace(self, name: str, servers: list[ServerId]) -> None:
        self._context.trace(name, (format_zxid(self._compared_zxid), servers))
