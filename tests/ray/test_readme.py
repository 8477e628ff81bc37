"""The program at the top of the README does what the README says, as often as it runs."""

import re
import sys
from pathlib import Path

from tests.ray import programs

README = programs.ROOT / "README.md"


def run(environment: dict[str, str], *words: str | Path) -> list[str]:
    """The lines that a command prints."""
    done = programs.run(words, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_program_of_the_readme_runs(bare_machine: dict[str, str], tmp_path: Path) -> None:
    """Twice in a Ray of its own, on the data that is kept, and beside an ensemble that runs."""
    text = README.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 1
    lines = [line for line in blocks[0].splitlines() if line.strip()]
    assert len(lines) <= 15
    file = tmp_path / "program.py"
    file.write_text(blocks[0])
    said = re.search(r"It prints (.*?):", text, re.DOTALL)
    assert said is not None
    expected = re.findall(r"`(.*?)`", said.group(1))
    assert run(bare_machine, sys.executable, file) == expected
    assert run(bare_machine, sys.executable, file) == expected
    run(bare_machine, programs.RAYKEEPER, "up")
    assert run(bare_machine, sys.executable, file) == expected
    run(bare_machine, programs.RAYKEEPER, "down", "--ray")
