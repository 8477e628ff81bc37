"""The program at the top of the README does what the README says it does."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_program_of_the_readme(bare_machine: dict[str, str], tmp_path: Path) -> None:
    text = README.read_text()
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 1
    lines = [line for line in programs[0].splitlines() if line.strip()]
    assert len(lines) <= 15
    file = tmp_path / "program.py"
    file.write_text(programs[0])
    done = subprocess.run(
        [sys.executable, file],
        env=bare_machine,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = re.search(r"It prints (.*?):", text, re.DOTALL)
    assert printed is not None
    assert done.stdout.splitlines() == re.findall(r"`(.*?)`", printed.group(1))
