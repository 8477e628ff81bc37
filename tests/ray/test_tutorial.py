"""The programs and commands of docs/TUTORIAL.md, one after the other, print what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/TUTORIAL.md"
BLOCK = re.compile(r"(?:`(\w+\.py)`:\n\n)?^```(python|sh|text)\n(.*?)^```$", re.M | re.S)


def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(
        line.split(),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


def test_each_command_prints_what_the_page_says(
    bare_machine: dict[str, str], tmp_path: Path
) -> None:
    commands = Path(sys.executable).parent
    environment = {**bare_machine, "PATH": f"{commands}{os.pathsep}{bare_machine['PATH']}"}
    printed, compared = {}, 0
    for name, kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            (tmp_path / name).write_text(text)
        elif kind == "sh":
            printed = {line: run(line, tmp_path, environment) for line in text.splitlines()}
        else:
            (output,) = printed.values()
            lines = text.splitlines()  # beside them Ray reports workers that are killed
            assert [line for line in output.splitlines() if line in lines] == lines
            compared += 1
        for line, output in printed.items():
            if line.endswith(" get /hello"):
                assert '"value": "world"' in output
                assert '"version": 1' in output
    assert compared == 4
