"""Each decision as a sentence."""

import pytest
from msgspec.structs import replace

from raykeeper.clusters.healing.vocabulary import Entry, MoveStep
from raykeeper.clusters.keeper_status import describe
from raykeeper.zab.ids import Millis
from tests.harness.decisions import BEGUN


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (MoveStep.BEGUN, "server 3 is to move a→b: its node was lost for 5 min"),
        (MoveStep.STARTED, "server 3 was started on b, and waits for its vote"),
        (MoveStep.DONE, "server 3 moved a→b: its node was lost for 5 min"),
        (MoveStep.UNDONE, "server 3 did not move a→b: b was lost too"),
    ],
)
def test_a_decision_is_a_sentence(step: MoveStep, text: str) -> None:
    decision = replace(BEGUN, step=step, detail="b was lost too")
    assert describe(Entry(1, Millis(0), decision)) == text
