"""Which settings servers of one ensemble may have at the same time."""

from typing import Any

import pytest

from raykeeper.clusters.mixed_settings import mixing_problem


def timed(tick_ms: int, sync_limit: int = 4) -> dict[str, Any]:
    return {"tick_ms": tick_ms, "sync_limit": sync_limit}


@pytest.mark.parametrize(
    "every",
    [
        [],
        [{}],
        [{"links": "auto"}, {"links": "ray"}],
        [{"links": "auto"}, {"links": "direct"}, {}],
        [timed(500)],
        [timed(500, 2)],  # the least that one ensemble may have
        [timed(500), timed(1_000)],
        [timed(500), timed(250)],
        [timed(500, 8), timed(500, 2)],
        [timed(500), {"tick_ms": 50}],  # what is not known is not judged
    ],
)
def test_these_work_together(every: list[dict[str, Any]]) -> None:
    assert mixing_problem(every) == ""


@pytest.mark.parametrize("every", [["ray", "direct"], ["direct", "auto", "ray"]])
def test_servers_without_a_carrier_in_common_do_not(every: list[str]) -> None:
    assert mixing_problem([{"links": links} for links in every]).endswith("go to auto first")


@pytest.mark.parametrize(
    "every", [[timed(500), timed(1_002)], [timed(248), timed(500)], [timed(500, 2), timed(600)]]
)
def test_servers_that_would_leave_each_other_do_not(every: list[dict[str, Any]]) -> None:
    assert "smaller steps" in mixing_problem(every)


def test_the_reason_names_both_ends() -> None:
    assert mixing_problem([timed(50), timed(500)]) == (
        "a server with tick_ms 50 and sync_limit 4 leaves one that is silent for 200 ms, and a "
        "leader with tick_ms 500 speaks every 250 ms: change them in smaller steps, so that 4 of "
        "the one fit into the other"
    )
