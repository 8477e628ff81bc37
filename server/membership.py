"""This server's place in the member list: with whom it is linked, and when it leaves for good.

A server is a *newcomer* while no list has had it; it follows without a vote and waits to be added.
It is *removed* once a list has had it, the one that was delivered has not, and that one was said
again: then a majority of the new list does not need it (docs/MEMBERS.md, M4).

That is judged while it takes part in broadcast only. The log that a newcomer is sent may tell of an
earlier server of its id, which came and went; and one that was away may have been removed and added
again. ZooKeeper: `QuorumPeer.processReconfig`, after which a server without a place goes on as an
observer that no one lists.
"""

from collections.abc import Callable

from raykeeper.server.context import ServerContext
from raykeeper.server.effects import LeaveEnsemble, MembersKnown


class Membership:
    """What was told of the member list, and whether this server was ever in it."""

    def __init__(
        self, context: ServerContext, close_clients: Callable[[], None], *, was_member: bool
    ) -> None:
        """`was_member`: as the server's folder knows it, from earlier runs."""
        self._context = context
        self._close_clients = close_clients
        self._was_member = was_member
        self._is_removed = False
        self._seen = -1  # the revision of the lists
        self._was_active = False
        self._told: MembersKnown | None = None

    def finish(self) -> None:
        """At the end of a step, tell the shell what has changed; leave once it is due."""
        peer = self._context.peer
        members = peer.settings.members
        if members.revision == self._seen and peer.is_active == self._was_active:
            return
        self._seen, self._was_active = members.revision, peer.is_active
        me, delivered = peer.settings.server_id, members.delivered
        is_listed = me in delivered.servers
        # A list that has the seat means this very folder, also if its own word of that is lost.
        if (peer.is_active and is_listed) or delivered.voters.get(me) == peer.settings.disk:
            self._was_member = True
        known = MembersKnown(delivered, members.known_servers, self._was_member)
        if known != self._told:
            self._told = known
            self._context.out.append(known)
        is_over = self._was_member and not is_listed and self._context.state.is_list_said_again
        if peer.is_active and is_over and not self._is_removed:
            self._is_removed = True
            self._close_clients()
            self._context.out.append(LeaveEnsemble(delivered))
