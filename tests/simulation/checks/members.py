"""Checks of the member list: docs/MEMBERS.md, rules M1, M3 and M4, told by outside evidence."""

from typing import Protocol

from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Epoch, ServerId, Zxid, counter_of, epoch_of, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import SUPER, Identities
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig
from raykeeper.znodes.txns import ErrorTxn, ReconfigErrorTxn, ReconfigTxn, Txn
from tests.simulation.checks.truth import CONFIG, Truth

_REFUSALS = (
    *(Code.BAD_ARGUMENTS, Code.BAD_VERSION, Code.NEW_CONFIG_NO_QUORUM, Code.RECONFIG_IN_PROGRESS),
)


def step_is_justified(truth: Truth, zxid: Zxid, txn: Txn, op: Reconfig, who: Identities) -> None:
    """Check what a step became: the list that it asks for, or a refusal that its request deserves.

    Whether servers were ready only the leader knew.
    """
    change = txn.body
    if isinstance(change, ErrorTxn):
        is_due = SUPER not in who if change.code == Code.NO_AUTH else truth.members is None
        assert is_due, f"Membership: {op} was refused with {change}"
        return
    assert SUPER in who, f"Membership: {op} of {who} became {change}"
    if isinstance(change, ReconfigErrorTxn):
        assert change.code in _REFUSALS and change.detail, f"Membership: {op} became {change}"
        return
    assert isinstance(change, ReconfigTxn), change
    _is_a_step(truth, zxid, change, op)


def is_an_operators_step(truth: Truth, zxid: Zxid, change: ReconfigTxn) -> None:
    """Check what a step became that some operator has asked for without a session."""
    fits = [op for op in truth.operators_steps if _fits(op, change)]
    assert fits, f"Membership: no operator has asked for {change.members}"
    _is_a_step(truth, zxid, change, fits[-1])


def may_leave(truth: Truth, server: ServerId, members: MemberList) -> None:
    """Check that a server that leaves by a list is in it no more, and that it was said twice."""
    newest = truth.members
    assert newest is not None and members.version <= newest.version, f"Membership: {server} leaves"
    assert server not in members.servers, f"Membership: {server} leaves by {members}"
    is_open = members == newest and truth.times_said < 2
    assert not is_open, f"Membership: {server} leaves by {members}, which was said only once"


def _fits(op: Reconfig, change: ReconfigTxn) -> bool:
    voters, observers = change.members.voters, change.members.observers
    has_joined = not op.joining or op.joining in (observers if op.as_observer else voters)
    return has_joined and op.leaving not in change.members.servers


def _is_a_step(truth: Truth, zxid: Zxid, change: ReconfigTxn, op: Reconfig) -> None:
    assert change.config is not None, change
    where = f"{op} became {change.members} in {format_zxid(zxid)}"
    old, new = truth.members, change.members
    assert old is None or truth.times_said > 1, f"Membership: two changes are open: {where}"
    assert new.version == zxid == change.config.stat.mzxid, f"Membership: {where}"
    if old is not None:
        gone = old.voters.items() - new.voters.items()
        come = new.voters.items() - old.voters.items()
        assert len(gone) <= 1 and len(come) <= 1, f"Membership: more than a seat: {where}"
    assert _fits(op, change), f"Membership: {where}"
    kinds = dict.fromkeys(new.observers, "observer") | dict.fromkeys(new.voters, "participant")
    due = [f"server.{server}=unknown:2888:3888:{kind}" for server, kind in sorted(kinds.items())]
    lines = (change.config.value or b"").decode().splitlines()
    assert change.config.path == CONFIG and lines == [*due, f"version={zxid:x}"], (
        f"Membership: {lines} where {due} belongs"
    )


def counts_as_its_role(server: ServerId, role: Role, *, is_changing: bool) -> None:
    """Check that a list that is only logged counts on leaders alone (M2).

    A server whose role has ended may find that list cut off its log.
    """
    assert role is Role.LEADER or not is_changing, (
        f"Membership: server {server} is {role.name}, and counts by a list that is only logged"
    )


class NewcomersDisk(Protocol):
    """What a newcomer has on disk."""

    accepted: Epoch
    has_forgotten: bool

    @property
    def last(self) -> Zxid:
        """The end of its log."""
        ...


def newcomer_has_kept_up(server: ServerId, disk: NewcomersDisk, zxid: Zxid, lag_max: int) -> None:
    """Check a promotion when a leader logs it as `zxid` (M5): the newcomer lacks little of its log.

    A leader that was deposed may not know that the log of the newcomer was cut.
    """
    if disk.accepted > epoch_of(zxid) or disk.has_forgotten:
        return
    is_of_epoch = epoch_of(disk.last) == epoch_of(zxid)
    lag = zxid - disk.last if is_of_epoch else counter_of(zxid)
    assert lag <= lag_max, f"Membership: server {server} gets a vote, and lacks {lag} transactions"


def is_said_again(truth: Truth, change: ReconfigTxn) -> None:
    """Check that without a request only the list in force is said (M4)."""
    assert change.config is None and change.members == truth.members, (
        f"Membership: {change} is said, the list is {truth.members}"
    )
