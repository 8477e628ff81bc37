"""Replicas compare the digests of their trees at equal zxids; who differs from a quorum goes.

The leader tells its digest behind the commit it belongs to, so a follower that reads both in order
is at that very zxid. What a quorum of voters agrees on is right: transactions and snapshots have
their checksums, so what differs was changed in the memory of a minority, or by a bug there. Such a
server, the leader too, stops at once and begins anew without its disk, whose snapshots may hold
the same fault. When no quorum agrees nobody can be named; that is noted, and all go on.

ZooKeeper: `DataTree.compareDigest`, which logs a mismatch and goes on serving.
"""

from collections import Counter
from typing import Final

from raykeeper.server import server_notes as notes
from raykeeper.server.effects import Restart, SendPeer
from raykeeper.server.peer_messages import DigestAsk, DigestTold, Diverged
from raykeeper.server.server_context import ServerContext
from raykeeper.zab.effects import Note
from raykeeper.zab.ids import ZERO, ServerId, Zxid, show_zxid
from raykeeper.zab.learners import Stage

ASK_EVERY: Final = 4
"""Reports on sessions between two comparisons: to hash what changed since takes its time."""


class Digests:
    """The comparison of one leader's reign; followers use `compared` alone."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._asked = ZERO
        self._told: dict[ServerId, int] = {}
        self._is_over = True
        self._reports = 0

    def ask(self) -> None:
        """On the leader, with each report: now and then tell the digest of what was applied."""
        self._reports += 1
        if self._reports % ASK_EVERY:
            return
        context = self._context
        role, zxid = context.peer.broadcasting, context.state.zxid
        if role is None or zxid == self._asked:
            return
        self._asked = zxid
        self._is_over = False
        digest = context.state.digest()
        self._told = {context.peer.settings.server_id: digest}
        for learner in role.learners:
            if learner.stage is Stage.FOLLOWING and learner.sent >= zxid:
                context.out.append(SendPeer(learner.server_id, DigestAsk(zxid, digest)))

    def compared(self, message: DigestAsk) -> None:
        """On a follower: answer with its own digest, if it is where the leader was."""
        context = self._context
        leader, zxid = context.peer.leader, context.state.zxid
        if leader is not None and zxid == message.zxid:
            context.out.append(SendPeer(leader, DigestTold(zxid, context.state.digest())))

    def told(self, sender: ServerId, message: DigestTold) -> None:
        """On the leader: one more server has answered; judge if a quorum agrees."""
        if self._is_over or message.zxid != self._asked:
            return
        self._told[sender] = message.digest
        digest = self._agreed()
        if digest is not None:
            self._judge(digest)
        elif self._have_all_voters_told():
            self._is_over = True
            if len(set(self._told.values())) > 1:
                self._note(notes.DIGEST_UNDECIDED, sorted(self._told))

    def diverged(self, zxid: Zxid) -> None:
        """On a server that a quorum disagrees with: stop, and begin anew from the others."""
        self._note(notes.DIGEST_DIFFERS, [self._context.peer.settings.server_id])
        reason = f"at {show_zxid(zxid)} this server's tree differs from that of a quorum"
        self._context.out.append(Restart(reason, forget=True))

    def _judge(self, digest: int) -> None:
        me = self._context.peer.settings.server_id
        wrong = [server for server, told in self._told.items() if told != digest]
        self._told = dict.fromkeys(self._told, digest)  # each is judged once
        for server in wrong:
            if server == me:
                self.diverged(self._asked)
                return
            self._note(notes.DIGEST_DIFFERS, [server])
            self._context.out.append(SendPeer(server, Diverged(self._asked)))

    def _agreed(self) -> int | None:
        """The digest of a quorum of voters."""
        quorum = self._context.peer.settings.quorum
        voters = self._voters()
        for digest, count in Counter(self._told[server] for server in voters).items():
            if count >= quorum.size:
                return digest
        return None

    def _voters(self) -> list[ServerId]:
        """Those with a vote who have told."""
        peer = self._context.peer
        role = peer.broadcasting
        assert role is not None, "only a leader is told digests"
        counted = [x.server_id for x in role.learners if x.votes and x.server_id in self._told]
        me = peer.settings.server_id
        return [me, *counted] if peer.settings.votes else counted

    def _have_all_voters_told(self) -> bool:
        role = self._context.peer.broadcasting
        assert role is not None, "only a leader is told digests"
        return all(
            x.server_id in self._told
            for x in role.learners
            if x.votes and x.stage is Stage.FOLLOWING
        )

    def _note(self, name: str, servers: list[ServerId]) -> None:
        self._context.out.append(Note(name, (show_zxid(self._asked), servers)))
