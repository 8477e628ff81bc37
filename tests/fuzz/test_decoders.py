"""Decoders against bytes that are not, or not quite, what they expect.

Either a decoder answers with something that could have been sent, or it raises one of the errors
that `DECODERS` names for it. It does neither hang nor take memory that its input does not justify.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.msgpack import decode

from raykeeper.zab.ids import ZXID_MAX, Zxid
from raykeeper.znodes.paths import SYSTEM_PATHS
from raykeeper.znodes.sessions import SessionRecord
from raykeeper.znodes.snapshot import Record as SnapshotRecord
from raykeeper.znodes.snapshot import (
    SnapshotFormatError,
    SnapshotLoader,
    SnapshotTrailer,
    ZnodeRecord,
)
from raykeeper.znodes.state import State
from tests.fuzz import near
from tests.fuzz.budget import bounded, examples
from tests.fuzz.decoders import DECODERS, snapshot_chunks
from tests.fuzz.mutations import hostile_bytes
from tests.fuzz.samples import encode, values_of

NAMES = pytest.mark.parametrize("name", DECODERS)


def check(name: str, data: bytes) -> None:
    """The property; also what the coverage-guided fuzzer checks."""
    decoder = DECODERS[name]
    with bounded(len(data)):
        try:
            value = decoder.decode(data)
        except decoder.errors as error:
            assert str(error) != "" or type(error).__name__ == "Refused"
            return
    again = decoder.decode(decoder.encode(value))
    assert again == value, (value, again)


@NAMES
def test_a_well_formed_value_is_decoded(name: str) -> None:
    decoder = DECODERS[name]

    @examples(30)
    @given(decoder.values)
    def arrives(value: object) -> None:
        data = decoder.encode(value)
        assert decoder.decode(data) == value
        check(name, data)

    arrives()


REFUSING = pytest.mark.parametrize("name", DECODERS)


@REFUSING
def test_other_bytes_are_refused_or_legal(name: str) -> None:
    decoder = DECODERS[name]

    @examples(200)
    @given(hostile_bytes(decoder.values.map(decoder.encode)))
    def refused_or_legal(data: bytes) -> None:
        check(name, data)

    refused_or_legal()


FROM_SNAPSHOTS = {
    "path": st.sampled_from(["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/a"])
    | near.paths,
    "czxid": near.zxids | st.just(1 << 63),
    "owner": st.sampled_from([0, 0, 7, 1 << 63]),
    "session_id": st.sampled_from([1, 2, 3, 1 << 62]),  # 0 is taken too, and should not be
}
records = st.lists(values_of(SnapshotRecord, FROM_SNAPSHOTS), max_size=6)


@examples(300)
@given(records, st.integers(1, 9))
def test_hostile_records_of_a_snapshot_are_refused(hostile: list[SnapshotRecord], at: int) -> None:
    """Records that are well-formed, in an order and with numbers that no walk writes."""
    honest = snapshot_chunks(State())
    sessions = sum(isinstance(record, SessionRecord) for record in hostile)
    znodes = sum(isinstance(record, ZnodeRecord) for record in hostile) + len(SYSTEM_PATHS)
    end = encode([SnapshotTrailer(sessions, znodes)])
    raw = [record for chunk in honest[1:] for record in decode(chunk, type=list[Raw])][:-1]
    encoded = [encode([record]) for record in raw]
    for kept in (
        [*honest[:at], encode(hostile), *honest[at:]],
        [honest[0], *encoded[:at], encode(hostile), *encoded[at:], end],
    ):
        loader = SnapshotLoader()
        with bounded(sum(map(len, kept))):
            try:
                for chunk in kept:
                    loader.load(chunk)
                state = loader.finish(Zxid(ZXID_MAX), Zxid(ZXID_MAX))
            except SnapshotFormatError:
                continue
        take_down(state)


def take_down(state: State) -> None:
    """Whatever was loaded can be used: everything in it can go, one by one, and nothing is left."""
    state.digest()
    for session_id in list(state.sessions.by_id):
        state.sessions.close(session_id)
    for path in sorted(state.tree.znodes, key=len, reverse=True):
        if path != "/":
            state.tree.delete(Zxid(ZXID_MAX), path)
    assert list(state.tree.znodes) == ["/"] and not state.tree.ephemerals
    assert not state.tree.znodes["/"].children and state.sessions.digest() == 0


@pytest.mark.parametrize("nest", [b"\x91", b"\x92\x00", b"\x81\x00", b"[", b'{"x":'])
@REFUSING
def test_deep_nesting_is_refused_or_legal(name: str, nest: bytes) -> None:
    for depth in (1, 1_000, 100_000):
        check(name, nest * depth)


@NAMES
def test_wrong_lengths_are_refused_or_legal(name: str) -> None:
    for start in (b"", b"\x91", b"\x92\x02", b"\x93\x02\x00", b"\x95\x01\x00"):
        for claim in (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"):
            for length in (0xFFFF, 0xFF_FFFF, 0x7FFF_FFFF, 0xFFFF_FFFF):
                check(name, start + claim + length.to_bytes(4) + b"\x00" * 8)


def test_a_decoder_that_is_too_generous_would_be_found() -> None:
    with pytest.raises(AssertionError, match="bytes for an input"), bounded(5):
        bytearray(8 << 20)
    with pytest.raises(AssertionError, match="not done"), bounded(5, seconds=0.05):
        while True:
            pass
