"""An argument by an unknown name: the error names the method, and a name that it knows."""

from typing import Any

import pytest

from raykeeper.client.request_builder import RequestBuilder
from raykeeper.client.unexpected_names import suggest_name, suggest_names


@suggest_names
class Methods:
    """Methods of a user's."""

    def method(self, path: str = "", *, timeout_s: float = 0) -> Any:
        raise AssertionError(f"it runs: {path} {timeout_s}")

    def calls(self, argument: Any) -> Any:
        return argument(no_such_name=1)

    def _inside(self, path: str) -> None:
        raise AssertionError(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("timeout", "'timeout': did you mean 'timeout_s'?"),
        ("pth", "'pth': did you mean 'path'?"),
        ("no_such_name", "'no_such_name': it takes path, timeout_s"),
    ],
)
def test_a_known_name_is_suggested(name: str, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        Methods().method(**{name: 1})  # type: ignore[arg-type]
    assert str(raised.value) == f"method() got an unexpected keyword argument {said}"


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(TypeError, match="<lambda>"):
        Methods().calls(lambda: None)
    with pytest.raises(TypeError, match=r"method\(\) got multiple values"):
        Methods().method("/x", path="/x")  # type: ignore[misc]
    with pytest.raises(TypeError, match="unexpected keyword argument 'paht'"):
        Methods()._inside(paht="/x")  # type: ignore[call-arg]


def test_a_method_may_take_the_names_of_several_functions() -> None:
    builder = RequestBuilder(1_000)
    with pytest.raises(TypeError, match=r"^create\(\) .*'makepth': did you mean 'makepath'\?$"):
        try:
            builder.creation("/x", makepth=True)  # type: ignore[call-arg]
        except TypeError as error:
            suggest_name(error, "create", RequestBuilder.creation, lambda self, makepath: None)
            raise
