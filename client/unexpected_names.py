"""Arguments by a name that a method does not know: the error names the method, and a name it knows.

Python names the function that got the argument, which may be one inside, such as the builder of a
request; and only from 3.13 on it suggests a name. The methods of `Operations` are plain functions,
so Python names them itself.
"""

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

C = TypeVar("C", bound=type)

_UNEXPECTED: Final = re.compile(r"got an unexpected keyword argument '(\w+)'")


def unexpected_name(method: str, name: str, known: Sequence[str]) -> TypeError:
    """Return the error for a call of `method` with an argument `name`; `known` are its names."""
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean '{close[0]}'?" if close else f"it takes {', '.join(known) or 'none'}"
    return TypeError(f"{method}() got an unexpected keyword argument '{name}': {hint}")


def names_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a method, without `self`."""
    _, *parameters = inspect.signature(function).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in named]


def suggest_name(error: TypeError, method: str, *functions: Callable[..., Any]) -> None:
    """Raise a better error if a call of `method` failed because of a name that it does not know.

    Called where `error` was caught, in the frame that made the call.

    Args:
        error: What the call raised.
        method: The name of the method for users.
        functions: Their parameters, other than `self`, are the arguments of the method.

    Raises:
        TypeError: names the method, and a name that it knows.
    """
    unexpected = _UNEXPECTED.search(str(error))
    frame = error.__traceback__
    if unexpected is None or frame is None or frame.tb_next is not None:
        return  # another error, perhaps of a call inside of the method
    known = [name for function in functions for name in names_of(function)]
    raise unexpected_name(method, unexpected[1], known) from None


def suggest_names(kind: C) -> C:
    """Decorate a class: its public methods suggest a name for one that they do not know."""
    for name, function in list(vars(kind).items()):
        if not name.startswith("_") and inspect.isfunction(function):
            setattr(kind, name, _suggesting(name, function))
    return kind


def _suggesting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError as error:
            suggest_name(error, name, function)
            raise

    return call
