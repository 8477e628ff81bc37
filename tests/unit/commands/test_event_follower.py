"""The decisions of a keeper, as they are made."""

from collections.abc import Iterator
from queue import Queue
from threading import Thread

import msgspec
import pytest
from msgspec.structs import replace

from raykeeper.client import Client
from raykeeper.client.errors import ClosedError
from raykeeper.clusters.healing.vocabulary import Entry, MoveStep
from raykeeper.clusters.keeper_journal import ELECTION, EVENTS, Journal
from raykeeper.commands.event_follower import follow_entries
from raykeeper.zab.errors import RayKeeperError
from tests.contract.client_handles import Room, open_blocking
from tests.harness.decisions import BEGUN


class Follower:
    """Follows in a thread, which would wait for ever."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: Queue[list[Entry] | RayKeeperError] = Queue()
        Thread(target=self._follow, daemon=True).start()

    def next(self) -> list[Entry] | RayKeeperError:
        """The next batch, or the error with which it ended."""
        return self._told.get(timeout=60)

    def _follow(self) -> None:
        try:
            for batch in follow_entries(self._client):
                self._told.put(batch)
        except RayKeeperError as error:
            self._told.put(error)


@pytest.fixture
def two() -> Iterator[tuple[Client, Client]]:
    """A keeper's client and a reader's."""
    room = Room()
    with open_blocking(room)() as one, open_blocking(room)() as other:
        yield one, other


def test_what_is_there_comes_first_and_then_what_is_new(two: tuple[Client, Client]) -> None:
    keeper, reader = two
    journal = Journal(keeper)
    journal.create_paths()
    leadership = keeper.election(ELECTION).lead()
    begun = journal.write_decision(leadership, BEGUN)
    follower = Follower(reader)
    assert follower.next() == [begun]
    for step in (MoveStep.STARTED, MoveStep.DONE):
        entry = journal.write_decision(leadership, replace(BEGUN, step=step))
        assert follower.next() == [entry]


def test_the_first_decision_of_a_keeper_that_comes_later_is_told(
    two: tuple[Client, Client],
) -> None:
    keeper, reader = two
    follower = Follower(reader)
    assert follower.next() == []
    journal = Journal(keeper)
    journal.create_paths()
    entry = journal.write_decision(keeper.election(ELECTION).lead(), BEGUN)
    assert follower.next() == [entry]


def test_a_path_that_comes_between_two_looks_is_watched(
    two: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, reader = two
    exists = reader.exists

    def create_and_look(path: str, watch: object) -> object:
        Journal(keeper).create_paths()
        return exists(path, watch)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "exists", create_and_look)
    follower = Follower(reader)
    assert follower.next() == []
    entry = Journal(keeper).write_decision(keeper.election(ELECTION).lead(), BEGUN)
    assert follower.next() == [entry]


def test_a_decision_that_comes_after_a_look_is_told(
    two: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, reader = two
    writer, decided = Journal(keeper), []
    writer.create_paths()
    leadership = keeper.election(ELECTION).lead()
    read_entries = Journal(reader).read_entries

    def read_and_decide(_: object) -> list[Entry]:
        found = read_entries()
        if not decided:
            decided.append(writer.write_decision(leadership, BEGUN))
        return found

    monkeypatch.setattr(Journal, "read_entries", read_and_decide)
    follower = Follower(reader)
    assert (follower.next(), follower.next()) == ([], decided)


def test_decisions_that_begin_anew_are_told(two: tuple[Client, Client]) -> None:
    keeper, reader = two
    journal = Journal(keeper)
    journal.create_paths()
    leadership = keeper.election(ELECTION).lead()
    for _ in range(3):
        journal.write_decision(leadership, BEGUN)
    follower = Follower(reader)
    assert len(follower.next()) == 3  # type: ignore[arg-type]
    with keeper.transaction() as t:
        for name in keeper.get_children(EVENTS):
            t.delete(f"{EVENTS}/{name}")
        t.delete(EVENTS)
        t.create(EVENTS)
        t.create(f"{EVENTS}/event-", msgspec.json.encode(BEGUN), sequence=True)
    (entry,) = journal.read_entries()
    assert (entry.number, follower.next()) == (0, [entry])


def test_the_end_of_the_session_is_the_end(two: tuple[Client, Client]) -> None:
    _, reader = two
    follower = Follower(reader)
    assert follower.next() == []
    reader.close()
    assert isinstance(follower.next(), ClosedError)
