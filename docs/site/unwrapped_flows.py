"""An extension of Griffe: a method of a recipe is shown to return its result, not the flow."""

from typing import Any

from griffe import ExprSubscript, Extension, Function

FLOWS = {"Flow", "Turns"}
"""The generators that recipe methods are written as; see client/recipes/recipe.py."""


class UnwrappedFlows(Extension):
    """Replaces the annotation `Flow[T]` of a public function by `T`."""

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        returned = func.returns
        if isinstance(returned, ExprSubscript) and str(returned.left) in FLOWS:
            func.returns = returned.slice
