"""The details of its process that a session shows. In real actors and tasks: tests/ray."""

import os
import pickle
import socket
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from raykeeper.client.client import Client
from raykeeper.client.identity import identity_line, identity_of_process
from raykeeper.client.recipes.lock import Contender
from raykeeper.client.recipes.primitives import get_children, get_or_none
from raykeeper.client.session import BlockingSession
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.requests import IDENTITY_BYTES_MAX
from tests.contract.client_handles import Room, finish, options_of
from tests.harness.recipe_stage import RecipeStage

ID = "3f2a9c0d1e2f4b5c6d7e8f9001000000"
NODE = "5d0e9a1c7b3f00112233445566778899"


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (
            ("actor", 'Trainer "main"', ID, 812, "node-b", NODE),
            'actor Trainer "main" 3f2a9c0d1e2f pid 812 on node-b/5d0e9a1c7b3f',
        ),
        (
            ("actor", "", ID, 812, "node-b", NODE),
            "actor 3f2a9c0d1e2f pid 812 on node-b/5d0e9a1c7b3f",
        ),
        (("process", "tool.py", "", 78, "laptop"), "process tool.py pid 78 on laptop"),
        (("driver", "", "", 78, ""), "driver pid 78"),
        (("process", "a", "", 1, "no\nhost"), "process a pid 1 on no?host"),
    ],
)
def test_a_line_has_the_known_details(parts: tuple[Any, ...], line: str) -> None:
    assert identity_line(*parts) == line.encode()


def test_a_line_is_bounded() -> None:
    line = identity_line("task", "ä" * 300, ID, 812, "h" * 300)
    assert len(line) <= IDENTITY_BYTES_MAX
    assert line.decode().startswith("task ää")


def test_without_ray_the_line_names_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/" + "tool" * 40 + "\n.py"])
    words = identity_of_process().decode().split()
    assert words[0] == "process"
    assert words[1].startswith("tooltool") and words[1].endswith("…")
    assert words[2:] == ["pid", str(os.getpid()), "on", socket.gethostname()]


KINDS = ["lock", "simple_lock", "read", "write", "reentrant_lock", "semaphore", "lease", "election"]


def made(client: Any, kind: str, **identifier: Any) -> Any:
    match kind:
        case "semaphore":
            return client.semaphore("/x", 1, **identifier)
        case "lease":
            return client.lease("/x", 60, **identifier)
        case "read" | "write":
            return getattr(client.read_write_lock("/x", **identifier), kind)
        case _:
            return getattr(client, kind)("/x", **identifier)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("identifier", "shown"),
    [({}, b"its own line"), ({"identifier": b""}, b""), ({"identifier": b"me"}, b"me")],
)
def test_contenders_show_the_line_unless_given_an_identifier(
    kind: str, identifier: dict[str, bytes], shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = RecipeStage().member()
    monkeypatch.setattr(member, "_identity", lambda: b"its own line")
    lock = made(member, kind, **identifier)
    with lock:
        contenders: list[Contender] = lock.contenders()
        assert [each.identifier for each in contenders] == [shown]


def test_members_of_partitioners_and_double_barriers_show_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = RecipeStage().member()
    monkeypatch.setattr(member, "_identity", lambda: b"its own line")
    member.partitioner("/p", ["a"]).start()
    waits = member.begin(member.double_barrier("/d", 2).enter)
    assert not waits.is_done

    (name,) = member.do(get_children("/p/members"))
    assert member.do(get_or_none(f"/p/members/{name}"))[0] == b"its own line"
    (name,) = member.do(get_children("/d/round"))
    assert member.do(get_or_none(f"/d/round/{name}"))[0] == b"its own line"


def test_a_renewed_lease_shows_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    member = RecipeStage().member()
    monkeypatch.setattr(member, "_identity", lambda: b"its own line")
    lease = member.lease("/x", 60)
    lease.acquire().renew()
    assert lease.contenders()[0].identifier == b"its own line"


ROOM = Room()


def _open(options: Any) -> BlockingSession:
    return BlockingSession.open([ServerId(1)], ROOM, structs.replace(options, identity=b"there"))


def test_a_pickled_recipe_shows_its_present_process() -> None:
    options = options_of()
    here = BlockingSession.open([ServerId(1)], ROOM, structs.replace(options, identity=b"here"))
    client = Client(here, partial(_open, options))
    lock = client.lock("/passed")
    copy = pickle.loads(pickle.dumps(lock))
    with lock:
        assert [each.identifier for each in lock.contenders()] == [b"here"]
    with copy:
        assert [each.identifier for each in lock.contenders()] == [b"there"]
    copy._client.close()
    client.close()


def test_both_clients_show_the_line() -> None:
    async def go() -> list[Contender]:
        options = structs.replace(options_of(), identity=b"awaited")
        async with await ROOM.open_session(options) as client:
            lock = client.lock("/both")
            async with lock:
                found: list[Contender] = await lock.contenders()
                return found

    assert [each.identifier for each in finish(go())] == [b"awaited"]
