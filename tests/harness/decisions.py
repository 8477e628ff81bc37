"""A decision of a keeper; tests replace what matters to them."""

from raykeeper.clusters.healing.vocabulary import Cause, Decision, MoveStep
from raykeeper.zab.ids import ServerId

BEGUN = Decision(
    step=MoveStep.BEGUN,
    server=ServerId(3),
    cause=Cause.LOST,
    source="1f",
    source_name="a",
    target="2e",
    target_name="b",
    reason="its node was lost for 5 min",
)
