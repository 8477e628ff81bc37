"""Candidate: what it answers before, while and after it leads. In actors: tests/ray."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from typing import Any

import pytest

from raykeeper.client.client import Client
from raykeeper.client.loop_thread import shared_loop
from raykeeper.client.ray_tools.candidate import (
    CallOutcome,
    Candidate,
    CandidateSpec,
    Identity,
    decode_identity,
    encode_identity,
)
from raykeeper.client.recipes.election import Election, Leader
from raykeeper.client.recipes.recipe import Blocking
from tests.contract.client_handles import Room, finish, open_blocking, options_of

PATH = "/services/x"


class Plain:
    """Runs in a thread of its own."""

    def __init__(self, title: str, leadership: Any) -> None:
        self.title = title
        self.leadership = leadership

    def say(self, word: str) -> tuple[str, int, str]:
        return f"{self.title}: {word}", self.leadership.epoch, threading.current_thread().name

    def fail(self) -> None:
        raise LookupError("of the user")


class Coroutines:
    """Runs on the loop."""

    async def say(self, word: str) -> str:
        await asyncio.sleep(0)
        return word

    def where(self) -> str:
        return threading.current_thread().name


class Broken:
    """Cannot be made."""

    tried = threading.Event()

    def __init__(self) -> None:
        self.tried.set()
        raise OSError("no disk")


class Hall:
    """Servers, candidates, and somebody who looks on."""

    def __init__(self) -> None:
        self.room = Room()
        self.client: Client = open_blocking(self.room)()
        self.election: Election[Blocking] = self.client.election(PATH)
        self.ended = threading.Event()
        self.candidates: list[Candidate] = []

    def stand(self, make: Callable[..., Any], *args: Any) -> Candidate:
        post = CandidateSpec("here", PATH, f"actor {len(self.candidates)}", 20.0, make, args)

        async def connect(*_: object) -> Any:
            return await self.room.open_session(options_of())

        async def begin() -> Candidate:
            return Candidate(post, connect, self.ended.set)

        candidate = finish(begin())
        self.candidates.append(candidate)
        return candidate

    def leader(self) -> tuple[Identity, int]:
        """Who leads, when somebody does."""
        led = threading.Event()
        with closing(self.election.observe(lambda leader: leader and led.set())):
            assert led.wait(10)
        leader = self.election.leader()
        assert leader is not None
        return decode_identity(leader.identifier), leader.epoch

    def close(self) -> None:
        async def end(candidate: Candidate) -> None:
            candidate._campaign_task.cancel()
            with suppress(asyncio.CancelledError):
                await candidate._campaign_task

        for candidate in self.candidates:
            finish(end(candidate))
        self.client.close()


@pytest.fixture
def hall() -> Iterator[Hall]:
    hall = Hall()
    yield hall
    hall.close()


def call(candidate: Candidate, life: str, epoch: int, method: str, *args: Any) -> Any:
    return finish(candidate.serve(life, epoch, method, args, {}))


def test_an_ordinary_class_runs_in_a_thread(hall: Hall) -> None:
    candidate = hall.stand(Plain, "a title")
    identity, epoch = hall.leader()
    assert identity.actor == "actor 0"
    answer, value = call(candidate, identity.life, epoch, "say", "hello")
    assert (answer, value[:2]) == (CallOutcome.RETURNED, ("a title: hello", epoch))
    assert value[2].startswith("raykeeper-elected")
    with pytest.raises(LookupError, match="of the user"):
        call(candidate, identity.life, epoch, "fail")


def test_a_class_with_coroutines_runs_in_the_loop(hall: Hall) -> None:
    candidate = hall.stand(Coroutines)
    identity, epoch = hall.leader()
    assert call(candidate, identity.life, epoch, "say", "hi") == (CallOutcome.RETURNED, "hi")
    assert call(candidate, identity.life, epoch, "where")[1] == "raykeeper-client"


def test_a_call_for_another_leader_is_not_begun(hall: Hall) -> None:
    candidate = hall.stand(Plain, "")
    identity, epoch = hall.leader()
    assert call(candidate, "another life", epoch, "say", "")[0] is CallOutcome.NOT_STARTED
    assert call(candidate, identity.life, epoch - 1, "say", "")[0] is CallOutcome.NOT_STARTED
    standby = hall.stand(Plain, "")
    assert call(standby, identity.life, epoch, "say", "")[0] is CallOutcome.NOT_STARTED


def test_a_deposed_candidate_ends_and_serves_no_call(hall: Hall) -> None:
    candidate = hall.stand(Plain, "")
    identity, epoch = hall.leader()
    assert call(candidate, identity.life, epoch, "say", "")[0] is CallOutcome.RETURNED
    for name in hall.client.get_children(PATH):
        hall.client.delete(f"{PATH}/{name}")
    assert hall.ended.wait(10)
    assert call(candidate, identity.life, epoch, "say", "")[0] is CallOutcome.NOT_STARTED


def test_a_candidate_that_cannot_be_constructed_resigns(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    hall.stand(Broken)
    assert Broken.tried.wait(10)
    other = hall.stand(Coroutines)
    elected: Future[Leader] = Future()

    def told(leader: Leader | None) -> None:
        if leader and decode_identity(leader.identifier).actor == "actor 1":
            elected.set_result(leader)

    with closing(hall.election.observe(told)):
        leader = elected.result(10)
    assert leader.epoch >= 2
    life = decode_identity(leader.identifier).life
    assert call(other, life, leader.epoch, "say", "hi") == (CallOutcome.RETURNED, "hi")
    assert "no disk" in caplog.text


def test_a_candidate_is_waited_for_though_the_epochs_have_begun_anew(hall: Hall) -> None:
    first, second, may_fail, may_end = (threading.Event() for _ in range(4))

    def make() -> Coroutines:
        if not first.is_set():
            first.set()
            assert may_fail.wait(30)
            raise OSError("not yet")
        second.set()
        assert may_end.wait(30)
        return Coroutines()

    candidate = hall.stand(make)
    assert first.wait(30)
    hall.client.set(PATH, b"")  # as a new election
    may_fail.set()
    assert second.wait(30)
    leader = hall.election.leader()
    assert leader is not None and leader.epoch == 1  # as the one before
    life = decode_identity(leader.identifier).life
    serving = candidate.serve(life, 1, "say", ("hi",), {})
    calling = asyncio.run_coroutine_threadsafe(serving, shared_loop())
    for _ in range(10):
        finish(asyncio.sleep(0))
    assert not calling.done()
    may_end.set()
    assert calling.result(30) == (CallOutcome.RETURNED, "hi")


def test_an_identity_that_is_not_bytes_is_refused() -> None:
    identity = Identity("actor", "life")
    assert decode_identity(encode_identity(identity)) == identity
