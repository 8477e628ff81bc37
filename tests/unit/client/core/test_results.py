"""Results: what each answer is to the user."""

from typing import Any

import pytest

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.results import (
    Quota,
    complete_config,
    config_of,
    op_result_of,
    path_and_stat_of,
    result_of,
)
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import OPEN_ACL, WORLD
from raykeeper.znodes.ensemble_config import EnsembleConfig
from raykeeper.znodes.errors import Code
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    EmptyReply,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    GetQuotaReply,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import OpChildren, OpDone, OpFailed, OpResult, OpStat, OpValue

Z = Zxid(5)
TEXT = "server.1=u:1:2:participant\nserver.2=h:1:2:observer;h:2181\nversion=5"
STAT = Stat(Z, Z, Millis(1), Millis(1), 0, 0, 0, 0, 0, 0, Z)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (WriteReply(1, Z, 0, "/a-0000000000", STAT), "/a-0000000000"),
        (WriteReply(1, Z, 0, "", STAT), STAT),
        (WriteReply(1, Z, 0, "", None), None),
        (GetDataReply(1, Z, b"v", STAT), (b"v", STAT)),
        (GetDataReply(1, Z, None, STAT), (b"", STAT)),
        (ExistsReply(1, Z, STAT), STAT),
        (ExistsReply(1, Z, None), None),
        (GetChildrenReply(1, Z, ["a"], STAT), ["a"]),
        (EmptyReply(1, Z), None),
        (GetAclsReply(1, Z, OPEN_ACL, STAT), (list(OPEN_ACL), STAT)),
        (WhoAmIReply(1, Z, (WORLD,)), [WORLD]),
        (GetEphemeralsReply(1, Z, ["/a"]), ["/a"]),
        (CountDescendantsReply(1, Z, 3), 3),
        (GetQuotaReply(1, Z, QuotaLimits(5), 2, 9), Quota(QuotaLimits(5), 2, 9)),
    ],
)
def test_each_reply_has_its_result(answer: SuccessReply, result: Any) -> None:
    assert result_of(answer) == result


def test_a_create_has_path_and_stat() -> None:
    assert path_and_stat_of(WriteReply(1, Z, 0, "/a", STAT)) == ("/a", STAT)


def test_the_members_of_the_founding_need_no_line_in_the_config() -> None:
    config = EnsembleConfig(7, {2: "h:2181"}, {})
    disks = {ServerId(1): FOUNDING_DISK, ServerId(2): FOUNDING_DISK}
    founding = MemberList(ZERO, disks, (ServerId(3),))
    assert complete_config(config, founding) == EnsembleConfig(7, {1: "", 2: "h:2181"}, {3: ""})
    assert complete_config(config, None) == config
    assert complete_config(config, MemberList(Zxid(6), disks)) == config


@pytest.mark.parametrize(
    ("answer", "config"),
    [
        (WriteReply(1, Zxid(9), 0, TEXT, STAT), EnsembleConfig(5, {1: ""}, {2: "h:2181"})),
        (GetDataReply(1, Zxid(9), TEXT.encode(), STAT), EnsembleConfig(5, {1: ""}, {2: "h:2181"})),
        (GetDataReply(1, Zxid(9), None, STAT), EnsembleConfig(5, {}, {})),
    ],
)
def test_a_step_and_a_read_have_the_member_list(
    answer: SuccessReply, config: EnsembleConfig
) -> None:
    assert config_of(answer) == config


@pytest.mark.parametrize(
    ("part", "result"),
    [
        (OpDone("/a", STAT), "/a"),
        (OpDone("", STAT), STAT),
        (OpDone("", None), None),
        (OpValue(b"v", STAT), (b"v", STAT)),
        (OpValue(None, STAT), (b"", STAT)),
        (OpStat(None), None),
        (OpChildren(["a"], STAT), ["a"]),
        (OpFailed(0), None),
    ],
)
def test_each_part_of_a_multi_has_its_result(part: OpResult, result: Any) -> None:
    assert op_result_of(part, "/p") == result


def test_an_error_in_a_multi_has_its_path() -> None:
    error = op_result_of(OpFailed(Code.NO_NODE), "/p")
    assert (error.code, error.path) == (Code.NO_NODE, "/p")
