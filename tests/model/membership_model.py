"""Zab with a member list that changes, as a small state space: searched as a whole, or at random.

A *seat* is a server on a disk; a member list is a set of seats, here a bit mask. Each action is
atomic and the worst that its messages can do: a promise or an ack is counted at once, or never. The
check is that of Zab: what one leader committed continues all that was committed before.

`Rules` are the rules of docs/MEMBERS.md; with one of them left out a loss must be found.
"""

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

Seats = int
Version = tuple[int, int]
"""Of a list: the epoch and the place of the transaction that made it."""
T = TypeVar("T")

FOUNDED: Version = (0, -1)


class Rules(Struct, frozen=True):
    """Which lists a leader counts by."""

    old_counts_until_delivered: bool = True
    new_counts_once_logged: bool = True
    uses_heard_lists: bool = True
    """Whether a list that another server has delivered counts in place of an older one."""
    hears_only_while_looking: bool = True
    """Whether a leader ignores lists that it hears of after its election."""
    minds_seats_of_one_list: bool = True
    """Whether a seat that only one of two lists has tells nothing if its history is better."""
    compares_logs: bool = True
    """Whether a seat of one list counts as no better if its log ends where ours does, or if it
    joins by a step that its log does not reach."""
    one_seat: bool = True
    one_change_open: bool = True
    proposes_behind_steps: bool = True
    """Whether a leader proposes more before a step is delivered. The server does not, so that a
    majority goes on (`can_go_on`); nothing is lost by it."""


class Entry(Struct, frozen=True):
    """A transaction: its epoch, what was known as committed when it was proposed, and a list."""

    epoch: int
    known: int
    members: Seats | None = None


class Disk(Struct, frozen=True):
    """What is on one disk, how far its process knows the log as committed, what it has heard."""

    accepted: int = 0
    current: int = 0
    log: tuple[Entry, ...] = ()
    known: int = 0
    heard: tuple[Version, Seats] | None = None

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.current, self.log[-1].epoch if self.log else 0, len(self.log)


class Leader(Struct, frozen=True):
    """The leader of an epoch: its seat, the length of its first log, what each seat has acked."""

    epoch: int
    seat: int
    initial: int
    committed: int
    acked: tuple[int, ...]


class State(Struct, frozen=True):
    disks: tuple[Disk, ...]
    leaders: tuple[Leader, ...] = ()
    committed: tuple[Entry, ...] = ()


class Bounds(Struct, frozen=True):
    """How far the search goes: seats, epochs, transactions in a log."""

    seats: int
    founders: Seats
    epochs: int
    entries: int


class LostError(AssertionError):
    """Raised when two leaders committed logs of which neither continues the other."""


def is_majority(members: Seats, seats: Seats) -> bool:
    return 2 * (members & seats).bit_count() > members.bit_count()


def steps_from(members: Seats, every: Seats, *, one_seat: bool = True) -> list[Seats]:
    """Return the lists that one step makes of this one: a seat added, removed or swapped."""
    return [
        each
        for each in range(1, every + 1)
        if each & ~every == 0
        and each != members
        and (not one_seat or max((each & ~members).bit_count(), (members & ~each).bit_count()) == 1)
    ]


class Model:
    """The actions of all servers within the bounds, under some rules."""

    def __init__(self, bounds: Bounds, rules: Rules | None = None) -> None:
        self.bounds = bounds
        self.rules = rules or Rules()
        self._seats = range(bounds.seats)

    def search(self) -> int:
        """Visit every state; return their number.

        Raises:
            LostError: a committed transaction was lost.
        """
        first = State((Disk(),) * self.bounds.seats)
        seen, todo = {first}, [first]
        while todo:
            state = todo.pop()
            for kind in self.actions:
                for after in kind(self, state):
                    if after not in seen:
                        seen.add(after)
                        todo.append(after)
        return len(seen)

    def walk(self, random: Random, steps: int) -> State:
        """Take random actions; elections are rare, so that leaders get something done.

        Raises:
            LostError: a committed transaction was lost.
        """
        state = State((Disk(),) * self.bounds.seats)
        for _ in range(steps):
            (kind,) = random.choices(self.actions, self.weights)
            choices = list(kind(self, state))
            if choices:
                state = random.choice(choices)
        return state

    # Which lists count.

    def lists(self, disk: Disk) -> tuple[Seats, ...]:
        """Return the lists of which a leader on this disk needs majorities."""
        rules = self.rules
        version, delivered = self.delivered(disk)
        if rules.uses_heard_lists and disk.heard is not None and disk.heard[0] > version:
            version, delivered = disk.heard
        logged = [
            entry.members
            for place, entry in enumerate(disk.log)
            if place >= disk.known and entry.members and (entry.epoch, place) > version
        ]
        if not logged or not rules.new_counts_once_logged:
            return (delivered,)
        return (delivered, logged[-1]) if rules.old_counts_until_delivered else (logged[-1],)

    def delivered(self, disk: Disk) -> tuple[Version, Seats]:
        """Return the newest list of which this disk knows that it is committed."""
        for place in range(disk.known - 1, -1, -1):
            entry = disk.log[place]
            if entry.members:
                return (entry.epoch, place), entry.members
        return FOUNDED, self.bounds.founders

    def is_quorum(self, disk: Disk, seats: Seats) -> bool:
        return all(is_majority(members, seats) for members in self.lists(disk))

    # Actions.

    def elect(self, state: State) -> Iterator[State]:
        """A quorum promises the next epoch to one of its servers, which sees no better one."""
        epoch = len(state.leaders) + 1
        if epoch > self.bounds.epochs:
            return
        for size in range(1, self.bounds.seats + 1):
            for seats in combinations(self._seats, size):
                for seat in seats:
                    yield from self._elected(state, epoch, seat, seats)

    def _elected(
        self, state: State, epoch: int, leader: int, seats: tuple[int, ...]
    ) -> Iterator[State]:
        disk = state.disks[leader]
        better = [each for each in seats if state.disks[each].rank > disk.rank]
        known = max(_known_in(disk, state.disks[each]) for each in seats)
        disk = replace(disk, accepted=epoch, current=epoch, known=known)
        if any(all(members >> each & 1 for members in self.lists(disk)) for each in better):
            return  # it steps down
        if self.rules.compares_logs:
            better = [each for each in better if self._may_have_more(disk, state, each)]
        counted, ahead = (sum(1 << each for each in some) for some in (seats, better))
        if not self._may_lead(disk, counted, ahead):
            return
        others = [each for each in seats if each != leader]
        if any(self._may_lead(disk, counted & ~(1 << each), ahead) for each in others):
            return  # those who are not needed may promise later
        disks = list(state.disks)
        for each in others:
            disks[each] = replace(disks[each], accepted=epoch)
        disks[leader] = disk
        acked = tuple(len(disk.log) if each == leader else -1 for each in self._seats)
        new = Leader(epoch, leader, len(disk.log), -1, acked)
        yield replace(state, disks=tuple(disks), leaders=(*state.leaders, new))

    def _may_lead(self, disk: Disk, counted: Seats, ahead: Seats) -> bool:
        """Return whether a quorum promises, and each majority has one that has no more than this.

        Those `ahead`, which not every list has, promise and tell nothing.
        """
        told = counted & ~ahead if self.rules.minds_seats_of_one_list else counted
        meets = all(
            (members & told).bit_count() > (members.bit_count() - 1) // 2
            for members in self.lists(disk)
        )
        return self.is_quorum(disk, counted) and meets

    def _may_have_more(self, disk: Disk, state: State, seat: int) -> bool:
        """Return whether a seat may have acknowledged what this log lacks, as one of a list."""
        other = state.disks[seat].log
        if other == disk.log:
            return False
        version, delivered = max(self.delivered(disk), disk.heard or (FOUNDED, 0))
        joins = [
            (entry.epoch, place)
            for place, entry in enumerate(disk.log)
            if entry.members and entry.members >> seat & 1 and (entry.epoch, place) > version
        ]
        last = (other[-1].epoch, len(other) - 1) if other else FOUNDED
        return bool(delivered >> seat & 1) or not joins or last >= joins[0]

    def commit(self, state: State) -> Iterator[State]:
        """A leader commits what a quorum has acknowledged, first of all its initial history."""
        for place, leader, disk in self._leading(state):
            for upto in range(len(disk.log), max(leader.committed, leader.initial - 1), -1):
                acked = sum(1 << seat for seat in self._seats if leader.acked[seat] >= upto)
                if not self.is_quorum(disk, acked):
                    continue
                log, other = disk.log[:upto], state.committed
                if log[: len(other)] != other[: len(log)]:
                    raise LostError(f"{log} and {other} are committed")
                yield State(
                    _with(state.disks, leader.seat, replace(disk, known=max(upto, disk.known))),
                    _with(state.leaders, place, replace(leader, committed=upto)),
                    max(log, other, key=len),
                )
                break

    def propose(self, state: State) -> Iterator[State]:
        """An established leader proposes a transaction, or one step of the member list."""
        every = (1 << self.bounds.seats) - 1
        for place, leader, disk in self._leading(state):
            if leader.committed < 0 or len(disk.log) == self.bounds.entries:
                continue
            bodies: list[Seats | None] = [None]
            logged = [entry.members for entry in disk.log[disk.known :] if entry.members]
            if logged and not self.rules.proposes_behind_steps:
                continue
            if not logged or not self.rules.one_change_open:
                newest = logged[-1] if logged else self.delivered(disk)[1]
                lists = steps_from(newest, every, one_seat=self.rules.one_seat)
                bodies += [members for members in lists if members >> leader.seat & 1]
            for members in bodies:
                log = (*disk.log, Entry(leader.epoch, disk.known, members))
                acked = _with(leader.acked, leader.seat, len(log))
                yield replace(
                    state,
                    disks=_with(state.disks, leader.seat, replace(disk, log=log)),
                    leaders=_with(state.leaders, place, replace(leader, acked=acked)),
                )

    def send(self, state: State) -> Iterator[State]:
        """A leader synchronizes a seat, sends it a transaction, or tells it what is committed."""
        for place, leader, source in self._leading(state):
            for seat, disk in enumerate(state.disks):
                if seat == leader.seat or disk.accepted > leader.epoch:
                    continue
                after = _next_of(disk, source, leader)
                if after is not None:
                    acked = _with(leader.acked, seat, len(after.log))
                    yield replace(
                        state,
                        disks=_with(state.disks, seat, after),
                        leaders=_with(state.leaders, place, replace(leader, acked=acked)),
                    )

    def can_go_on(self, state: State, alive: Seats) -> bool:
        """Return whether one of the seats `alive` can lead with promises of others of them.

        They have told each other what was delivered. A server is elected by the newest such list,
        so it is one of that; what its own log has beyond it is for discovery to count.
        """
        some = [seat for seat in self._seats if alive >> seat & 1]
        disks = list(state.disks)
        told = [(self.delivered(disks[seat]), disks[seat].heard or (FOUNDED, 0)) for seat in some]
        newest = max(each for pair in told for each in pair)
        for seat in some:
            disks[seat] = replace(disks[seat], heard=newest)
        heard = replace(state, disks=tuple(disks))
        electors = newest[1] or self.bounds.founders
        epoch = len(state.leaders) + 1
        groups = [each for size in range(1, len(some) + 1) for each in combinations(some, size)]
        return any(
            True
            for seats in groups
            for seat in seats
            if electors >> seat & 1
            for _ in self._elected(heard, epoch, seat, seats)
        )

    def restart(self, state: State) -> Iterator[State]:
        """A process forgets what its log does not say; it leads no more."""
        for seat, disk in enumerate(state.disks):
            known = max((entry.known for entry in disk.log), default=0)
            # A leader that starts again promises at least the epoch after its own.
            is_leading = any(x.seat == seat and x.epoch == disk.accepted for x in state.leaders)
            if not is_leading and (known, None) != (disk.known, disk.heard):
                after = replace(disk, known=known, heard=None)
                yield replace(state, disks=_with(state.disks, seat, after))

    def hear(self, state: State) -> Iterator[State]:
        """A server hears of a newer list that another has delivered."""
        for seat, disk in enumerate(state.disks):
            is_leading = any(x.seat == seat and x.epoch == disk.accepted for x in state.leaders)
            if is_leading and self.rules.hears_only_while_looking:
                continue
            newest = max(self.delivered(disk), disk.heard or (FOUNDED, 0))
            for other in state.disks:
                told = self.delivered(other)
                if told[0] > newest[0]:
                    yield replace(state, disks=_with(state.disks, seat, replace(disk, heard=told)))

    actions = (elect, commit, propose, send, restart, hear)
    weights = (1, 6, 3, 12, 1, 1)

    def _leading(self, state: State) -> Iterator[tuple[int, Leader, Disk]]:
        for place, leader in enumerate(state.leaders):
            disk = state.disks[leader.seat]
            if disk.accepted == leader.epoch:
                yield place, leader, disk


def _known_in(disk: Disk, other: Disk) -> int:
    """Return how much of the log of `disk` the other one knows to be committed."""
    known = other.known
    return known if disk.log[:known] == other.log[:known] else 0


def _next_of(disk: Disk, source: Disk, leader: Leader) -> Disk | None:
    if disk.current < leader.epoch:
        epoch, known = leader.epoch, max((entry.known for entry in source.log), default=0)
        return Disk(epoch, epoch, source.log, known, disk.heard)
    if len(disk.log) < len(source.log):
        entry = source.log[len(disk.log)]
        return replace(disk, log=(*disk.log, entry), known=max(disk.known, entry.known))
    if disk.known < leader.committed:
        return replace(disk, known=leader.committed)
    return None


def _with(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])
