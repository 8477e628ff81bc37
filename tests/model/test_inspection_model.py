"""Any history, with snapshots anywhere: the tools see what the transactions make, and no damage."""

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.actors.disk.folder_reader import load_state_at
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.commands.inspection.verification import verify_folder
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.state import State
from tests.contract.server_folders import Entry, ServerFolder
from tests.model.histories import Command, histories, written

snapshot_places = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=5)


def grown(log: list[Entry], places: list[tuple[int, int]], segment_bytes: int) -> ServerFolder:
    """The log, and a snapshot at each place that is walked while some transactions follow."""
    server = ServerFolder(limits=StorageLimits(segment_bytes=segment_bytes))
    done = 0
    for place, during in sorted(places):
        if done < place <= len(log):
            server.append(log[done:place])
            server.snapshot(log[place : place + during], chunk_bytes=1)
            done = min(len(log), place + during)
    server.append(log[done:])
    return server


def state_at(log: list[Entry], zxid: Zxid) -> State:
    state = State()
    for each, data in log:
        if each <= zxid:
            state.apply(each, data)
    return state


@settings(max_examples=150)
@given(histories, snapshot_places, st.sampled_from([300, 700, 4096]))
def test_every_snapshot_of_any_history_leads_to_its_state(
    history: list[Command], places: list[tuple[int, int]], segment_bytes: int
) -> None:
    log = written(history).log
    server = grown(log, places, segment_bytes)
    reader = server.reader()
    found = verify_folder(reader, with_digest=True)
    contents = found.contents
    assert contents.problems == []
    assert contents.last == (log[-1][0] if log else ZERO)
    whole = state_at(log, contents.committed)
    assert set(found.digests.values()) == {whole.digest()}
    assert contents.voters == whole.voters
    for snapshot in contents.snapshots:
        loaded = load_state_at(reader.log(), snapshot, contents.last, reader.files)
        assert loaded.digest() == state_at(log, contents.last).digest()
    first = contents.begin or ZERO
    read = sum(each.transactions for each in contents.segments)
    assert read == sum(zxid > first for zxid, _ in log)
