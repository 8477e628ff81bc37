"""Bytes that an earlier version wrote, before transactions told paths, requests and reasons.

They were recorded with the program of commit 50e7bd5; nothing here is made by the present one.
"""

from base64 import b64decode

import msgspec

from raykeeper.actors.disk.log_format import batches, decode_segment_header, txns_of
from raykeeper.commands.inspection.transactions import describe, paths_of, transaction_document
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.sessions import SessionRecord, SessionTable, session_of
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import (
    CloseReason,
    CloseSessionTxn,
    ErrorTxn,
    MultiErrorTxn,
    Txn,
    decode_txn,
    encode_txn,
)

SEGMENT = b64decode(
    "UktMT0dTRUcCAAAABQAAAAEAAAAABAAAAAAAAAAAAAAAEAAAAAAAAE4gGBtSQlRI/OqotuGD3J2pAAAABQAAAAEA"
    "AAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMwAAABMAAAAWAAAAIwAAABYAAACVAAAAzQPomATPAAAEAAAA"
    "AAHEEHBwcHBwcHBwcHBwcHBwcHDND6ACBwOoMTAuMC4wLjmVzwAABAAAAAABAQDNA+mSB9Cblc8AAAQAAAAAAQIB"
    "zQPqlQzD0JIBA5XPAAAEAAAAAAEDAs0D65cBoi9lxAF2zwAABAAAAAABAcAAlQAAAM0D7JMGzwAABAAAAAABkaIv"
    "ZQ=="
)
"""A segment of the log: a session is opened, refused twice, creates an ephemeral, and ends."""
SESSION = b64decode(
    "mwLPAAAEAAAAAAHEEHBwcHBwcHBwcHBwcHBwcHDND6DPAAAEAAAAAAEDAoEDlc8AAAQAAAAABACiL2XAwAOoMTAu"
    "MC4wLjmRkqZkaWdlc3SlYW5uOmg="
)
"""The record of a session in a snapshot."""
STATE_DIGESTS = [
    2169426716550050590,
    1766423968634015015,
    6261653532111631586,
    13258899594307569864,
    16648610385521815991,
]
"""Of the state after each transaction of the segment."""
SESSION_DIGEST = 3249286440245553841


def log() -> list[tuple[Zxid, Txn]]:
    """The transactions of the segment."""
    header = decode_segment_header(SEGMENT, "segment")
    (batch,) = batches(SEGMENT, header.salt, header.previous, "segment")
    found = txns_of(SEGMENT, batch, header.previous, batch.last)
    return [(Zxid(batch.first + n), decode_txn(each)) for n, each in enumerate(found)]


def test_a_log_without_paths_and_reasons_is_read() -> None:
    bodies = [txn.body for _, txn in log()]
    assert bodies[1] == ErrorTxn(-101, 0, "")
    assert bodies[2] == MultiErrorTxn(True, -110, 1, 3, 0, "")
    closed = bodies[4]
    assert isinstance(closed, CloseSessionTxn)
    assert (closed.ephemerals, closed.reason) == (["/e"], CloseReason.UNKNOWN)


def test_it_leads_to_the_state_that_it_led_to() -> None:
    state = State()
    digests = []
    for zxid, txn in log():
        state.apply(zxid, encode_txn(txn))  # with the new fields
        digests.append(state.digest())
    assert digests == STATE_DIGESTS


def test_the_audit_log_says_what_it_knows() -> None:
    lines = [describe(zxid, txn) for zxid, txn in log()]
    assert lines[1:] == [
        "refused: no such znode (NO_NODE)",
        "transaction refused at operation 2 of 3: znode exists (NODE_EXISTS)",
        "create ephemeral /e (1 bytes)",
        "session ended by the ensemble; delete /e",
    ]
    documents = [transaction_document(zxid, txn) for zxid, txn in log()]
    assert [each.get("path") for each in documents] == [None] * 5
    assert documents[4]["reason"] is None
    assert [paths_of(txn.body) for _, txn in log()] == [[], [], [], ["/e"], ["/e"]]


def test_a_session_of_an_older_snapshot_has_the_digest_that_it_had() -> None:
    """So replicas of both versions agree, and a snapshot of the older one is verified."""
    record = msgspec.msgpack.decode(SESSION, type=SessionRecord)
    assert (record.host, record.server_id) == ("10.0.0.9", 0)
    for server_id in (0, 7):
        table = SessionTable()
        table.add(session_of(msgspec.structs.replace(record, server_id=server_id)))
        assert table.digest() == SESSION_DIGEST


def test_an_older_program_passes_over_what_was_added() -> None:
    class OlderError(msgspec.Struct, frozen=True, array_like=True, tag=7):
        code: int

    data = msgspec.msgpack.encode(ErrorTxn(-101, 2, "/a"))
    assert msgspec.msgpack.decode(data, type=OlderError) == OlderError(-101)
