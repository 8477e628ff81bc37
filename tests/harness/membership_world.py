"""`zab_world` with member lists that change: the transactions that say them, and their rules.

Here are those rules of docs/MEMBERS.md that the server keeps and not Zab itself: one change at a
time, said twice, newcomers that follow, a majority of the new list that follows. A server without
a seat is linked and learns, as an observer does. The check is named `Membership`.
"""

from random import Random

import msgspec

from raykeeper.zab import effects
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, ServerId, Zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.learners import Learner, Stage
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.quorum import Quorum
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.log_entries import Entry, entries_of
from tests.harness.zab_world import ZabServer, ZabWorld

_MARK = b"members "
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MemberList).decode


def list_in(txn: bytes) -> MemberList | None:
    """Return the member list that a transaction says, None for another one."""
    return _decode(txn[len(_MARK) :]) if txn.startswith(_MARK) else None


class Rules:
    """What the leader asks before it proposes; mutations switch a rule off."""

    one_open = True
    said_twice = True
    leaves_after_repeat = True
    follows = True
    is_live = True


class MembershipWorld(ZabWorld):
    """Servers of which the first `voters` founded the ensemble."""

    def __init__(
        self, random: Random, voters: int, strangers: int, window: RecentLogLimits | None = None
    ) -> None:
        super().__init__(random, voters, strangers, window)
        self.rules = Rules()
        self.newest = MemberList(ZERO, dict.fromkeys(self.voters, FOUNDING_DISK))
        self.chain = [self.newest]  # the committed lists, in order
        self.proposed: list[MemberList] = []
        # Of each active leader: which transaction ends the open step, None if it is not known yet.
        self._open: dict[ServerId, Zxid | None] = {}

    # The member list of each server.

    def prepare(self, server: ZabServer) -> None:
        assert server.peer is not None
        self._adopt(server)
        # What its log knows as committed: a log with a change knows the one before as committed.
        mark = server.disk.committed
        if mark > server.peer.history.delivered and server.peer.history.recent_log.has(mark):
            server.peer.history.deliver(mark)
        self._settle(server)

    def _adopt(self, server: ZabServer) -> None:
        assert server.peer is not None
        members = server.peer.settings.members
        members.adopt(_last_list(server.disk.entries[: server.applied]) or members.founding)

    def _deliver(self, server: ZabServer, effect: effects.Deliver) -> None:
        assert server.peer is not None
        upto = Zxid(effect.first + len(effect.txns) - 1)
        if upto > self.properties.last:
            self._decided(server, self._counted(server), upto)
        super()._deliver(server, effect)
        self._note_lists()
        for _, txn in entries_of(effect):
            members = list_in(txn)
            if members is not None:
                is_new = server.peer.list_delivered(members, self.now)
                # Not the lists of the initial history: of those the last one is said again.
                if is_new and self.rules.said_twice and server.id in self._open:
                    self.after(0, lambda said=members: self._say_again(server, said))

    def _say_again(self, server: ZabServer, members: MemberList) -> None:
        if server.id in self._open and server.peer is not None:
            zxid = self._propose(server, _MARK + _encode(members))
            self._open[server.id] = zxid

    def _settle(self, server: ZabServer) -> None:
        super()._settle(server)
        while server.peer is not None and server.out:
            super()._settle(server)

    def _carry_out(self, server: ZabServer, effect: effects.Effect) -> None:
        if isinstance(effect, effects.VoteGranted):
            return  # these disks keep nothing that it lets go
        super()._carry_out(server, effect)
        if server.peer is None:
            return  # an ambush
        if isinstance(effect, effects.AdoptSnapshot):
            self._adopt(server)
        elif isinstance(effect, effects.RoleChanged):
            self._open.pop(server.id, None)
            history, members = server.peer.history, server.peer.settings.members
            members.forget_logged_lists()
            if effect.role is effects.Role.LEADER:
                for run in history.recent_log.between(history.delivered, history.logged):
                    for said in map(list_in, run.txns):
                        if said is not None:
                            members.list_logged(said)
        elif isinstance(effect, effects.Activated) and effect.role is effects.Role.LEADER:
            members = server.peer.settings.members
            self._open[server.id] = ZERO
            if members.delivered.version and self.rules.said_twice:
                self._open[server.id] = None
                self.after(0, lambda: self._say_again(server, members.delivered))

    # Steps.

    def change(self, server_id: ServerId) -> bool:
        """Propose a random step, if this server leads and may."""
        server = self.servers[server_id]
        if server.peer is None or server.paused_until > self.now:
            return False
        role = server.peer.broadcasting
        if role is None or server_id not in self._open:
            return False
        if self.rules.one_open and self._is_open(server):
            return False
        members = server.peer.settings.members.delivered
        voters = self._step_from(members, server_id, role)
        if voters is None or (
            self.rules.is_live and not self._is_live(server, role, voters, members)
        ):
            return False
        if self.bad_seats(MemberList(ZERO, voters)) > (len(voters) - 1) // 2:
            return False  # a disk was lost that this leader still hears
        self.change_to(server_id, voters)
        return True

    def change_to(self, server_id: ServerId, voters: dict[ServerId, DiskId]) -> None:
        """Have the leader propose this list."""
        server = self.servers[server_id]
        assert server.peer is not None and server.peer.broadcasting is not None
        zxid = server.peer.broadcasting.next_zxid()
        new = MemberList(zxid, dict(sorted(voters.items())))
        server.peer.list_logged(new)
        self._open[server_id] = None if self.rules.said_twice else ZERO
        self._propose(server, _MARK + _encode(new))
        self.proposed.append(new)

    def _step_from(
        self, members: MemberList, me: ServerId, role: LeaderBroadcast
    ) -> dict[ServerId, DiskId] | None:
        voters, random = dict(members.voters), self.random
        able = [x for x in role.learners if self._may_join(x)]
        others = [x for x in able if x.server_id not in voters]
        moved = [x for x in able if voters.get(x.server_id, x.disk) != x.disk]
        leaving = [server for server in voters if server != me]
        kind = random.random()
        if kind < 0.3 and moved:
            learner = random.choice(moved)
            voters[learner.server_id] = learner.disk
        elif kind < 0.65 and others and len(voters) < 5:
            learner = random.choice(others)
            voters[learner.server_id] = learner.disk
        elif kind < 0.8 and others and leaving:
            del voters[random.choice(leaving)]
            learner = random.choice(others)
            voters[learner.server_id] = learner.disk
        elif leaving:
            del voters[random.choice(leaving)]
        else:
            return None
        return voters

    def _may_join(self, learner: Learner) -> bool:
        is_there = learner.server_id not in self.gone
        return is_there and (learner.stage is Stage.FOLLOWING or not self.rules.follows)

    def _is_live(
        self,
        server: ZabServer,
        role: LeaderBroadcast,
        voters: dict[ServerId, DiskId],
        members: MemberList,
    ) -> bool:
        assert server.peer is not None
        seats = [x.seat for x in role.learners if x.stage is Stage.FOLLOWING]
        if len(members.voters) > 1:
            seats = [seat for seat in seats if seat in members.voters.items()]
        return Quorum(voters.items()).is_quorum([server.peer.settings.seat, *seats])

    def _is_open(self, server: ZabServer) -> bool:
        assert server.peer is not None
        history, members = server.peer.history, server.peer.settings.members
        until = self._open[server.id]
        return members.is_changing or until is None or history.delivered < until

    def _propose(self, server: ZabServer, txn: bytes) -> Zxid:
        assert server.peer is not None
        role = server.peer.broadcasting
        assert role is not None
        zxid = role.next_zxid()
        self.properties.broadcast(server.id, zxid, [txn], server.peer.history.logged)
        server.peer.propose([txn], self.now)
        self._settle(server)
        return zxid

    # Checks.

    def _note_lists(self) -> None:
        """Look for the newest committed list, by whose disks everything must survive."""
        newest = _last_list(self.properties.committed) or self.newest
        if newest.version != self.newest.version:
            self.newest = newest
            self.chain.append(newest)
            self.voters = tuple(newest.voters)
            self.properties._quorum = Quorum(self.voters)
        self.wiped = self.bad_seats(newest)

    def bad_seats(self, members: MemberList) -> int:
        """Return how many seats of a list have lost their disk."""
        disks = {server.id: server.disk_id for server in self.servers.values()}
        return sum(disks[server] != disk for server, disk in members.voters.items())

    def may_wipe(self, server_id: ServerId) -> bool:
        """Return whether every list that may count keeps a majority without this disk."""
        return all(
            self.bad_seats(each) + (server_id in each.voters) <= (len(each.voters) - 1) // 2
            for each in [self.newest, *self.chain[-2:], *self._logged_lists()]
        )

    def _logged_lists(self) -> list[MemberList]:
        """Return the newer lists that a log may hold, or that are on their way to one."""
        return [each for each in self.proposed if each.version > self.newest.version]

    def leave(self, server_id: ServerId) -> None:
        """Stop a server for good, if it is no voter and the list without it was said again."""
        said = [members for _, txn in self.properties.committed if (members := list_in(txn))]
        times = sum(members == self.newest for members in said)
        wanted = 2 if self.rules.leaves_after_repeat else 1
        is_named = any(server_id in each.voters for each in [self.newest, *self._logged_lists()])
        if times >= wanted and not is_named:
            self.gone[server_id] = None
            self.crash(server_id)

    def crash(self, server_id: ServerId) -> None:
        self._open.pop(server_id, None)
        super().crash(server_id)

    def wipe(self, server_id: ServerId) -> None:
        super().wipe(server_id)
        self.wiped = self.bad_seats(self.newest)

    def _counted(self, server: ZabServer) -> list[MemberList]:
        """Return the lists by which a leader must count, by what really is committed."""
        assert server.peer is not None
        history = server.peer.history
        runs = history.recent_log.between(history.recent_log.base, history.logged)
        said = [members for run in runs for members in map(list_in, run.txns) if members]
        newest = said[-1] if said else self.newest
        return [self.newest] if newest.version <= self.newest.version else [self.newest, newest]

    def _decided(self, server: ZabServer, lists: list[MemberList], upto: Zxid) -> None:
        """Check Membership: a majority of the seats of each list that counts has decided.

        So any two quorums that decide by one list have a seat in common.
        """
        assert server.peer is not None
        role = server.peer.broadcasting
        if role is None:
            return
        seats = {x.seat for x in role.learners if x.stage is Stage.FOLLOWING and x.acked >= upto}
        if server.peer.history.synced >= upto:
            seats.add(server.peer.settings.seat)
        for members in lists:
            assert Quorum(members.voters.items()).is_quorum(seats), (
                f"Membership: {sorted(seats)} decided in epoch {role.epoch}, "
                f"which are no majority of {members}"
            )


def _last_list(entries: list[Entry]) -> MemberList | None:
    for _, txn in reversed(entries):
        members = list_in(txn)
        if members is not None:
            return members
    return None
