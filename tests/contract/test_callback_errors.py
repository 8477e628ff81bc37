"""What a callback raises goes to `on_error`, or to the logger `raykeeper.client`, never away."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct

from raykeeper.client import Client
from raykeeper.client.errors import InvalidValueError
from tests.contract.client_handles import Open, Room, open_awaited, open_blocking
from tests.contract.test_clients import connect, opener

__all__ = ["connect", "opener"]


class Limits(Struct):
    """What is followed."""

    rate: int = 0


class Errors(logging.Handler):
    """What the log got, or an `on_error`; each of them can be waited for."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._news = threading.Condition()
        self._told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        formatter = logging.Formatter()
        self._add(formatter.format(record))

    def take(self, error: Exception) -> None:
        """For `on_error`."""
        self._add(f"on_error: {error!r}")

    def find(self, text: str) -> str:
        """Wait for one that holds this text."""
        with self._news:
            assert self._news.wait_for(lambda: any(text in each for each in self._told), 10), text
            return next(each for each in self._told if text in each)

    def holds(self, text: str) -> bool:
        return any(text in each for each in self._told)

    def _add(self, told: str) -> None:
        with self._news:
            self._told.append(told)
            self._news.notify_all()


@pytest.fixture
def errors() -> Iterator[Errors]:
    """What the clients log."""
    errors, log = Errors(), logging.getLogger("raykeeper.client")
    log.addHandler(errors)
    yield errors
    log.removeHandler(errors)


def raising(text: str) -> Callable[..., Any]:
    """A callback that raises."""

    def bad(*_: object) -> None:
        raise ValueError(text)

    return bad


def raising_when_awaited(text: str) -> Callable[..., Any]:
    """A coroutine function that raises."""

    async def bad(*_: object) -> None:
        raise ValueError(text)

    return bad


CALLERS: dict[str, Callable[[Any, Any], object]] = {
    "watch": lambda client, bad: (client.get("/app", watch=bad), client.set("/app", b"1")),
    "listener": lambda client, bad: (client.add_listener(bad), client.close()),
    "configuration": lambda client, bad: client.configuration("/app", Limits).follow(bad),
    "configurations": lambda client, bad: client.configurations({"/app": Limits}).follow(bad),
    "published": lambda client, bad: client.published("/routes").follow(bad),
    "tree_cache": lambda client, bad: client.tree_cache("/app", bad).start(),
    "children_cache": lambda client, bad: client.children_cache("/", bad).start(),
    "group": lambda client, bad: client.group("/app").watch(bad),
    "services": lambda client, bad: (
        client.services("/services").register("web", "here", 80),
        client.services("/services").watch(bad),
    ),
    "election": lambda client, bad: client.election("/leader").observe(bad),
    "latch": lambda client, bad: client.leader_latch("/leader", on_gained=bad).start(),
    "partitioner": lambda client, bad: client.partitioner("/p", ["a"], on_acquired=bad).start(),
}


def begin(connect: Open) -> Any:
    client = connect()
    client.create("/app", b"{}")
    client.published("/routes").publish({"web": b"1"})
    return client


@pytest.mark.parametrize("caller", CALLERS)
def test_an_error_of_a_callback_is_logged_with_its_traceback(
    connect: Open, errors: Errors, caller: str
) -> None:
    client = begin(connect)
    CALLERS[caller](client, raising("of the user"))
    told = errors.find("ValueError: of the user")
    assert told.startswith("a callback raised\n")
    assert f'File "{__file__}"' in told


@pytest.mark.parametrize("opener", [(open_awaited, Room)], indirect=True)
@pytest.mark.parametrize("caller", CALLERS)
def test_an_error_of_a_coroutine_is_logged_with_its_traceback(
    connect: Open, errors: Errors, caller: str
) -> None:
    CALLERS[caller](begin(connect), raising_when_awaited("when awaited"))
    assert errors.find("ValueError: when awaited").startswith("a callback raised\n")


FOLLOWERS: dict[str, Callable[..., object]] = {
    "configuration": lambda client, *both: client.configuration("/app", Limits).follow(*both),
    "configurations": lambda client, *both: client.configurations({"/app": Limits}).follow(*both),
    "published": lambda client, *both: client.published("/routes").follow(*both),
    "tree_cache": lambda client, *both: client.tree_cache("/app", *both).start(),
    "children_cache": lambda client, *both: client.children_cache("/", *both).start(),
}


@pytest.mark.parametrize("follow", FOLLOWERS)
def test_on_error_receives_the_error_alone(connect: Open, errors: Errors, follow: str) -> None:
    FOLLOWERS[follow](begin(connect), raising("of the user"), errors.take)
    assert errors.find("of the user") == "on_error: ValueError('of the user')"
    assert not errors.holds("a callback raised")


@pytest.mark.parametrize("opener", [(open_awaited, Room)], indirect=True)
@pytest.mark.parametrize("follow", FOLLOWERS)
def test_on_error_may_be_a_coroutine_function(connect: Open, errors: Errors, follow: str) -> None:
    async def take(error: Exception) -> None:
        errors.take(error)

    client = begin(connect)
    FOLLOWERS[follow](client, raising("at once"), take)
    FOLLOWERS[follow](client, raising_when_awaited("when awaited"), take)
    assert errors.find("at once") == "on_error: ValueError('at once')"
    assert errors.find("when awaited") == "on_error: ValueError('when awaited')"


@pytest.mark.parametrize("follow", FOLLOWERS)
def test_an_error_of_on_error_is_logged(connect: Open, errors: Errors, follow: str) -> None:
    FOLLOWERS[follow](begin(connect), raising("first"), raising("second"))
    told = errors.find("ValueError: second")
    assert told.startswith("a callback raised\n")
    assert "ValueError: first" in told


def test_without_on_error_a_problem_is_logged(connect: Open, errors: Errors) -> None:
    client = begin(connect)
    live = client.configuration("/app", Limits).follow()
    client.set("/app", b"?")
    assert "InvalidValueError: /app holds no valid Limits" in errors.find("a follower failed")
    assert isinstance(live.last_error, InvalidValueError)
    client.tree_cache("/app", znodes_max=1).start()
    client.create("/app/one", b"")
    errors.find("a follower failed: CacheFullError")


def test_a_blocking_client_says_that_it_awaits_no_callback(room: Room, errors: Errors) -> None:
    client: Client = open_blocking(room)()
    client.create("/app", b"{}")
    client.get("/app", watch=raising_when_awaited("never"))
    client.set("/app", b"1")
    errors.find("a Client does not await callbacks")
    client.close()
