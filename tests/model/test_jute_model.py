"""ZooKeeper's protocol: whatever a client and a server can say arrives as it was said."""

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.jute.fields import Record
from raykeeper.jute.frames import (
    FrameReader,
    Reply,
    Request,
    decode_connect,
    decode_reply,
    decode_request,
    encode_connect,
    encode_reply,
    encode_request,
)
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import ConnectRequest
from tests.fuzz.jute_values import connect_requests, replies, requests

answers = st.one_of([st.tuples(st.just(code), replies(code)) for code in OpCode])


def body_of(body: Record | None) -> Record:
    assert body is not None
    return body


@settings(max_examples=200, deadline=None)
@given(connect_requests, st.lists(requests, max_size=5), st.data())
def test_requests_arrive_however_they_are_cut(
    connect: ConnectRequest, sent: list[Request], data: st.DataObject
) -> None:
    frames = [encode_request(each.xid, each.opcode, body_of(each.body)) for each in sent]
    stream = b"".join([encode_connect(connect), *frames])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader()
    payloads = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[start:end])
        while (payload := reader.next()) is not None:
            payloads.append(payload)
    assert decode_connect(payloads[0]) == connect
    assert [decode_request(payload) for payload in payloads[1:]] == sent


@settings(max_examples=300, deadline=None)
@given(answers)
def test_replies_arrive_as_they_were_sent(answer: tuple[OpCode, Reply]) -> None:
    opcode, reply = answer
    header = reply.header
    frame = encode_reply(header.xid, header.zxid, header.err, reply.body)
    assert len(frame) == 4 + int.from_bytes(frame[:4])
    assert decode_reply(frame[4:], opcode) == reply
