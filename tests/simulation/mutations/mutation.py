"""A deliberate fault in the core, which the simulator must find within a stated number of seeds."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from msgspec import Struct

Change = tuple[Any, str, Callable[[Any], Any]]
"""An owner, the name of its attribute, and a function from the right value to the wrong one."""


class Mutation(Struct, frozen=True):
    """One fault. `within` is how many seeds, from 1 on, the simulator may need to find it."""

    rule: str
    what: str
    changes: list[Change]
    within: int = 50
    recipe: str = ""
    """The recipe whose scenario must find it; "" for the general workload."""

    @property
    def name(self) -> str:
        """The id of its test and its key in `found.json`."""
        return f"{self.rule}: {self.what}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the fault inside this block."""
        with ExitStack() as stack:
            for owner, attribute, make in self.changes:
                stack.enter_context(_swapped(owner, attribute, make))
            yield


def _swapped(
    owner: Any, attribute: str, make: Callable[[Any], Any]
) -> AbstractContextManager[None]:
    @contextmanager
    def swap() -> Iterator[None]:
        right = vars(owner)[attribute]
        setattr(owner, attribute, make(right))
        try:
            yield
        finally:
            setattr(owner, attribute, right)

    return swap()


def instead(wrong: Any) -> Callable[[Any], Any]:
    """Replace the attribute by `wrong`."""
    return lambda _right: wrong
