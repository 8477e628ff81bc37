"""Client: the operations, and where a handle cannot be used."""

import asyncio
import inspect
import os
import pickle
from concurrent.futures import Future
from typing import Any

import pytest

from raykeeper.client.access import OPEN_ACL_UNSAFE
from raykeeper.client.async_client import AsyncClient
from raykeeper.client.client import Client
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    ClosedError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    WrongContextError,
)
from raykeeper.client.operations import Operations, WithoutWaiting
from raykeeper.client.session import BlockingSession
from raykeeper.znodes.quotas import QuotaLimits
from tests.harness.client_stage import ClientStage, called


def test_every_operation_is_served(stage: ClientStage) -> None:
    client = stage.open()
    assert client.state is ClientState.CONNECTED
    assert client.session_id
    assert client.create("/a", b"1") == "/a"
    with pytest.raises(NodeExistsError):
        client.create("/a")
    with pytest.raises(NoNodeError):
        client.create("/x/y")
    assert client.create("/x/y", makepath=True) == "/x/y"
    assert client.create("/a/s-", sequence=True, ephemeral=True) == "/a/s-0000000000"
    value, stat = client.get("/a")
    assert (value, stat.version) == (b"1", 0)
    assert client.set("/a", b"2", version=0).version == 1
    with pytest.raises(BadVersionError):
        client.set("/a", b"3", version=0)
    assert client.get_children("/a") == ["s-0000000000"]
    assert client.exists("/b") is None
    with pytest.raises(NotEmptyError):
        client.delete("/a")
    client.sync()
    client.delete("/a", recursive=True)
    assert client.exists("/a") is None


def test_async_twins_return_futures(stage: ClientStage) -> None:
    client = stage.open()
    futures: list[Future[Any]] = [
        client.create_async("/a", b"1"),
        client.set_async("/a", b"2"),
        client.get_async("/a"),
        client.exists_async("/a"),
        client.get_children_async("/"),
        client.sync_async(),
        client.delete_async("/a"),
        client.create_async("/p/q", makepath=True),
        client.delete_async("/p", recursive=True),
    ]
    path, set_stat, (value, _), stat, children, synced, deleted, made, _ = (
        future.result(5) for future in futures
    )
    assert (path, value, children, synced, deleted) == ("/a", b"2", ["a"], None, None)
    assert made == "/p/q"
    assert set_stat == stat


def test_arguments_are_checked_before_a_request_is_sent(stage: ClientStage) -> None:
    client = stage.open(value_bytes_max=10)
    for call in (
        lambda: client.create("a"),
        lambda: client.create_async("/a", b"x" * 11),
        lambda: client.set("/", b"x" * 11),
        lambda: client.delete("/", version=1 << 31),
        lambda: client.get("/", watch=3),  # type: ignore[arg-type]
    ):
        with pytest.raises(BadArgumentsError):
            call()
    assert client.set("/", b"x" * 10).version == 1
    assert len(stage.ensemble.requests) == 1


# Where it cannot be used.


def test_blocking_calls_in_an_event_loop_name_the_other_client(stage: ClientStage) -> None:
    client = stage.open()

    async def main() -> None:
        for call in (
            lambda: client.create("/a"),
            lambda: client.get("/"),
            lambda: client.set("/", b""),
            lambda: client.delete("/a"),
            lambda: client.exists("/"),
            lambda: client.get_children("/"),
            client.sync,
            client.close,
            stage.open,
            lambda: client.ensure_path("/a"),
            lambda: client.get_many(["/a"]),
            lambda: client.transaction().commit(),
            lambda: client.get_acls("/"),
            lambda: client.set_acls("/", OPEN_ACL_UNSAFE),
            lambda: client.add_auth("digest", "ann:secret"),
            client.who_am_i,
            client.get_ephemerals,
            lambda: client.get_all_children_number("/"),
            lambda: client.set_quota("/a", QuotaLimits()),
            lambda: client.get_quota("/a"),
            lambda: client.remove_quota("/a"),
        ):
            with pytest.raises(WrongContextError, match="AsyncClient"):
                call()
        await asyncio.wrap_future(client.set_async("/", b""))

    asyncio.run(main())
    assert len(stage.ensemble.requests) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_call_in_a_child_process_raises_at_once(stage: ClientStage) -> None:
    client = stage.open()
    child = os.fork()
    if child == 0:
        told = 0
        try:
            for call in (
                lambda: client.get("/"),
                lambda: client.create_async("/a/b", makepath=True),
                client.close,
            ):
                with pytest.raises(WrongContextError, match="fork"):
                    call()
                told += 1
        finally:
            os._exit(told)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert client.get("/")[0] == b"", "the parent goes on"


class Reopened:
    """Reopens the session of a handle that was passed on; counts how often."""

    stage: ClientStage
    count = 0

    def __call__(self) -> BlockingSession:
        Reopened.count += 1
        return Reopened.stage.session()


@pytest.fixture
def passed_on(stage: ClientStage) -> Client:
    """Return a handle as it arrives in another process."""
    Reopened.stage, Reopened.count = stage, 0
    client = pickle.loads(pickle.dumps(Client(stage.session(), Reopened())))
    assert isinstance(client, Client)
    stage.clients.append(client)
    return client


def test_a_pickled_handle_connects_when_it_is_used(passed_on: Client) -> None:
    assert Reopened.count == 0
    assert passed_on.get("/")[0] == b""
    assert passed_on.state is ClientState.CONNECTED
    assert Reopened.count == 1
    copy = pickle.loads(pickle.dumps(passed_on))
    copy.close()
    with pytest.raises(ClosedError, match="the client was closed"):
        copy.get("/")


def test_many_threads_may_use_a_handle_first(passed_on: Client) -> None:
    threads = [called(lambda: passed_on.session_id) for _ in range(8)]
    assert len({thread.result(5) for thread in threads}) == 1
    assert Reopened.count == 1


async def test_a_pickled_handle_in_an_event_loop_raises(passed_on: Client) -> None:
    with pytest.raises(WrongContextError, match=r"passed on.*AsyncClient"):
        passed_on.get_async("/")


def test_a_handle_that_cannot_be_reopened_is_not_pickled(stage: ClientStage) -> None:
    with pytest.raises(TypeError, match="connect"):
        pickle.dumps(stage.open())


def test_both_clients_have_the_signature_of_each_operation() -> None:
    """The signature that `help(Client.get)` and editors show."""
    path, returned = inspect.Parameter.POSITIONAL_OR_KEYWORD, "list[str]"
    for method, result in (
        (Client.get_children, returned),
        (Client.get_children_async, f"concurrent.futures._base.Future[{returned}]"),
        (AsyncClient.get_children, f"_asyncio.Future[{returned}]"),
    ):
        signature = inspect.signature(method)
        assert [*signature.parameters] == ["self", "path", "watch", "consistency"]
        assert signature.parameters["path"].kind is path
        assert inspect.formatannotation(signature.return_annotation) == result
    assert inspect.signature(Client.sync).return_annotation is None
    assert str(Client.get.__doc__).startswith("Read value and Stat of a znode.")
    assert Client.get.__qualname__ == "Client.get"
    assert Client.get_async.__doc__ == "`get` without waiting."


def test_an_operation_may_be_called_on_the_class(stage: ClientStage) -> None:
    client = stage.open()
    assert Client.create(client, "/a", b"1") == "/a"
    assert Client.get_async(client, "/a").result()[0] == b"1"
    assert Operations.get(client, "/a")[0] == b"1"
    assert WithoutWaiting(Operations.get)(client, "/a").result()[0] == b"1"


class Shouting(Client):
    """A user's subclass of the client."""

    def sync(self, path: str = "/") -> None:  # type: ignore[override]
        raise RuntimeError(path)


def test_a_subclass_may_replace_an_operation(stage: ClientStage) -> None:
    client = Shouting(stage.session())
    stage.clients.append(client)
    with pytest.raises(RuntimeError):
        client.sync()
    assert client.get("/")[0] == b""
