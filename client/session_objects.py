"""Objects that belong to a session of this process: how they show, and that they are not passed on.

A session's state is known in one process only. A copy elsewhere would say for ever what was true
when it was made: that a lock is held, that a member is there. The invariant of this file: such an
object is not pickled; the error says in one sentence what to pass instead, such as the token, with
which the other process asks the ensemble or a guard.

Objects that can be made anew elsewhere are values, and pickle: recipes by their path
(`PortableRecipe` in recipes/recipe.py), tools by their ensemble and path (ray_tools/tool.py).
"""

from typing import Any, ClassVar


class SessionObject:
    """Something that is of use only in this process, while its session lives."""

    _instead: ClassVar[str] = "pass its path on, and make one there"
    """What to do instead of passing it to another process."""

    def _repr_parts(self) -> tuple[str, ...]:
        """Return what `repr` shows beside the class: what it is, or where, and its state."""
        return ()

    def __repr__(self) -> str:
        parts = ", ".join(filter(None, self._repr_parts()))
        return f"<{type(self).__name__}{': ' if parts else ''}{parts}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} belongs to this process: {self._instead}")
