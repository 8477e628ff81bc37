"""Giving up an operation at each point of its course, and what may be left behind: nothing."""

from collections.abc import Callable
from typing import Any

from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.recipes.primitives import get_children, get_or_none
from tests.harness.recipe_stage import Member, Outcome


def abandoned_at(member: Member, answers: int, operation: Callable[..., Any]) -> Outcome:
    """Begin an operation and give it up right before it is told its answer of that number.

    With 0 it is given up when its first requests have left.
    """
    outcome = Outcome()
    told = 0
    submit = member.submit

    class Told:
        """A token that counts."""

        def __init__(self, token: Any) -> None:
            self._token = token

        def complete(self, answer: Any) -> None:
            self._count()
            self._token.complete(answer)

        def fail(self, error: Any) -> None:
            self._count()
            self._token.fail(error)

        def _count(self) -> None:
            nonlocal told
            told += 1
            if told == answers:
                outcome.run.cancel()

    def counted(ask: NewRequest, token: Any) -> None:
        submit(ask, Told(token))

    member.submit = counted  # type: ignore[method-assign]
    run_flow = member._run_flow

    def started(flow: Any, name: str) -> Any:
        outcome.run = member.flows.start(flow, outcome)
        if not answers:
            outcome.run.cancel()
        member.stage.rest()

    member._run_flow = started  # type: ignore[method-assign]
    try:
        operation()
    finally:
        member.submit = submit  # type: ignore[method-assign]
        member._run_flow = run_flow  # type: ignore[method-assign]
    return outcome


def places(member: Member, path: str = "/locks") -> list[str]:
    """The paths below `path` that stand for somebody, containers left out."""
    found = []
    for name in member.do(get_children(path)):
        below = f"{path}/{name}"
        inside = places(member, below)
        value, stat = member.do(get_or_none(below)) or (b"", None)
        is_held = stat is not None and (stat.ephemeral_owner or value.startswith(b"held"))
        found += inside or ([below] if is_held else [])
    return found


def watches(member: Member) -> int:
    """How many watches it has set and not been told of."""
    watchers = member.core._watches.tables
    tables = (watchers._data, watchers._exist, watchers._child)
    return sum(len(each) for table in tables for each in table.values())
