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


class Server:
    """An actor of Ray with one method; its references are their answers."""

    def __init__(self, *, is_newer: object) -> None:
        self._is_newer = is_newer
        self.__ray_call__ = self

    def remote(self, *given: object) -> object:
        return self._is_newer if given and given[0] is hasattr else f"done {given}"

    def __getattr__(self, name: str) -> "Server":
        assert self._is_newer is True or name == "status", "Ray would end this process"
        return self


def test_servers_of_before_are_not_called_by_a_name_that_they_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "wait", lambda refs, **_: (refs, []))
    monkeypatch.setattr(ray, "get", lambda ref, timeout: ref)
    earlier, newer, silent = (Server(is_newer=answer) for answer in (False, True, "no answer"))
    answers = call_actors([earlier, newer, silent], "transfer_leadership", given=(1,))
    refused = "its program is of an earlier version, which cannot do that"
    assert answers == [refused, "done (1,)", "no answer"]
    assert call_actors([earlier, newer], "status", given=(1,)) == ["done (1,)"] * 2
