"""What keepers write into the tree: under their token only, and for the keeper after them."""

import pytest
from msgspec.structs import replace

from raykeeper.client.errors import InvalidValueError, LostError
from raykeeper.clusters.healing.healing import ENTRIES_KEPT
from raykeeper.clusters.healing.vocabulary import MoveStep, ServerLocation
from raykeeper.clusters.keeper_journal import ELECTION, ROOT, Journal
from raykeeper.zab.ids import ServerId
from tests.contract.client_handles import Room, open_blocking
from tests.harness.decisions import BEGUN

LOCATIONS = {ServerId(3): ServerLocation("1f", "a")}


def test_the_next_keeper_reads_what_the_last_one_wrote(room: Room) -> None:
    with open_blocking(room)() as one, open_blocking(room)() as other:
        first, second = Journal(one), Journal(other)
        assert second.read_entries() == []
        first.create_paths()
        second.create_paths()
        assert (first.read_entries(), first.read_locations()) == ([], {})
        leadership = one.election(ELECTION).lead()
        before = first.save_locations(leadership, LOCATIONS)
        value, _ = other.get(f"{ROOT}/servers", consistency="linearizable")
        assert value == b'{"seats":{"3":{"node_id":"1f","node_name":"a"}}}', "as always"
        begun = first.write_decision(leadership, BEGUN)
        done = first.write_decision(leadership, replace(BEGUN, step=MoveStep.DONE))
        assert begun.number < done.number and before <= begun.time_ms <= done.time_ms
        leadership.resign()
        other.election(ELECTION).lead()
        assert second.read_entries() == [begun, done]
        assert second.read_locations() == LOCATIONS


def test_a_keeper_that_is_deposed_writes_nothing(room: Room) -> None:
    """It does not know it yet: somebody else has deleted its candidate."""
    with open_blocking(room)() as one, open_blocking(room)() as other:
        first, second = Journal(one), Journal(other)
        first.create_paths()
        leadership = one.election(ELECTION).lead()
        entry = first.write_decision(leadership, BEGUN)
        other.delete(leadership.path)
        held = other.election(ELECTION).lead()
        with pytest.raises(LostError):
            first.write_decision(leadership, replace(BEGUN, step=MoveStep.DONE))
        with pytest.raises(LostError):
            first.save_locations(leadership, LOCATIONS)
        assert (second.read_entries(), second.read_locations()) == ([entry], {})
        second.write_decision(held, replace(BEGUN, step=MoveStep.UNDONE))
        steps = [each.decision.step for each in second.read_entries()]
        assert steps == [MoveStep.BEGUN, MoveStep.UNDONE]


def test_the_newest_decisions_are_kept(room: Room) -> None:
    with open_blocking(room)() as client:
        journal = Journal(client)
        journal.create_paths()
        leadership = client.election(ELECTION).lead()
        written = [journal.write_decision(leadership, BEGUN) for _ in range(ENTRIES_KEPT + 2)]
        assert journal.read_entries() == written[2:]


def test_values_of_others_are_refused(room: Room) -> None:
    with open_blocking(room)() as client:
        journal = Journal(client)
        journal.create_paths()
        client.set(f"{ROOT}/servers", b"[]")
        with pytest.raises(
            InvalidValueError, match="/zookeeper/keeper/servers is not the keeper's"
        ):
            journal.read_locations()
        client.create(f"{ROOT}/events/event-", b"?", sequence=True)
        with pytest.raises(InvalidValueError, match="event-0000000000"):
            journal.read_entries()


def test_nodes_are_drained_until_they_are_dead_or_it_is_undone(room: Room) -> None:
    with open_blocking(room)() as client:
        journal = Journal(client)
        assert journal.read_drains() == []
        assert not journal.end_drain("1f")
        for node in ("1f", "2e", "3d", "1f"):
            journal.drain(node)
        assert journal.read_drains() == ["1f", "2e", "3d"]
        # Ray does not name the last one.
        journal.forget_dead_drains({"1f": True, "2e": False})
        assert journal.read_drains() == ["1f", "3d"]
        assert journal.end_drain("1f") and not journal.end_drain("1f")
        assert journal.read_drains() == ["3d"]
