"""docs/RECIPES.md: each example runs, and is as short as promised."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from raykeeper.client.client import Client
from tests.contract.client_handles import Room, open_blocking

DOCUMENT = Path(__file__).parents[2] / "docs" / "RECIPES.md"
LINES_MAX = 16
_EXAMPLE = re.compile(r"^### (?P<title>.*?)$|^```python\n(?P<code>.*?)^```$", re.M | re.S)


def examples(*, with_ray: bool) -> Iterator[tuple[str, str]]:
    """Titles and code of those that need Ray, or of the others; tests/ray runs the former."""
    title = ""
    for found in _EXAMPLE.finditer(DOCUMENT.read_text()):
        title = found["title"] or title
        if found["code"] and ("import ray\n" in found["code"]) == with_ray:
            yield title, found["code"]


@pytest.fixture
def clients() -> Iterator[tuple[Client, Client]]:
    opened = open_blocking(Room())
    client, other = opened(), opened()
    yield client, other
    client.close()
    other.close()


@pytest.mark.parametrize(("title", "code"), list(examples(with_ray=False)))
def test_an_example_runs(clients: tuple[Client, Client], title: str, code: str) -> None:
    client, other = clients
    exec(compile(code, f"{DOCUMENT.name}: {title}", "exec"), {"client": client, "other": other})


def test_every_recipe_has_a_short_example() -> None:
    headings = re.findall(r"^### (.*?)$", DOCUMENT.read_text(), re.M)
    found = {**dict(examples(with_ray=False)), **dict(examples(with_ray=True))}
    assert len(found) >= 1
    assert [title for title in headings if title not in found] == []
    assert [title for title, code in found.items() if code.count("\n") > LINES_MAX] == []
