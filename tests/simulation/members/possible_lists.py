"""The member lists that may count on some server: committed, logged, or asked for.

A disk may be lost only while every one of them bears it, and a step is asked for only if its list
bears the losses so far: an ensemble that loses more may stand still until a disk is back.
"""

from collections.abc import Iterable, Iterator
from itertools import permutations

from msgspec import Struct

from raykeeper.zab.effects import Append
from raykeeper.zab.ids import ZERO, DiskId, ServerId, Zxid
from raykeeper.znodes.requests import Reconfig
from raykeeper.znodes.txns import ReconfigTxn, ReplaceVoterTxn, decode_txn
from tests.simulation.checks.session_view import SessionView
from tests.simulation.checks.truth import Truth
from tests.simulation.node import Node

Voters = dict[ServerId, DiskId]
ASKED_MAX = 3
"""Steps under way; with more of them no disk is lost."""


class LoggedList(Struct, frozen=True):
    """A member list that some server has appended to its log."""

    zxid: Zxid
    voters: Voters
    is_repeated: bool
    """Whether it is said again, as far as one can tell without the log before it."""


class _Asked(Struct, eq=False):
    """A step that an operator has asked for: write `number` of its session."""

    seen: SessionView
    number: int
    op: Reconfig


class PossibleLists:
    """The lists of one run, with what is on its way."""

    def __init__(self, truth: Truth, nodes: Iterable[Node], founders: Voters) -> None:
        self.newest: LoggedList | None = None
        """The list that was logged last."""
        self.change: tuple[Voters, Voters] = (founders, founders)
        """The newest list with other voters than the one before, and that one first."""
        self._truth = truth
        self._nodes = {node.server_id: node for node in nodes}
        self._logged = [LoggedList(ZERO, founders, False)]
        self._at: dict[Zxid, LoggedList | None] = {}
        self._asked: list[_Asked] = []

    def appended(self, effect: Append) -> None:
        """Note what a server appends to its log."""
        for zxid, data in enumerate(effect.txns, effect.first):
            if zxid not in self._at:
                self._at[Zxid(zxid)] = found = self._list_in(Zxid(zxid), data)
                if found is not None:
                    before = self._logged[-1].voters
                    if before != found.voters:
                        self.change = before, found.voters
                    self._logged.append(found)
                    self.newest = found

    def lists_in(self, effect: Append) -> Iterator[LoggedList]:
        """Return the lists in what a server appends."""
        for zxid in range(effect.first, effect.first + len(effect.txns)):
            found = self._at.get(Zxid(zxid))
            if found is not None:
                yield found

    def asks(self, seen: SessionView, op: Reconfig) -> None:
        """Note a step that was just requested in this session."""
        self._asked.append(_Asked(seen, len(seen.writes), op))

    @property
    def committed(self) -> dict[Zxid, None]:
        """Return the transactions of committed lists."""
        return self._truth.lists_at

    def logged(self, *, with_former: bool = True) -> list[Voters]:
        """Return the lists that may be in force somewhere.

        `with_former`: also the one before the committed list, until that was said again.
        """
        done, first, newest = self._truth.zxid, 0, 0
        kept = [each for each in self._logged if each.zxid > done or self._is_committed(each)]
        for place, each in enumerate(kept[1:], 1):
            if each.zxid <= done:
                # Said again it counts alone; until then the one before may.
                first = place if each.voters == kept[place - 1].voters else place - 1
                newest = place
        self._logged = kept[first:]
        return [each.voters for each in kept[first if with_former else newest :]]

    def possible(self, *more: Reconfig, with_former: bool = True) -> list[Voters] | None:
        """Return these, and all that steps under way may make of them; None for too many."""
        self._asked = [each for each in self._asked if not self._is_done(each)]
        ops = [*(each.op for each in self._asked), *more]
        if len(ops) > ASKED_MAX:
            return None
        found = self.logged(with_former=with_former)
        for order in permutations(ops):
            reached = self.logged(with_former=with_former)
            for op in order:
                reached = [after for voters in reached for after in self._after(voters, op)]
                found += [voters for voters in reached if voters not in found]
        return found

    def _is_done(self, asked: _Asked) -> bool:
        session = self._truth.sessions.get(asked.seen.session_id)
        if session is None:
            return False
        return session.closed_at is not None or session.last_number >= asked.number

    def _after(self, voters: Voters, op: Reconfig) -> list[Voters]:
        joining = ServerId(op.joining)
        gone = (op.leaving, op.joining if op.as_observer else 0)
        after = {server: disk for server, disk in voters.items() if server not in gone}
        if op.as_observer or joining not in self._nodes:
            return [after] if after else []
        return [{**after, joining: disk} for disk in sorted(self._disks_of(joining))]

    def _disks_of(self, joining: ServerId) -> set[DiskId]:
        """Return the disks under which a server may get a vote now.

        A leader that does not know yet that it is gone would take the one before.
        """
        found = {self._nodes[joining].disk.disk}
        for node in self._nodes.values():
            if node.server is not None and (role := node.server.peer.broadcasting) is not None:
                learner = role.learners.get(joining)
                found |= {learner.disk} if learner is not None else set()
        return found

    def _is_committed(self, each: LoggedList) -> bool:
        return not each.zxid or each.zxid in self._truth.lists_at

    def _list_in(self, zxid: Zxid, data: bytes) -> LoggedList | None:
        body = decode_txn(data).body
        before = self._logged[-1].voters
        if isinstance(body, ReconfigTxn):
            return LoggedList(zxid, body.members.voters, body.config is None)
        if isinstance(body, ReplaceVoterTxn):
            is_repeated = before.get(body.server_id) == body.disk
            voters = {**before, body.server_id: body.disk} if body.server_id in before else before
            return LoggedList(zxid, voters, is_repeated)
        return None
