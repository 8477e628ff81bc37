"""Results: what each answer is to the user."""

from typing import Any

import pytest

from raykeeper.client.effects import Answer
from raykeeper.client.results import result_of
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import ChildrenRead, DataRead, Done, StatRead, Written
from raykeeper.znodes.stat import Stat

Z = Zxid(5)
STAT = Stat(Z, Z, Millis(1), Millis(1), 0, 0, 0, 0, 0, 0, Z)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Written(1, Z, 0, "/a-0000000000", STAT), "/a-0000000000"),
        (Written(1, Z, 0, "", STAT), STAT),
        (Written(1, Z, 0, "", None), None),
        (DataRead(1, Z, b"v", STAT), (b"v", STAT)),
        (StatRead(1, Z, STAT), STAT),
        (StatRead(1, Z, None), None),
        (ChildrenRead(1, Z, ["a"], STAT), ["a"]),
        (Done(1, Z), None),
    ],
)
def test_result_of(answer: Answer, result: Any) -> None:
    assert result_of(answer) == result
