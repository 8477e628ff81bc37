"""The opcodes: ZooKeeper's numbers."""

from raykeeper.jute.opcodes import OpCode


def test_the_numbers_are_those_of_zookeeper() -> None:
    assert sorted(OpCode) == [
        *(-11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22),
        *(100, 101, 102, 103, 104, 105, 106, 107),
    ]
