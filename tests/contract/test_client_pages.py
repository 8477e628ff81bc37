"""What pages and docstrings show of the client works as it stands there."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from raykeeper.client import CREATOR_ALL_ACL, transaction
from raykeeper.client.errors import NoAuthError
from tests.contract.client_handles import Room, open_blocking

ROOT = Path(__file__).parents[2]


def test_the_page_about_security_runs() -> None:
    open_one = open_blocking(Room())
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/SECURITY.md").read_text(), re.S)
    with open_one() as client, open_one() as bob, open_one(default_acl=CREATOR_ALL_ACL) as ann:
        ann.add_auth("scrypt", "ann:correct horse")
        ann.create("/hers", b"v")
        names: dict[str, Any] = {"client": client}
        exec(program, names)
        assert names["stat"].aversion == 1
        assert [acl.permissions for acl in names["acls"]] == [31, 1]
        bob.add_auth("scrypt", "bob:battery staple")
        assert bob.get("/ours")[0] == b"v"
        for path in ("/mine", "/hers"):
            with pytest.raises(NoAuthError):
                bob.get(path)
        assert ann.get("/mine")[0] == b"v", "who proves the same is the same"


def test_the_programs_of_the_user_guide_run() -> None:
    page = (ROOT / "docs/USING.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert len(programs) == 4
    with open_blocking(Room())() as client:
        names: dict[str, Any] = {"client": client}
        for program in programs:
            exec(program, names)
        told = {
            name: [(event.type.name, event.path) for event in names[name]]
            for name in ("first", "every")
        }
    changed = ("CHANGED", "/config")
    assert told == {"first": [changed], "every": [changed, ("CREATED", "/config/timeout")]}


def test_the_transactions_of_the_docstring_run() -> None:
    programs = re.findall(r"((?:^    .*\n)+)", transaction.__doc__ or "", re.M)
    assert len(programs) == 3
    with open_blocking(Room())() as client:
        client.ensure_path("/log")
        client.create("/leader", b"you")
        client.create("/config", b"v0")
        for _ in range(3):
            client.set("/config", b"v3")
        printed: list[Any] = []
        for program in programs:
            exec(
                textwrap.dedent(program), {"client": client, "print": lambda *x: printed.append(x)}
            )
        ((none, stat, path),), (succeeded, ((value, _),)) = printed
        assert (none, stat.version, path) == (None, 4, "/log/entry-0000000000")
        assert (succeeded, value) == (False, b"you")
        assert client.get("/config")[0] == b"v5"
