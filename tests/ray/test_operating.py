"""Each command of docs/OPERATING.md runs, in the situation that its page is about."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import yaml

from raykeeper.actors.ray_actors import find_replica
from raykeeper.client import Client
from raykeeper.clusters import Ensemble, launch
from tests.ray.conftest import PATIENCE_S, Run, eventually
from tests.ray.programs import ROOT

PAGE = ROOT / "docs/OPERATING.md"
PAGES = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.M | re.S)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
EXIT = re.compile(r"exits with (\d)(.*)")
NAME = "coord"
A_NODE = "5d0e12ab"
"""Stands in the page for the Ray id of a node."""


def pages() -> list[tuple[str, list[str]]]:
    """Each question, and its commands."""
    questions = PAGE.read_text().partition("\n## Questions\n")[2]
    found = [(title, BLOCK.findall(text)) for title, text in PAGES.findall(questions)]
    return [(title, "".join(blocks).splitlines()) for title, blocks in found]


def codes_of(comment: str) -> set[int]:
    """The exit codes that a command may have: as its comment says, else 0."""
    told = EXIT.search(comment)
    if told is None:
        return {0}
    code, rest = told.groups()
    is_bound = not rest or rest.startswith((":", " as long as"))
    return {int(code)} if is_bound else {0, int(code), *map(int, re.findall(r"\b\d\b", rest))}


class Situations:
    """What is so when somebody opens a page."""

    def __init__(self, folder: Path) -> None:
        self.data_dir = folder / ".raykeeper/data"
        settings = {"name": NAME, "servers": 3, "data_dir": str(self.data_dir)}
        (folder / "ray-config.yaml").write_text(yaml.safe_dump(settings))
        self.ensemble: Ensemble = launch(folder / "ray-config.yaml", timeout_s=PATIENCE_S)
        self.client: Client = self.ensemble.connect()

    def begin(self) -> None:
        self.client.create("/x/y", b"value", makepath=True)
        self.client.delete("/x", recursive=True)
        self.lock = self.client.lock("/locks/table").acquire()

    def before(self, title: str) -> None:
        if title == "Back up":
            self.client.create("/x/y", b"value", makepath=True)
        elif title == "Restore yesterday":
            self.client.delete("/x", recursive=True)
        elif title.startswith("Who watches this"):
            self.client.exists("/x", watch=lambda _event: None)
        elif title == "A server is down":
            self.lose(1)
        elif title == "No leader":
            eventually(self.all_serve)
            self.lose(2)
            eventually(lambda: not any(s.role == "leader" for s in self.ensemble.status().servers))

    def after(self, title: str) -> None:
        if title == "Restore yesterday":
            assert self.client.get("/restored/x/y")[0] == b"value"

    def all_serve(self) -> bool:
        """Whether each member does what the list says; one is an observer by now."""
        role_of = {"voter": ("leader", "follower"), "observer": ("observer",)}
        return all(each.role in role_of[each.kind] for each in self.ensemble.members().servers)

    def lose(self, count: int) -> None:
        leader = self.ensemble.wait_for_leader()
        voters = [
            each.server_id for each in self.ensemble.members().servers if each.kind == "voter"
        ]
        for server in [each for each in voters if each != leader][:count]:
            ray.kill(find_replica(NAME, server), no_restart=True)


@pytest.fixture
def situations(
    ray_session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Situations]:
    monkeypatch.chdir(tmp_path)
    found = Situations(tmp_path)
    yield found
    found.client.close()
    found.ensemble.shutdown()


def test_the_commands_of_each_page_run(situations: Situations, run: Run, tmp_path: Path) -> None:
    situations.begin()
    ran = 0
    for title, lines in pages():
        situations.before(title)
        for line in lines:
            written, _, comment = line.partition("#")
            words = shlex.split(written)
            assert words.pop(0) == "raykeeper", line
            words = [re.sub("^(~|/backups)(?=/)", str(tmp_path), word) for word in words]
            words = [ray.nodes()[0]["NodeID"] if word == A_NODE else word for word in words]
            code, out, error = run(*words)
            assert code in codes_of(comment), (title, line, code, out, error)
            ran += 1
        situations.after(title)
    assert ran > 30
