"""What docs/MOVING.md says of ZooKeeper's numbers, and its commands.

What the commands copy: tests/contract/migration/test_migration.py.
"""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from raykeeper.commands import command_line
from tests.harness.jute_port import JutePort
from tests.harness.kazoo_clients import kazoo_clients

PAGE = Path(__file__).parents[2] / "docs/MOVING.md"


def test_the_commands_of_the_page_are_understood() -> None:
    """Each is refused only because the file with the credentials is missing."""
    commands = re.findall(r"^raykeeper (.*)$", PAGE.read_text(), re.M)
    assert [words.split()[0] for words in commands] == ["import", "import", "export"]
    for words in commands:
        result = CliRunner().invoke(command_line.app, shlex.split(words))
        assert "cannot read credentials" in str(result.exception), words


def test_zxids_as_tools_split_them() -> None:
    with JutePort() as port, kazoo_clients() as connect:
        stat = connect(port.address).create("/first", include_data=True)[1]
    epoch, counter = stat.czxid >> 42, stat.czxid & (1 << 42) - 1
    assert (stat.czxid >> 32, stat.czxid & 0xFFFFFFFF) == (1024 * epoch, counter)
    assert epoch == 1
    assert 0xC0000000007 == 3 << 42 | 7 == 3072 << 32 | 7
