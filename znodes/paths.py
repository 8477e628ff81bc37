"""Path rules of the tree, the same for the client library and for the server.

A path starts with "/", has no empty component, none that is "." or "..", and none of the
characters ZooKeeper forbids. There they are UTF-16 units, surrogates among them, so every character
beyond the Basic Multilingual Plane is out too.

ZooKeeper: `PathUtils.validatePath`.
"""

import re
from typing import Final

from raykeeper.znodes.errors import BadArgumentsError, Code
from raykeeper.znodes.limits import PATH_CHARS_MAX

SEQUENCE_DIGITS: Final = 10
CONFIG_PATH: Final = "/zookeeper/config"
MEMBER_PLAN_PATH: Final = "/zookeeper/members/plan"
"""Where a change of the members keeps its plan, from before its first act to after its last."""
QUOTA_PATH: Final = "/zookeeper/quota"
SYSTEM_PATHS: Final = ("/", "/zookeeper", QUOTA_PATH, CONFIG_PATH)

_ANY_SEQUENCE: Final = "0" * SEQUENCE_DIGITS
_forbidden = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"
).search


def check_path(path: str, *, sequential: bool = False) -> None:
    """Accept a well-formed path; for a sequential creation, the prefix of one.

    Raises:
        BadArgumentsError: the path breaks a rule; the error says which, and where.
    """
    fault = path_fault(path, sequential=sequential)
    if fault is not None:
        raise BadArgumentsError(path if len(path) <= PATH_CHARS_MAX else path[:64] + "…", fault)


def path_fault(path: str, *, sequential: bool = False) -> str | None:
    """Return the rule that `path` breaks, None when it is well-formed."""
    if sequential:
        path += _ANY_SEQUENCE
    if (
        path[:1] == "/"
        and "//" not in path
        and "/." not in path
        and path[-1] != "/"
        and path.isascii()
        and path.isprintable()
        and len(path) <= PATH_CHARS_MAX
    ):
        return None
    return _explain(path)


def is_valid_name(name: str) -> bool:
    """Return whether `name`, which holds no "/", may be the last component of a path."""
    if name.isascii() and name.isprintable():
        return name not in ("", ".", "..")
    return _forbidden(name) is None


def parent_of(path: str) -> str:
    """Return the path of the parent of a well-formed path; "/" is its own."""
    return path[: path.rfind("/")] or "/"


def join(parent: str, name: str) -> str:
    """Return the path of the child `name` of `parent`."""
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


def _explain(path: str) -> str | None:
    """Find the exact fault of a path, or None after all: the slow half of `path_fault`."""
    if not path:
        return "a path cannot be empty"
    if path[0] != "/":
        return 'a path must start with "/"'
    if len(path) > PATH_CHARS_MAX:
        return f"{len(path)} characters, at most {PATH_CHARS_MAX} are allowed"
    if path == "/":
        return None
    if path[-1] == "/":
        return 'a path must not end with "/"'
    found = _forbidden(path)
    if found is not None:
        return f"forbidden character U+{ord(found[0]):04X} at {found.start()}"
    at = 1
    for name in path[1:].split("/"):
        if not name:
            return f"empty component at {at}"
        if name in (".", ".."):
            return f'component "{name}" at {at}: a path must be absolute'
        at += len(name) + 1
    return None


def name_start(path: str) -> int:
    """Return where the names of its children start in their paths."""
    return 1 if path == "/" else len(path) + 1


def missing_code(path: str) -> Code:
    """Return why `path` has no znode. Checked only now: a malformed path never has one."""
    return Code.NO_NODE if path_fault(path) is None else Code.BAD_ARGUMENTS
