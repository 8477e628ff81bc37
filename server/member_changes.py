"""The member list on an established leader: which step it may propose next, and when.

docs/MEMBERS.md has the rules. A step that is not possible is refused with the reason, and changes
nothing. One step is open at a time, from its proposal until the same list was delivered once more
(M3, M4); a disk that is replaced is such a step too (rule D3). The next one may be prepared a
little earlier, when the list is being said again, and waits for the end of that.

ZooKeeper: `PrepRequestProcessor`, case `reconfig`; etcd: learners, and their promotion.
"""

from collections.abc import Callable

from raykeeper.server.context import ServerContext
from raykeeper.zab.ids import (
    SERVER_ID_MAX,
    ZERO,
    DiskId,
    Millis,
    ServerId,
    Zxid,
    counter_of,
    epoch_of,
)
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.learners import Learner, Stage
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.quorum import Quorum
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig
from raykeeper.znodes.txns import ReconfigErrorTxn


class MemberChanges:
    """The open step, and what is known of servers that may get a vote."""

    def __init__(self, context: ServerContext, has_digest: Callable[[Learner], bool]) -> None:
        """`has_digest`: whether a learner has confirmed that its state is that of the leader."""
        self._context = context
        self._has_digest = has_digest
        # None: which transaction ends the step is not known yet, as of an earlier leader's.
        self._open_until: Zxid | None = None
        self._open_after = ZERO  # what ended the step before; until then this one waits (M3)
        self._step = "the list that an earlier leader has left is said again"
        self._caught_up_since: dict[ServerId, tuple[Learner, Millis]] = {}  # on one attempt each
        self._removed: dict[ServerId, Learner] = {}  # they end by themselves, and may not know yet

    @property
    def is_open(self) -> bool:
        """Whether a step is under way."""
        return self._open_until is None or self._context.state.zxid < self._open_until

    @property
    def is_unsaid(self) -> bool:
        """Whether a step is under way that this leader has not begun to say again."""
        return self._open_until is None

    @property
    def may_propose(self) -> bool:
        """Whether the newest step may be proposed: the list before it was said again."""
        return self._context.state.zxid >= self._open_after

    @property
    def open_step(self) -> str:
        """The step that is under way, in words; empty if none is."""
        return self._step if self.is_open else ""

    def begin(self, step: str, leaving: int = 0) -> None:
        """Note that a step, which `step` describes, is prepared; by it server `leaving` leaves."""
        if leaver := self._learner(ServerId(leaving)):
            self._removed[leaver.server_id] = leaver
        self._open_after, self._open_until, self._step = self._open_until or ZERO, None, step

    @property
    def needs_repeat(self) -> bool:
        """Whether a step was delivered that this leader has not said again."""
        return self._open_until is None and not self._context.peer.settings.members.is_changing

    def repeated(self, zxid: Zxid) -> None:
        """Note that transaction `zxid` says the list once more; its delivery ends the step."""
        self._open_until = zxid

    def watch_lags(self) -> None:
        """With each report, note which learners have what this server has."""
        context, before, now = self._context, self._caught_up_since, self._context.now.mono
        self._caught_up_since = {}
        for learner in self._followers():
            if self.lag_of(learner) <= context.options.promotion_lag_max:
                known, since = before.get(learner.server_id, (learner, now))
                self._caught_up_since[learner.server_id] = (
                    learner,
                    since if known is learner else now,
                )

    def next_list(self, op: Reconfig, zxid: Zxid) -> MemberList | ReconfigErrorTxn:
        """Return the list that a step makes, as transaction `zxid`, or why there is none."""
        if self.is_unsaid:
            return ReconfigErrorTxn(Code.RECONFIG_IN_PROGRESS, "another change is open")
        members = self._context.peer.settings.members.delivered
        fault = self._fault_of(op, members)
        if fault:
            return ReconfigErrorTxn(Code.BAD_ARGUMENTS, fault)
        voters, observers = dict(members.voters), dict.fromkeys(members.observers)
        for server in (op.leaving, op.joining):
            voters.pop(ServerId(server), None)
            observers.pop(ServerId(server), None)
        joining = ServerId(op.joining)
        if joining in self._removed and self._learner(joining) is self._removed[joining]:
            text = f"server {joining} was removed, and ends: start it anew before it is added"
            return ReconfigErrorTxn(Code.NEW_CONFIG_NO_QUORUM, text)
        if joining and op.as_observer:
            if not self._is_known(joining, members):
                text = f"server {joining} does not follow: start it before it is added"
                return ReconfigErrorTxn(Code.NEW_CONFIG_NO_QUORUM, text)
            observers[joining] = None
        elif joining:
            learner = self._learner(joining)
            obstacle = self._obstacle_to_promotion(joining, learner)
            if learner is None or obstacle:
                return ReconfigErrorTxn(Code.NEW_CONFIG_NO_QUORUM, obstacle)
            voters[joining] = learner.disk
        # From one voter to two there is no majority without the new one.
        without = joining if len(members.voters) > 1 else ServerId(0)
        if voters.keys() != members.voters.keys() and not self._is_live(voters, without):
            text = "the servers of the new list, without the new one, are no majority that follows"
            return ReconfigErrorTxn(Code.NEW_CONFIG_NO_QUORUM, text)
        return MemberList(zxid, dict(sorted(voters.items())), tuple(sorted(observers)))

    def describe(self, op: Reconfig) -> str:
        """Return what a step that is possible does, in words."""
        joining, leaving = op.joining, op.leaving
        is_voter = joining in self._context.peer.settings.members.delivered.voters
        if not joining:
            return f"server {leaving} leaves"
        if op.as_observer:
            step = f"server {joining} {'becomes' if is_voter else 'joins as'} an observer"
        else:
            step = f"server {joining} becomes a voter"
        return f"{step} in the place of server {leaving}" if leaving else step

    def lag_of(self, learner: Learner) -> int:
        """Return how many transactions a learner has not acknowledged; at least, over epochs."""
        last = self._context.peer.history.logged
        if epoch_of(learner.acked) == epoch_of(last):
            return last - learner.acked
        return counter_of(last)

    def _fault_of(self, op: Reconfig, members: MemberList) -> str:
        """Return what is wrong with a request, whatever the servers do; empty if nothing is."""
        joining, leaving = op.joining, op.leaving
        known = {*members.voters, *members.observers}
        me = self._context.peer.settings.server_id
        if not joining and not leaving:
            return "no server joins, and none leaves"
        if joining == leaving:
            return f"server {joining} cannot take its own place"
        if joining and not 1 <= joining <= SERVER_ID_MAX:
            return f"{joining} is no id of a server, expected 1 to {SERVER_ID_MAX}"
        if leaving and leaving not in known:
            return f"server {leaving} is not a member"
        if leaving == me or (joining == me and op.as_observer):
            return f"server {me} leads: transfer the lead first"
        if op.as_observer and joining in members.observers:
            return f"server {joining} is an observer already"
        if joining and not op.as_observer and joining in members.voters:
            return f"server {joining} is a voter already"
        if joining and not op.as_observer and joining not in members.observers:
            return f"server {joining} is not a member: add it as an observer first"
        if joining in members.voters and leaving in members.voters:
            return "two voters would leave at once"
        return ""

    def _obstacle_to_promotion(self, server: ServerId, learner: Learner | None) -> str:
        """Return why a server cannot get a vote now (M5); empty if it can."""
        options, now = self._context.options, self._context.now.mono
        if learner is None or learner.stage is not Stage.FOLLOWING:
            return f"server {server} does not follow yet"
        if not learner.is_logging:
            return f"server {server} does not log: its disk is full"
        lag = self.lag_of(learner)
        known, since = self._caught_up_since.get(server, (learner, now))
        kept_up_ms = now - since if known is learner else 0
        if lag > options.promotion_lag_max:
            return f"server {server} lags by {lag} transactions, {options.promotion_lag_max} may be"
        if kept_up_ms < options.promotion_wait_ms:
            return (
                f"server {server} has kept up for {kept_up_ms} ms, "
                f"{options.promotion_wait_ms} are needed"
            )
        if not self._has_digest(learner):
            return f"server {server} has not confirmed its digest yet"
        return ""

    def _is_known(self, server: ServerId, members: MemberList) -> bool:
        """Return whether a server is a member, or follows without being one."""
        if server in members.voters or server in members.observers:
            return True
        learner = self._learner(server)
        return learner is not None and learner.stage is Stage.FOLLOWING

    def _is_live(self, voters: dict[ServerId, DiskId], without: ServerId) -> bool:
        settings = self._context.peer.settings
        seats = [settings.seat]
        seats += [x.seat for x in self._followers() if x.server_id != without]
        return Quorum(voters.items()).is_quorum(seats)

    def _followers(self) -> list[Learner]:
        role = self._role()
        return [x for x in role.learners if x.stage is Stage.FOLLOWING and x.is_logging]

    def _learner(self, server: ServerId) -> Learner | None:
        return self._role().learners.get(server)

    def _role(self) -> LeaderBroadcast:
        role = self._context.peer.broadcasting
        assert role is not None, "called only while this server leads"
        return role
