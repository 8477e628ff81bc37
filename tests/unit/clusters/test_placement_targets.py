"""Placement on chosen nodes only, as the keeper asks for it."""

import pytest

from raykeeper.clusters.config import EnsembleConfig, LabelPin, ResourcePin
from raykeeper.clusters.placement import PlacementError, allows, place
from raykeeper.zab.ids import ServerId
from tests.unit.clusters.test_placement import hold, node


def test_new_folders_go_to_the_targets_only() -> None:
    """A disk that was found draws its server anywhere."""
    nodes = [node("a", hold(1)), node("b"), node("c")]
    config = EnsembleConfig(servers=3)
    at = {ServerId(2): "b"}
    plan = place(config, nodes, at, "u", targets=["c"])
    assert [(each.server_id, each.node_id) for each in plan.placements] == [(1, "a"), (3, "c")]
    with pytest.raises(PlacementError, match="slot=3"):
        place(EnsembleConfig(placement=LabelPin("slot")), nodes, at, "u", targets=["c"])


def test_what_a_node_allows() -> None:
    labelled, rich = node("a", labels={"slot": "3"}), node("b", resources=["slot_3"])
    for policy, allowed in (
        ("auto", [True, True]),
        (LabelPin("slot"), [True, False]),
        (ResourcePin("slot"), [False, True]),
    ):
        config = EnsembleConfig(placement=policy)  # type: ignore[arg-type]
        assert [allows(config, each, ServerId(3)) for each in (labelled, rich)] == allowed
        assert [allows(config, each, ServerId(2)) for each in (labelled, rich)] == (
            [policy == "auto"] * 2
        )
