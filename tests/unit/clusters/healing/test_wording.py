"""Each decision as a sentence."""

import pytest

from raykeeper.clusters.healing.vocabulary import Cause, Decision, Entry, Step
from raykeeper.clusters.healing.wording import describe
from raykeeper.zab.ids import Millis, ServerId


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step.BEGUN, "server 3 is to move a→b: its node was lost for 5 min"),
        (Step.STARTED, "server 3 was started on b, and waits for its vote"),
        (Step.DONE, "server 3 moved a→b: its node was lost for 5 min"),
        (Step.UNDONE, "server 3 did not move a→b: b was lost too"),
    ],
)
def test_a_decision_is_a_sentence(step: Step, text: str) -> None:
    decision = Decision(
        step=step,
        server=ServerId(3),
        cause=Cause.LOST,
        source="1",
        source_name="a",
        target="2",
        target_name="b",
        reason="its node was lost for 5 min",
        detail="b was lost too",
    )
    assert describe(Entry(1, Millis(0), decision)) == text
