"""What a server of the simulator knows of the member list, beside its log."""

from collections.abc import Callable

from raykeeper.server.effects import MembersKnown
from raykeeper.zab.ids import ServerId
from raykeeper.zab.member_list import MemberList


class ListFollower:
    """The links that a server is to have, and what its folder says of it."""

    def __init__(self, server_id: ServerId) -> None:
        self.known: Callable[[], MemberList | None] = lambda: None
        """Returns the newest member list that whoever starts a process knows."""
        self.decides_links = False
        """Whether it is linked only with whom a member list says, its own or the other one's."""
        self.was_member = False
        """Whether a list has had it, as its folder says."""
        self.is_removed = False
        """Whether its process is about to end, because the list has it no more."""
        self._server_id = server_id
        self._servers: tuple[ServerId, ...] = ()

    def take(self, effect: MembersKnown) -> None:
        """Take what a process was told to keep links with."""
        self._servers, self.was_member = effect.servers, effect.was_member

    def process_ended(self) -> None:
        """Forget all if it was removed: another server takes its id, on a disk of its own."""
        if self.is_removed:
            self.is_removed = self.was_member = False

    def may_link(self, other: "ListFollower") -> bool:
        """Return whether one of the two wants a link, by the lists that it knows."""
        is_wanted = other._server_id in self._servers or self._server_id in other._servers
        return is_wanted or not self.decides_links
