"""Check linearizability: does one order of the operations explain every answer?

The order must respect real time (an operation that returned before another was called comes
first) and the order of each session, except for delayed reads. An operation with an unknown
outcome may take effect at any time after its call, or never.

This is Wing and Gong's search with Lowe's memory (Testing for linearizability, 2017), just in
time: it walks through time once with the set of all possible configurations. A configuration is a
state of the znode and, for each session, how many of its steps were taken. A step that changes the
znode is taken only when an answer demands it; a step that only reads is taken as soon as it fits,
which never rules out another order. Of two configurations in the same state, the one that has used
more of the optional steps is dropped.

Herlihy and Wing: linearizability is local, so each znode is judged alone (`znode_steps`).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from operator import attrgetter, le
from typing import Final

from msgspec import Struct

from raykeeper.chaos.checks.history import History
from raykeeper.chaos.checks.znode_steps import (
    Impossible,
    Step,
    Steps,
    Znode,
    initial_znodes,
    steps_by_znode,
)

CONFIGURATIONS_MAX: Final = 200_000
"""Configurations explored for one znode before it is given up as undecided."""
SHOWN_MAX: Final = 12
"""How many steps of each kind a counterexample shows."""


class Violation(Struct, frozen=True):
    """No order explains the answers about `path`. `text` shows the step that fits nowhere."""

    path: str
    text: str


class LinearizabilityReport(Struct):
    """The result of checking one history."""

    znodes: int = 0
    steps: int = 0
    configurations: int = 0
    undecided: list[str] = []
    """Znodes whose search took too long."""
    violations: list[Violation] = []


def check_linearizability(
    history: History,
    initial: Mapping[str, Znode] | None = None,
    configurations_max: int = CONFIGURATIONS_MAX,
    *,
    reads_in_order: bool = False,
) -> LinearizabilityReport:
    """Check every znode of a history.

    A report without violations says nothing about the znodes that are `undecided`.

    Args:
        history: The requests and answers of all clients.
        initial: The znodes before the first operation.
        configurations_max: When to give up a znode as undecided.
        reads_in_order: No read was delayed by a lost connection or an election. Otherwise a read
            that was unanswered when its client sent the next request may show later writes.
    """
    verdict = LinearizabilityReport()
    before = initial_znodes(initial or {})
    for path, steps in sorted(steps_by_znode(history, reads_in_order=reads_in_order).items()):
        search = Search(steps, before.get(path), configurations_max)
        verdict.znodes += 1
        verdict.steps += sum(map(len, steps.values()))
        try:
            text = search.run()
        except TooManyConfigurations:
            verdict.undecided.append(path)
        else:
            if text is not None:
                verdict.violations.append(Violation(path, f"{path}: {text}"))
        verdict.configurations += search.explored
    return verdict


class TooManyConfigurations(Exception):
    """Raised when the search of a znode exceeds its bound."""


class _SessionSteps(Struct):
    """The steps of one session on this znode, and how many of them were called so far."""

    steps: list[Step]
    required: list[int]
    """For each index, how many steps before it are required."""
    called: int = 0
    is_ending: bool = False
    """Whether the last step, the end of the session, may be taken."""


Configuration = tuple[Znode | None, tuple[int, ...]]
"""The znode, and for each session the index of its next step."""


class Search:
    """The search for an order of the operations on one znode."""

    def __init__(self, steps: Steps, initial: Znode | None, configurations_max: int) -> None:
        self.explored = 0
        self._max = configurations_max
        self._sessions = [_SessionSteps(mine, _required_before(mine)) for mine in steps.values()]
        self._has_choice = any(not step.is_required for mine in steps.values() for step in mine)
        self._initial = initial
        self._active: list[int] = []  # sessions with steps that were called and are not settled
        self._unsettled = [0] * len(self._sessions)

    def run(self) -> str | None:
        """Return None when an order exists, else explain the first step that fits nowhere.

        Raises:
            TooManyConfigurations: the search exceeds its bound.
        """
        configurations: set[Configuration] = {(self._initial, (0,) * len(self._sessions))}
        for _, is_return, place, index in self._moments():
            if not is_return:
                configurations = self._called(configurations, place, index)
                continue
            before, configurations = configurations, self._returned(configurations, place, index)
            if not configurations:
                return self._explain(before, self._sessions[place].steps[index])
            self._unsettled[place] -= 1
            if not self._unsettled[place]:
                self._active.remove(place)
        return None

    def _moments(self) -> list[tuple[int, bool, int, int]]:
        """Return calls and returns by time. At the same time calls come first: they overlap."""
        return sorted(
            moment
            for place, session in enumerate(self._sessions)
            for index, step in enumerate(session.steps)
            for moment in (
                (step.called, False, place, index),
                *(((step.returned, True, place, index),) if step.returned is not None else ()),
            )
        )

    def _called(
        self, configurations: set[Configuration], place: int, index: int
    ) -> set[Configuration]:
        session = self._sessions[place]
        step = session.steps[index]
        if index == len(session.steps) - 1 and index != session.called:
            session.is_ending = True  # before later calls of a client that does not know it yet
        else:
            assert index == session.called, (index, session.called)
            session.called += 1
            if session.called == len(session.steps):
                session.is_ending = True
        if not self._unsettled[place]:
            self._active.append(place)
        self._unsettled[place] += 1
        if step.rule.is_change:
            return configurations
        return {self._explore(configuration) for configuration in configurations}

    def _returned(
        self, configurations: set[Configuration], place: int, index: int
    ) -> set[Configuration]:
        """The configurations in which the step is taken, or need not be."""
        step = self._sessions[place].steps[index]
        done = {each for each in configurations if each[1][place] > index}
        todo = [each for each in configurations if each[1][place] <= index]
        if not todo:
            return done
        if not step.is_required:
            done.update(self._explore(_at(znode, next_, place, index)) for znode, next_ in todo)
        known = _Visited(self._sessions, has_choice=self._has_choice)
        queue = deque(configuration for configuration in todo if known.adds(configuration))
        while queue:
            for follower in self._followers(queue.popleft()):
                if known.adds(follower):
                    if follower[1][place] > index:
                        done.add(follower)
                    else:
                        queue.append(follower)
            self.explored += 1
            if self.explored > self._max:
                raise TooManyConfigurations
        if self._has_choice and len(done) > 1:
            known = _Visited(self._sessions, has_choice=True)
            fewest = sorted(done, key=lambda configuration: sum(configuration[1]))
            done = {configuration for configuration in fewest if known.adds(configuration)}
        return done

    def _followers(self, configuration: Configuration) -> Iterable[Configuration]:
        """Yield the configurations that one more changing step leads to."""
        znode, next_ = configuration
        for place in self._active:
            session = self._sessions[place]
            steps = session.steps
            first = next_[place]
            index = first
            while index < session.called:
                step = steps[index]
                if step.rule.is_change or index > first:
                    after = step.rule.apply(znode)
                    if not isinstance(after, Impossible):
                        yield self._explore(_at(after, next_, place, index))
                if step.is_required:
                    break
                index += 1
            else:
                last = len(steps) - 1
                # The end may come before calls of a client that does not know of it yet.
                if (
                    session.is_ending
                    and first <= last
                    and session.called <= last
                    and session.required[last] == session.required[first]
                ):
                    after = steps[last].rule.apply(znode)
                    assert not isinstance(after, Impossible), steps[last]
                    yield self._explore(_at(after, next_, place, last))

    def _explore(self, configuration: Configuration) -> Configuration:
        """Take all reading steps that fit."""
        znode, next_ = configuration
        for place in self._active:
            session = self._sessions[place]
            index = next_[place]
            while index < session.called:
                rule = session.steps[index].rule
                if rule.is_change or isinstance(rule.apply(znode), Impossible):
                    break
                index += 1
            if index != next_[place]:
                next_ = (*next_[:place], index, *next_[place + 1 :])
        return znode, next_

    def _explain(self, before: set[Configuration], step: Step) -> str:
        """Describe the step that fits nowhere, and the possible states before it."""
        moment = step.returned
        assert moment is not None
        every = [s for session in self._sessions for s in session.steps]
        past = sorted(
            (s for s in every if s.returned is not None and s.returned < step.called),
            key=attrgetter("returned"),
        )
        beside = [
            s
            for s in every
            if s is not step
            and s.called <= moment
            and (s.returned is None or s.returned >= step.called)
        ]
        states = sorted({_show(znode) for znode, _ in before})
        lines = [f"no order explains {step}", "before it the znode could be:"]
        lines += [f"    {state}" for state in states[:SHOWN_MAX]]
        for title, steps in (("it overlaps:", beside), ("last before it:", past[-SHOWN_MAX:])):
            lines.append(title)
            lines += [f"    {other}" for other in steps[-SHOWN_MAX:]]
        return "\n".join(lines)


class _Visited:
    """The configurations met so far, without those that another makes superfluous.

    That one has the same state and the same required steps behind it, and more steps to choose.
    """

    def __init__(self, sessions: list[_SessionSteps], *, has_choice: bool) -> None:
        self._sessions = sessions
        self._has_choice = has_choice
        self._all: set[Configuration] = set()
        self._fewest: dict[Configuration, list[tuple[int, ...]]] = {}

    def adds(self, configuration: Configuration) -> bool:
        """Whether it leads anywhere that those before it do not."""
        if configuration in self._all:
            return False
        self._all.add(configuration)
        if not self._has_choice:
            return True
        znode, next_ = configuration
        required = tuple([s.required[n] for s, n in zip(self._sessions, next_, strict=True)])
        group = self._fewest.setdefault((znode, required), [])
        if any(all(map(le, fewer, next_)) for fewer in group):
            return False
        group.append(next_)
        return True


def _at(znode: Znode | None, next_: tuple[int, ...], place: int, index: int) -> Configuration:
    """The configuration after step `index` of a session."""
    return znode, (*next_[:place], index + 1, *next_[place + 1 :])


def _required_before(steps: list[Step]) -> list[int]:
    counts = [0]
    for step in steps:
        counts.append(counts[-1] + step.is_required)
    return counts


def _show(znode: Znode | None) -> str:
    if znode is None:
        return "missing"
    owned = "" if znode.owner is None else f", ephemeral of session {znode.owner}"
    return f"{znode.value!r} at version {znode.version}{owned}"
