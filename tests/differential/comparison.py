"""Compares what two targets tell the sessions of a program, and makes a failing program smaller."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tests.differential.execution import execute
from tests.differential.known_differences import (
    KnownDifference,
    known_difference,
    sets_watches_again,
    without_replayed,
)
from tests.differential.programs import Ask, Program
from tests.differential.targets import PORTED, Target, Version
from tests.differential.transcripts import Line, lines_of

_RUNS_MAX: Final = 400


class Comparison(Struct, frozen=True):
    """The lines of both targets, and the first pair that differs, None if all are equal."""

    program: Program
    left: list[Line]
    right: list[Line]
    difference: tuple[Line | None, Line | None] | None
    known: list[KnownDifference]
    """Why some lines may differ, each time it was used."""

    def report(self) -> str:
        """Return both transcripts, line by line; `!` marks what differs."""
        rows = []
        for left, right in zip_longest(self.left, self.right):
            if left is not None and right is not None and left.text == right.text:
                rows.append(f"  {left.step:3} {left.session} {left.text}")
                continue
            for mark, line in (("<", left), (">", right)):
                if line is not None:
                    rows.append(f"! {line.step:3} {line.session} {mark} {line.text}")
            break
        return "\n".join([f"program {self.program.seed}, < expected, > found", *rows])


def compare(program: Program, expected: Target, found: Target) -> Comparison:
    """Run a program on both targets, up to the first difference."""
    left = lines_of(program, execute(program, expected))
    right = lines_of(program, execute(program, found))
    return compared(program, left, right, expected.version)


def compared(
    program: Program, left: list[Line], right: list[Line], version: Version = PORTED
) -> Comparison:
    """Compare the lines of two runs, up to the first difference; `version` is that of `left`."""
    right, used = without_replayed(left, right)
    setting = sets_watches_again(right)
    for pair in zip_longest(left, right):
        one, other = pair
        if one is None or other is None:
            return Comparison(program, left, right, pair, used)
        if (one.step, one.session, one.text) == (other.step, other.session, other.text):
            continue
        reason = known_difference(one, other, setting, version)
        if reason is None:
            return Comparison(program, left, right, pair, used)
        used.append(reason)
    return Comparison(program, left, right, None, used)


def minimize(comparison: Comparison, expected: Target, found: Callable[[], Target]) -> Comparison:
    """Return the comparison of a smaller program that still has a difference."""
    runs = 0
    smallest = comparison
    size = max(1, len(smallest.program.steps) // 2)
    while size:
        at, is_smaller = 0, False
        while at < len(smallest.program.steps) and runs < _RUNS_MAX:
            steps = smallest.program.steps
            candidate = replace(smallest.program, steps=(*steps[:at], *steps[at + size :]))
            runs += 1
            tried = _tried(candidate, expected, found)
            if tried is None:
                at += size
            else:
                smallest, is_smaller = tried, True
        if not is_smaller:
            size //= 2
    return _with_fewer_requests(smallest, expected, found)


def _with_fewer_requests(
    smallest: Comparison, expected: Target, found: Callable[[], Target]
) -> Comparison:
    at = 0
    while at < len(smallest.program.steps):
        step = smallest.program.steps[at]
        for number in range(len(step.requests) - 1, -1, -1) if isinstance(step, Ask) else ():
            assert isinstance(step, Ask)
            if len(step.requests) == 1:
                break
            kept = _without(step.requests, number)
            steps = (
                *smallest.program.steps[:at],
                replace(step, requests=kept),
                *smallest.program.steps[at + 1 :],
            )
            tried = _tried(replace(smallest.program, steps=steps), expected, found)
            if tried is not None:
                smallest, step = tried, replace(step, requests=kept)
        at += 1
    return smallest


def _without(items: Sequence[Any], number: int) -> tuple[Any, ...]:
    return (*items[:number], *items[number + 1 :])


def _tried(program: Program, expected: Target, found: Callable[[], Target]) -> Comparison | None:
    """Return the comparison if it has a difference; a program that makes no sense has none."""
    try:
        tried = compare(program, expected, found())
    except (KeyError, AssertionError):
        return None
    return tried if tried.difference is not None else None
