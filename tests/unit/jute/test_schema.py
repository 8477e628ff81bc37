"""The schema: a record of request and reply for each opcode."""

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.schema import REPLIES, REQUESTS


def test_each_opcode_has_a_request_and_a_reply() -> None:
    assert set(REQUESTS) == set(REPLIES) == set(OpCode)
