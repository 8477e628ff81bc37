"""Any history, with snapshots anywhere: the tools see what the transactions make, and no damage."""

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.actors.disk.folder_reader import load_state_at
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.commands.inspection.audit_log import AuditEntry, Wanted, print_log
from raykeeper.commands.inspection.transactions import code_of, transaction_document
from raykeeper.commands.inspection.verification import verify_folder
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.state import State, outcome_of
from raykeeper.znodes.txns import Txn
from tests.contract.server_folders import Entry, ServerFolder
from tests.model.histories import PATHS, Command, histories, written

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


@settings(max_examples=150)
@given(histories, snapshot_places, st.sampled_from([300, 4096]), st.sampled_from(PATHS))
def test_the_log_tells_every_change_and_every_outcome(
    history: list[Command], places: list[tuple[int, int]], segment_bytes: int, path: str
) -> None:
    run = written(history)
    reader = grown(run.log, places, segment_bytes).reader()
    begin = reader.log().begin()
    begin = (run.log[-1][0] if run.log else ZERO) if begin is None else begin
    entries: list[AuditEntry] = []
    print_log(reader, Wanted(), entries.append)
    assert [entry.zxid for entry in entries] == [zxid for zxid, _ in run.log if zxid > begin]
    # What the changes make of the znodes that were there when the log begins.
    values = {
        path: znode.value or b"" for path, znode in state_at(run.log, begin).tree.znodes.items()
    }
    for entry in entries:
        if entry.txn.session_id:
            outcome = outcome_of(entry.zxid, entry.txn)
            assert code_of(entry.txn.body) == outcome.code
        for change in transaction_document(entry.zxid, entry.txn)["changes"]:
            if change["op"] == "delete":
                del values[change["path"]]
            else:
                values[change["path"]] = change["value"].encode()
    end = run.state.tree.znodes
    assert values == {path: znode.value or b"" for path, znode in end.items()}
    some: list[AuditEntry] = []
    print_log(reader, Wanted(path=path), some.append)
    assert some == [entry for entry in entries if is_of(entry.zxid, entry.txn, path)]


def is_of(zxid: Zxid, txn: Txn, path: str) -> bool:
    document = transaction_document(zxid, txn)
    changed = any(change["path"] == path for change in document["changes"])
    return changed or document.get("path") == path
