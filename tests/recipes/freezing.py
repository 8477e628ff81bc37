"""A member that stands still in the middle of an operation: so a test can come in at any point."""

from collections.abc import Callable
from typing import Any

from tests.harness.recipe_stage import Member, Outcome


def freeze_at(member: Member, nth: int) -> None:
    """Have the member stand still when it has sent its `nth` request from now on, once."""
    real, count = member.submit, 0

    def submit(ask: Any, token: Any) -> None:
        nonlocal count
        real(ask, token)
        count += 1
        if count == nth:
            member.submit = real  # type: ignore[method-assign]
            member.freeze()

    member.submit = submit  # type: ignore[method-assign]


def abandoned_at(member: Member, nth: int, operation: Callable[..., Any], *args: Any) -> bool:
    """Begin an operation and give it up at its `nth` request; whether it came so far."""
    freeze_at(member, nth)
    outcome: Outcome = member.begin(operation, *args)
    is_reached = member.submit.__name__ == "submit" and member._is_frozen
    outcome.run.cancel()
    member.__dict__.pop("submit", None)
    member.thaw()
    return is_reached
