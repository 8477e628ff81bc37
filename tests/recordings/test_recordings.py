"""What ZooKeeper answered its clients, a pure server answers too."""

from itertools import zip_longest
from pathlib import Path

import pytest

from raykeeper.jute.records import ReconfigRequest
from raykeeper.znodes.paths import CONFIG_PATH
from tests.differential.transcripts import Line
from tests.recordings.replay import replay

DATA = Path(__file__).parent / "data"
RECORDINGS = sorted(DATA.glob("*.txt"))


def difference(lines: list[str]) -> tuple[str, str] | None:
    """The first answer that differs."""
    for recorded, replayed in zip_longest(*replay(lines)):
        left, right = (None if each is None else each.text for each in (recorded, replayed))
        if left != right and not is_of_the_ensemble(recorded):
            return str(left), str(right)
    return None


def is_of_the_ensemble(line: Line | None) -> bool:
    """Whether an answer says which servers there are, or refuses to change them.

    ZooKeeper has a switch for reconfig, which was off. Here it takes the right to it.
    """
    if line is None:
        return False
    request = line.told.request
    return isinstance(request, ReconfigRequest) or getattr(request, "path", "") == CONFIG_PATH


def test_each_client_is_recorded() -> None:
    assert [path.stem for path in RECORDINGS] == [
        *("aiozk", "c", "curator", "kazoo", "node", "zkcli")
    ]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_client_gets_the_answers_of_zookeeper(path: Path) -> None:
    assert difference(path.read_text().splitlines()) is None


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_another_answer_is_found(path: Path) -> None:
    """The last reply of the first connection is told with another error."""
    lines = path.read_text().splitlines()
    at = max(number for number, line in enumerate(lines) if line.startswith("1 < "))
    words = lines[at].split()
    lines[at] = " ".join([*words[:2], words[2][:24] + f"{-5 & 0xFFFFFFFF:08x}"])
    assert difference(lines) is not None
