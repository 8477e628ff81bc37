"""The arguments of `raykeeper members`; tests/ray runs its commands."""

import pytest
import typer
from typer.testing import CliRunner

from raykeeper.commands.command_line import app
from raykeeper.commands.declarations.members import _asked


@pytest.mark.parametrize(
    ("text", "asked"),
    [(None, None), ("5", 5), ("=4", [4]), ("=1,3,4", [1, 3, 4]), ("=", [])],
)
def test_a_number_or_ids_may_be_asked_for(text: str | None, asked: object) -> None:
    assert _asked("--voters", text) == asked


@pytest.mark.parametrize("text", ["", "x", "1,3", "=1,x", "1.5"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="--voters: expected a number such as 5, or ids"):
        _asked("--voters", text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["set", "coord"], "say --voters, --observers or both"),
        (["remove"], "Missing argument"),
        (["coord", "--no-such-option"], "No such option"),
        (["promote", "x"], "Invalid value"),
    ],
)
def test_wrong_usage_exits_with_2(words: list[str], told: str) -> None:
    ended = CliRunner().invoke(app, ["members", *words])
    assert ended.exit_code == 2
    assert told in ended.output


def test_its_help_lists_the_commands_and_without_one_it_shows_the_members() -> None:
    listed = CliRunner().invoke(app, ["members", "--help"]).output
    assert all(each in listed for each in ("add", "remove", "replace", "set", "resume", "undo"))
    assert "Show the members" in CliRunner().invoke(app, ["members", "coord", "--help"]).output
