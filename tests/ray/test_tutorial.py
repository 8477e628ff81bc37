"""The programs and commands of docs/TUTORIAL.md, one after the other, print what the page says."""

import os
import re
from pathlib import Path

from tests.ray import programs

PAGE = programs.ROOT / "docs/TUTORIAL.md"
BLOCK = re.compile(r"(?:`(\w+\.py)`:\n\n)?^```(python|sh|text)\n(.*?)^```$", re.M | re.S)


def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints."""
    done = programs.run(line.split(), environment, cwd=folder)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


def test_each_command_prints_what_the_page_says(
    bare_machine: dict[str, str], tmp_path: Path
) -> None:
    path = f"{programs.RAYKEEPER.parent}{os.pathsep}{bare_machine['PATH']}"
    environment = {**bare_machine, "PATH": path}
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
