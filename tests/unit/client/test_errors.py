"""Errors: every error that a user may want to catch has a public name."""

from raykeeper.client import errors
from raykeeper.znodes.errors import Code, KeeperError


def test_every_error_of_a_request_is_exported() -> None:
    for kind in (KeeperError, *KeeperError.__subclasses__()):
        assert getattr(errors, kind.__name__) is kind
        assert kind.__name__ in errors.__all__


def test_other_errors_have_no_code() -> None:
    for kind in (errors.EnsembleNotFoundError, errors.WrongContextError):
        assert issubclass(kind, errors.RayKeeperError)
        assert not issubclass(kind, KeeperError)


def test_each_code_has_its_error() -> None:
    error = errors.error_for(Code.NO_NODE, "/a")
    assert isinstance(error, errors.NoNodeError)
    assert (error.code, error.path, error.definite) == (Code.NO_NODE, "/a", True)
