"""Errors: a code finds its class, and a pickle keeps everything."""

import pickle

import pytest

from raykeeper.znodes.errors import BadVersionError, Code, KeeperError, NoNodeError, error_for


def test_a_known_code_has_its_class() -> None:
    error = error_for(Code.NO_NODE, "/a")
    assert type(error) is NoNodeError
    assert (error.code, error.path, error.definite) == (Code.NO_NODE, "/a", True)
    assert str(error) == "/a: no such znode"


def test_a_known_code_may_have_a_detail() -> None:
    error = error_for(Code.NO_NODE, "/a", "as seen here")
    assert (type(error), str(error)) == (NoNodeError, "/a: no such znode (as seen here)")


def test_an_unknown_code_is_named() -> None:
    error = error_for(-999, "/a", definite=False)
    assert type(error) is KeeperError
    assert "code -999" in str(error)
    assert "may or may not" in str(error)


def test_a_text_with_any_path_can_be_printed() -> None:
    error = BadVersionError("/a\n\ud800")
    assert str(error) == r"/a\n\ud800: the znode has another version"
    assert error.path == "/a\n\ud800"


@pytest.mark.parametrize(
    "error", [BadVersionError("/a", "is 3"), KeeperError(), NoNodeError("/a", definite=False)]
)
def test_an_error_survives_a_pickle(error: KeeperError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert (again.path, again.detail, again.definite) == (error.path, error.detail, error.definite)


def test_the_error_of_a_transaction_keeps_the_outcome_of_each_operation() -> None:
    error = NoNodeError("/a")
    assert (error.results, error.failed) == (None, -1)
    error.results, error.failed = [None, error_for(Code.NO_NODE, "/a")], 1
    again = pickle.loads(pickle.dumps(error))
    assert again.failed == 1
    assert [each and type(each) for each in again.results] == [None, NoNodeError]
