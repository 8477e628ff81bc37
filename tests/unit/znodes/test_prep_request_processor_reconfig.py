"""PrepRequestProcessor: a step of the member list."""

from raykeeper.zab.feature_levels import LEVEL_OF_MEMBERS
from raykeeper.zab.ids import DiskId, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.refusals import refused_reconfig
from raykeeper.znodes.requests import AddAuth, Reconfig
from raykeeper.znodes.txns import ReconfigErrorTxn, ReconfigTxn, SetIdentitiesTxn
from tests.unit.znodes.one_leader import OneLeader, zxid_at

MEMBERS = MemberList(zxid_at(9), {ServerId(1): DiskId(""), ServerId(4): DiskId("d")})


def test_a_change_of_members_is_decided_by_the_leader_and_written_into_the_config() -> None:
    leader = OneLeader(Limits(super_identities=(Identity("digest", digest_id("root", "pw")),)))
    session = leader.open()
    asked: list[Reconfig] = []

    def next_list(op: Reconfig, zxid: Zxid) -> MemberList | ReconfigErrorTxn:
        assert zxid == zxid_at(len(leader.log) + 1)
        asked.append(op)
        return MEMBERS if op.joining == 4 else ReconfigErrorTxn(Code.BAD_ARGUMENTS, "not 4")

    assert leader.prepare(session, Reconfig(4)) == refused_reconfig(Code.NO_AUTH)
    assert isinstance(leader.prepare(session, AddAuth("digest", b"root:pw")), SetIdentitiesTxn)
    assert leader.prepare(session, Reconfig(4)) == refused_reconfig(Code.UNIMPLEMENTED)
    leader.state.level = LEVEL_OF_MEMBERS
    told = leader.prepare(session, Reconfig(4))
    assert isinstance(told, ReconfigErrorTxn) and told.code == Code.UNIMPLEMENTED
    leader.apply()
    leader.preparation = PrepRequestProcessor(leader.state, leader.limits, next_list)
    assert leader.prepare(session, Reconfig(4, version=7)) == ReconfigErrorTxn(
        Code.BAD_VERSION, "the list is that of version 0, not 7"
    )
    assert leader.prepare(session, Reconfig(5)) == ReconfigErrorTxn(Code.BAD_ARGUMENTS, "not 4")
    change = leader.prepare(session, Reconfig(4, version=0))
    assert isinstance(change, ReconfigTxn) and change.members == MEMBERS
    assert change.config is not None and change.config.value == (
        b"server.1=unknown:2888:3888:participant\nserver.4=unknown:2888:3888:participant\n"
        b"version=%x" % zxid_at(len(leader.log))
    )
    assert asked == [Reconfig(5), Reconfig(4, version=0)]
    leader.apply()
    assert leader.state.members == MEMBERS


def test_an_operator_changes_the_members_without_a_session() -> None:
    leader = OneLeader()

    def next_list(op: Reconfig, _zxid: Zxid) -> MemberList | ReconfigErrorTxn:
        return MEMBERS if op.joining == 4 else ReconfigErrorTxn(Code.BAD_ARGUMENTS, "not 4")

    leader.preparation = PrepRequestProcessor(leader.state, leader.limits, next_list)

    def prepare(op: Reconfig) -> bytes | ReconfigErrorTxn:
        return leader.preparation.prepare_reconfig(zxid_at(1), leader.wall_ms, op)

    known = "some server is of a version that knows no changes of the member list"
    assert prepare(Reconfig(4)) == ReconfigErrorTxn(Code.UNIMPLEMENTED, known)
    leader.state.level = LEVEL_OF_MEMBERS
    for op, refusal in (
        (Reconfig(5), ReconfigErrorTxn(Code.BAD_ARGUMENTS, "not 4")),
        (
            Reconfig(4, version=7),
            ReconfigErrorTxn(Code.BAD_VERSION, "the list is that of version 0, not 7"),
        ),
    ):
        assert prepare(op) == refusal
    assert leader.preparation.outstanding == 0
    leader.state.voters_version = zxid_at(0)  # that of a replaced disk is one of the list
    data = prepare(Reconfig(4, version=zxid_at(0)))
    assert isinstance(data, bytes)
    txn = leader.state.apply(zxid_at(1), data)
    assert (txn.session_id, txn.number) == (0, 0)
    assert isinstance(txn.body, ReconfigTxn) and txn.body.config is not None
    assert leader.state.members == MEMBERS
