"""The workload of the simulator over real links: each carrier delivers exactly the sent frames."""

from functools import partial

import pytest
import uvloop

from tests.contract.link_carriers import CallsCarrier
from tests.contract.stream_carrier import MovingCarrier, StreamCarrier
from tests.simulation.draw import draw_plan
from tests.simulation.plan import Plan
from tests.simulation.real_link_network import RealEnd, RealLinkNetwork
from tests.simulation.world import Report, World

PATIENT = {"park_ms": 5_000, "grace_ms": 20_000}


class OverStreams(RealLinkNetwork):
    carrier = staticmethod(partial(StreamCarrier, **PATIENT))


class OverStreamsOnUvloop(OverStreams):
    loop_factory = uvloop.new_event_loop


class OverCalls(RealLinkNetwork):
    carrier = staticmethod(partial(CallsCarrier, **PATIENT))


class OverBoth(RealLinkNetwork):
    carrier = staticmethod(partial(MovingCarrier, **PATIENT))


def run_over(network: type[RealLinkNetwork], plan: Plan) -> tuple[Report, RealLinkNetwork]:
    world = World(plan, network=network)
    assert isinstance(world.network, RealLinkNetwork)
    try:
        return world.run(), world.network
    finally:
        world.network.close()


@pytest.fixture(autouse=True)
def _streams_open_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dial may wait as long as a busy machine needs: without it there is no run."""
    for name in (
        "stream_endpoints.STREAM_OPEN_MS",
        "stream_endpoints.STREAM_TURN_MS",
        "server_directory.GRACE_MS",
    ):
        monkeypatch.setattr(f"raykeeper.links.{name}", 60_000)


@pytest.mark.parametrize("seed", [1, 2, 4, 8])  # whose runs have enough frames
@pytest.mark.parametrize("network", [OverStreams, OverStreamsOnUvloop, OverCalls, OverBoth])
def test_a_run_over_real_links_equals_the_run_of_its_seed(
    network: type[RealLinkNetwork], seed: int
) -> None:
    plan = draw_plan(seed)
    report, carried = run_over(network, plan)
    assert report == World(plan).run()
    assert len(carried.opened) > 20
    assert sum(link.frames for link in carried.opened) > 1_000


@pytest.mark.parametrize("harm", ["lost", "doubled", "swapped"])
def test_a_carrier_that_breaks_its_promise_is_found(
    harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def frames(end: RealEnd, frames: list[bytes]) -> None:
        if len(frames) > 1 and frames[0] != frames[1]:
            first, second, *rest = frames
            frames = {"lost": [second], "doubled": [first, first], "swapped": [second, first]}[harm]
            frames += rest
        bring(end, frames)

    bring = RealEnd.frames
    monkeypatch.setattr(RealEnd, "frames", frames)
    monkeypatch.setattr("tests.simulation.real_link_network.PATIENCE_S", 1.0)
    with pytest.raises(AssertionError, match="Links: another frame came"):
        run_over(OverCalls, draw_plan(1))
