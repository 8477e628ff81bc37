"""The opcodes: ZooKeeper's numbers, and a record of request and reply for each."""

from raykeeper.jute.opcodes import REPLIES, REQUESTS, OpCode


def test_each_opcode_has_a_request_and_a_reply() -> None:
    assert set(REQUESTS) == set(REPLIES) == set(OpCode)


def test_the_numbers_are_those_of_zookeeper() -> None:
    assert sorted(OpCode) == [
        *(-11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22),
        *(100, 101, 102, 103, 104, 105, 106, 107),
    ]
