"""What the user gets for each answer of a server."""

from typing import Any

from raykeeper.client.effects import Answer
from raykeeper.znodes.replies import ChildrenRead, DataRead, StatRead, Written


def result_of(answer: Answer) -> Any:
    """The result of the operation: a path, a Stat, a value with its Stat, names, or None."""
    if isinstance(answer, Written):
        # A creation has a path, a set only a Stat, a deletion neither.
        return answer.path or answer.stat
    if isinstance(answer, DataRead):
        return answer.value, answer.stat
    if isinstance(answer, StatRead):
        return answer.stat
    if isinstance(answer, ChildrenRead):
        return answer.children
    return None
