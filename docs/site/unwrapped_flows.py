"""An extension of Griffe: a method of a recipe or client is shown to return its result."""

from typing import Any

from griffe import ExprSubscript, Extension, Function

FLOWS = {"Flow", "Requested", "Turns"}
"""Recipe methods return a Flow or Turns (client/recipes/recipe.py), operations a Requested."""


class UnwrappedFlows(Extension):
    """Replaces the annotation `Flow[T]` of a public function by `T`, and so on."""

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        returned = func.returns
        if isinstance(returned, ExprSubscript) and str(returned.left) in FLOWS:
            func.returns = returned.slice
