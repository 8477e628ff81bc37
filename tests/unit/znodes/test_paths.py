"""Path rules: what is accepted, and the exact reason of each refusal."""

import pytest

from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.limits import PATH_CHARS_MAX
from raykeeper.znodes.paths import check_path, is_valid_name, join, parent_of, path_fault


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a",
        "/a/b/c",
        "/zookeeper/quota",
        "/a b",
        # Dots are only special alone.
        "/...",
        "/.a/a./.a.",
        "/a/..b",
        # Neighbours of the forbidden ranges.
        "/\u0020~",
        "/\u00a0",
        "/\ud7ff",
        "/\uf900",
        "/\uffef",
        "/наука/καφές/名前",
        "/" + "x" * (PATH_CHARS_MAX - 1),
    ],
)
def test_valid_paths_are_accepted(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "a path cannot be empty"),
        ("a", 'a path must start with "/"'),
        ("a/b", 'a path must start with "/"'),
        ("/a/", 'a path must not end with "/"'),
        ("//", 'a path must not end with "/"'),
        ("//a", "empty component at 1"),
        ("/a//b", "empty component at 3"),
        ("/.", 'component "." at 1: a path must be absolute'),
        ("/a/.", 'component "." at 3: a path must be absolute'),
        ("/a/./b", 'component "." at 3: a path must be absolute'),
        ("/a/../b", 'component ".." at 3: a path must be absolute'),
        ("/..", 'component ".." at 1: a path must be absolute'),
        # Both ends of each forbidden range.
        ("/a\0", "forbidden character U+0000 at 2"),
        ("/\x01", "forbidden character U+0001 at 1"),
        ("/\x1f", "forbidden character U+001F at 1"),
        ("/\x7f", "forbidden character U+007F at 1"),
        ("/\x9f", "forbidden character U+009F at 1"),
        ("/\ud800", "forbidden character U+D800 at 1"),
        ("/\uf8ff", "forbidden character U+F8FF at 1"),
        ("/\ufff0", "forbidden character U+FFF0 at 1"),
        ("/\uffff", "forbidden character U+FFFF at 1"),
        # A surrogate pair in UTF-16.
        ("/a\U0001f600", "forbidden character U+1F600 at 2"),
        ("/" + "x" * PATH_CHARS_MAX, f"{PATH_CHARS_MAX + 1} characters, at most"),
        ("/é" + "x" * PATH_CHARS_MAX, f"{PATH_CHARS_MAX + 2} characters, at most"),
    ],
)
def test_invalid_paths_are_refused(path: str, reason: str) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        check_path(path)
    assert reason in caught.value.detail
    assert path.startswith(caught.value.path.rstrip("…"))
    assert len(caught.value.path) <= PATH_CHARS_MAX


@pytest.mark.parametrize(
    ("prefix", "accepted"),
    [
        # The number makes a name of its own, or completes one.
        ("/", True),
        ("/a/", True),
        ("/a/.", True),
        ("/a/lock-", True),
        ("", False),
        ("a", False),
        ("/a//", False),
        ("/a/./", False),
        ("/" + "x" * (PATH_CHARS_MAX - 11), True),
        ("/" + "x" * (PATH_CHARS_MAX - 10), False),
    ],
)
def test_the_prefix_of_a_sequential_znode_is_checked(prefix: str, accepted: bool) -> None:
    assert (path_fault(prefix, sequential=True) is None) == accepted


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("a", True), ("a b", True), ("...", True), ("名前", True),
        ("", False), (".", False), ("..", False), ("\n", False), ("\U0001f600", False),
        ("é\0", False),
    ],
)  # fmt: skip
def test_names_are_split_from_paths(name: str, accepted: bool) -> None:
    assert is_valid_name(name) == accepted


@pytest.mark.parametrize(
    ("path", "parent", "name"),
    [("/a", "/", "a"), ("/a/b", "/a", "b"), ("/a/b/c", "/a/b", "c")],
)
def test_parent_and_join_are_inverse(path: str, parent: str, name: str) -> None:
    assert parent_of(path) == parent
    assert join(parent, name) == path


def test_the_root_is_its_own_parent() -> None:
    assert parent_of("/") == "/"
