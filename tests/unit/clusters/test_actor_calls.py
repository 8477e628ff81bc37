"""Calls of actors that do not answer."""

import pytest
import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    GetTimeoutError,
)

from raykeeper.clusters.actor_calls import call_actors


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (GetTimeoutError("late"), "no answer within 1.5 s"),
        (ActorUnavailableError("gone", None), "its process is gone; Ray starts it again"),
        (ActorDiedError(), "its actor is dead"),
        (ActorUnschedulableError("its node"), "its node is gone"),
    ],
)
def test_every_way_in_which_an_actor_does_not_answer_has_words(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    class Asked:
        """An actor of Ray whose call ends with the error."""

        @property
        def status(self) -> "Asked":
            return self

        def remote(self, *given: object) -> "Asked":
            assert given == (1, 2)
            return self

    def fail(_: object, timeout: float) -> None:
        raise error

    monkeypatch.setattr(ray, "wait", lambda refs, **_: (refs, []))
    monkeypatch.setattr(ray, "get", fail)
    assert call_actors([Asked()], "status", given=(1, 2), timeout_s=1.5) == [told]
