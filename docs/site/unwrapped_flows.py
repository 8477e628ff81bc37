"""An extension of Griffe: a method of a recipe, client or tool is shown to return its result."""

from typing import Any

from griffe import Attribute, Docstring, ExprCall, ExprSubscript, ExprTuple, Extension, Function

FLOWS = {"Flow", "Requested"}
"""Recipe methods return a Flow (client/recipes/recipe.py), operations a Requested."""


class UnwrappedFlows(Extension):
    """Replaces the annotation `Flow[T]` of a public function by `T`, and so on."""

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        returned = func.returns
        if isinstance(returned, ExprSubscript) and str(returned.left) in FLOWS:
            func.returns = returned.slice
        # An operation of a tool (client/ray_tools/tool.py) is called without the client.
        if isinstance(returned, ExprSubscript) and str(returned.left) == "ToolFlow":
            assert isinstance(returned.slice, ExprTuple)
            func.returns = returned.slice.elements[0]
            del func.parameters["client"]

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Describe the methods `…_async` of a `Client`, which are made of its operations."""
        value = attr.value
        if isinstance(value, ExprCall) and str(value.function) == "WithoutWaiting":
            text = f"`{attr.name.removesuffix('_async')}` without waiting: returns a future."
            attr.docstring = Docstring(text, parent=attr)
