"""What keepers write into the tree: under their token only, and for the keeper after them."""

import pytest
from msgspec.structs import replace

from raykeeper.client.errors import InvalidValueError, LostError
from raykeeper.clusters.healing.healing import ENTRIES_KEPT
from raykeeper.clusters.healing.vocabulary import Seat, Step
from raykeeper.clusters.keeper_journal import (
    ELECTION,
    ROOT,
    Journal,
    create_paths,
    drain,
    end_drain,
    forget_dead_drains,
    read_drains,
    read_entries,
    read_seats,
)
from raykeeper.zab.ids import ServerId
from tests.contract.client_handles import Room, open_blocking
from tests.harness.decisions import BEGUN

SEATS = {ServerId(3): Seat("1f", "a", 7)}


def test_the_next_keeper_reads_what_the_last_one_wrote(room: Room) -> None:
    with open_blocking(room)() as first, open_blocking(room)() as second:
        assert read_entries(second) == []
        create_paths(first)
        create_paths(second)
        assert (read_entries(first), read_seats(first)) == ([], {})
        leadership = first.election(ELECTION).lead()
        journal = Journal(first, leadership)
        before = journal.save_seats(SEATS)
        one = journal.note(BEGUN)
        two = journal.note(replace(BEGUN, step=Step.DONE))
        assert one.number < two.number and before <= one.time_ms <= two.time_ms
        leadership.resign()
        second.election(ELECTION).lead()
        assert read_entries(second) == [one, two]
        assert read_seats(second) == SEATS


def test_a_keeper_that_is_deposed_writes_nothing(room: Room) -> None:
    """It does not know it yet: somebody else has deleted its candidate."""
    with open_blocking(room)() as first, open_blocking(room)() as second:
        create_paths(first)
        stale = Journal(first, leadership := first.election(ELECTION).lead())
        entry = stale.note(BEGUN)
        second.delete(leadership.path)
        held = second.election(ELECTION).lead()
        with pytest.raises(LostError):
            stale.note(replace(BEGUN, step=Step.DONE))
        with pytest.raises(LostError):
            stale.save_seats(SEATS)
        assert (read_entries(second), read_seats(second)) == ([entry], {})
        Journal(second, held).note(replace(BEGUN, step=Step.UNDONE))
        steps = [each.decision.step for each in read_entries(second)]
        assert steps == [Step.BEGUN, Step.UNDONE]


def test_the_newest_decisions_are_kept(room: Room) -> None:
    with open_blocking(room)() as client:
        create_paths(client)
        journal = Journal(client, client.election(ELECTION).lead())
        noted = [journal.note(BEGUN) for _ in range(ENTRIES_KEPT + 2)]
        assert read_entries(client) == noted[2:]


def test_values_of_others_are_refused(room: Room) -> None:
    with open_blocking(room)() as client:
        create_paths(client)
        client.set(f"{ROOT}/servers", b"[]")
        with pytest.raises(
            InvalidValueError, match="/zookeeper/keeper/servers is not the keeper's"
        ):
            read_seats(client)
        client.create(f"{ROOT}/events/event-", b"?", sequence=True)
        with pytest.raises(InvalidValueError, match="event-0000000000"):
            read_entries(client)


def test_nodes_are_drained_until_they_are_dead_or_it_is_undone(room: Room) -> None:
    with open_blocking(room)() as client:
        assert read_drains(client) == []
        assert not end_drain(client, "1f")
        for node in ("1f", "2e", "3d", "1f"):
            drain(client, node)
        assert read_drains(client) == ["1f", "2e", "3d"]
        # Ray does not name the last one.
        forget_dead_drains(client, {"1f": True, "2e": False})
        assert read_drains(client) == ["1f", "3d"]
        assert end_drain(client, "1f") and not end_drain(client, "1f")
        assert read_drains(client) == ["3d"]
