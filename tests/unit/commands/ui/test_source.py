"""An ensemble in Ray as a source: what happens where Ray does not answer."""

import asyncio
import threading

import pytest

from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.ensemble_status import EnsembleStatus
from raykeeper.commands.ui.source import CALLS_MAX, GRACE_S, LateError, RaySource

SOON_S = 0.05


class SilentEnsemble(Ensemble):
    """An ensemble whose status comes when a test says so, as where Ray's GCS is away."""

    def __init__(self) -> None:
        super().__init__("coord")
        self.asked = threading.Semaphore(0)
        self.answers = threading.Event()

    def status(self, *, timeout_s: float = 2.0) -> EnsembleStatus:
        self.asked.release()
        self.answers.wait()
        raise EnsembleNotFoundError("no such ensemble")


async def test_ray_that_does_not_answer_is_late_and_takes_no_more_than_its_threads() -> None:
    ensemble = SilentEnsemble()
    source = RaySource(ensemble, 1 << 20, SOON_S - GRACE_S)
    calls = [source.status() for _ in range(CALLS_MAX + 3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in answers} == {LateError}
    told = [str(each) for each in answers]
    assert told.count(f"Ray does not answer within {SOON_S:g} s") == CALLS_MAX
    assert told.count(f"{CALLS_MAX} questions to Ray are not answered yet") == 3
    assert all(ensemble.asked.acquire(timeout=60) for _ in range(CALLS_MAX))
    assert not ensemble.asked.acquire(blocking=False)
    ensemble.answers.set()
    source = RaySource(ensemble, 1 << 20)
    with pytest.raises(EnsembleNotFoundError):
        await source.status()


async def test_the_threads_are_free_again_once_ray_answers() -> None:
    ensemble = SilentEnsemble()
    ensemble.answers.set()
    source = RaySource(ensemble, 1 << 20)
    for _ in range(2 * CALLS_MAX):
        with pytest.raises(EnsembleNotFoundError, match="no such ensemble"):
            await source.status()
