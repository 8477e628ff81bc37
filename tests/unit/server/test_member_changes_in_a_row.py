"""MemberChanges: a step that is asked for while the list before it is being said again."""

import pytest

from raykeeper.server.events import DiskSpaceChanged, TransferRequested
from raykeeper.zab.effects import Append
from raykeeper.zab.ids import ServerId, Zxid, epoch_of
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.requests import Reconfig
from raykeeper.znodes.txns import CreateTxn, ReconfigErrorTxn, ReconfigTxn, TxnBody, decode_txn
from tests.harness.caller import Caller
from tests.unit.server.test_member_changes import Ensemble
from tests.unit.server.test_reconfig_requests import answers, ask

FIFTH = Reconfig(5, 0, True)
Kinds = list[list[type[TxnBody]]]


def while_said_again(ensemble: Ensemble, operator: Caller | None = None) -> Caller:
    """Server 4 has joined as an observer, and the operator, of the leader unless given, was told.

    The leader, 3, says the list again; 1 is away, so that waits for the disk of 2.
    """
    servers, operator = ensemble.servers, operator or ensemble.operator_at(3)
    servers.crash(1)
    servers[2].is_disk_held = True
    assert operator.ask(operator.write(Reconfig(4, 0, True))) == []
    servers[2].sync_disk()
    servers.run()
    (done,) = operator.new()
    assert isinstance(done, WriteReply) and done.code == 0
    assert not servers[3].server.state.is_list_said_again
    servers[3].take()
    return operator


def say_again(ensemble: Ensemble) -> None:
    """Let the disk of 2 do its work, from now on at once."""
    ensemble.servers[2].release_disk()
    ensemble.servers.run()


def proposed(ensemble: Ensemble) -> Kinds:
    """What the leader has proposed since the step, run by run."""
    appended = ensemble.servers[3].of(Append)
    return [[type(decode_txn(txn).body) for txn in each.txns] for each in appended]


def codes(operator: Caller) -> list[Code]:
    return [Code(item.code) for item in operator.new() if isinstance(item, WriteReply)]


def test_the_next_step_waits_until_the_list_was_said_again() -> None:
    """A client that was told that its step is done may ask for the next one at once."""
    ensemble = Ensemble(strangers=2)
    operator = while_said_again(ensemble)
    assert operator.ask(operator.write(FIFTH), operator.create("/behind")) == []
    assert proposed(ensemble) == []
    words = "server 5 joins as an observer, version "
    assert ensemble.servers[3].server.open_change.startswith(words)
    say_again(ensemble)
    assert proposed(ensemble) == [[ReconfigTxn], [CreateTxn, ReconfigTxn]]
    assert codes(operator) == [Code.OK, Code.OK]
    ensemble.all_have(1, 2, 3, observers=(4, 5))


def test_what_was_prepared_before_the_next_step_does_not_wait() -> None:
    ensemble = Ensemble(strangers=2)
    operator = while_said_again(ensemble)
    requests = operator.create("/before"), operator.write(FIFTH), operator.create("/behind")
    assert operator.ask(*requests) == []
    assert proposed(ensemble) == [[CreateTxn]]
    say_again(ensemble)
    assert proposed(ensemble) == [[CreateTxn], [ReconfigTxn], [CreateTxn, ReconfigTxn]]
    assert codes(operator) == [Code.OK] * 3


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (Reconfig(5, 0, True), Code.OK),
        (Reconfig(0, 4), Code.OK),
        (Reconfig(5, 4, True), Code.OK),
        (Reconfig(0, 1), Code.OK),
        (Reconfig(4, 0, True), Code.BAD_ARGUMENTS),  # it has joined by now
        (Reconfig(5), Code.BAD_ARGUMENTS),
        (Reconfig(0, 3), Code.BAD_ARGUMENTS),
        (Reconfig(4), Code.NEW_CONFIG_NO_QUORUM),  # it has not kept up for long enough
        (Reconfig(5, 0, True, 7), Code.BAD_VERSION),
    ],
)
def test_a_step_in_a_row_is_judged_by_the_list_that_is_said_again(op: Reconfig, code: Code) -> None:
    ensemble = Ensemble(strangers=2)
    operator = while_said_again(ensemble)
    assert operator.ask(operator.write(op)) == []
    # A refusal changes no list, so it waits for nothing.
    assert proposed(ensemble) == ([] if code == Code.OK else [[ReconfigErrorTxn]])
    say_again(ensemble)
    assert codes(operator) == [code]


def test_the_version_that_it_names_is_that_of_the_list_that_is_said_again() -> None:
    ensemble = Ensemble(strangers=2)
    operator = while_said_again(ensemble)
    version = ensemble.servers[3].settings.members.delivered.version
    assert operator.ask(operator.write(Reconfig(5, 0, True, version))) == []
    say_again(ensemble)
    assert codes(operator) == [Code.OK]


def test_one_step_waits_at_a_time() -> None:
    ensemble = Ensemble(strangers=2)
    operator = while_said_again(ensemble)
    assert operator.ask(operator.write(FIFTH), operator.write(Reconfig(0, 4))) == []
    say_again(ensemble)
    assert codes(operator) == [Code.OK, Code.RECONFIG_IN_PROGRESS]
    assert operator.ask(operator.write(Reconfig(0, 4))) != []
    ensemble.all_have(1, 2, 3, observers=(5,))


def test_an_operators_step_waits_too() -> None:
    ensemble = Ensemble(strangers=2)
    while_said_again(ensemble)
    assert ask(ensemble, FIFTH) == []
    say_again(ensemble)
    (result,) = answers(ensemble)
    assert (result.code, result.reason) == (Code.OK, "")
    assert result.version == ensemble.servers[3].settings.members.delivered.version


def test_a_step_that_waits_is_known_to_nobody_else_and_binds_nobody() -> None:
    """The leader alone counts by it, and is lost: 1 and 2 go on without it."""
    ensemble = Ensemble(strangers=2)
    operator = while_said_again(ensemble)
    assert operator.ask(operator.write(Reconfig(0, 1))) == []
    assert ensemble.servers[3].settings.members.is_changing
    ensemble.servers.crash(3)
    say_again(ensemble)
    ensemble.servers.restart(1)
    ensemble.servers.pass_time(10_000)
    assert ensemble.servers.leader.server_id == 2
    ensemble.all_have(1, 2, 3, observers=(4,))
    assert [*ensemble.servers[2].settings.members.known_servers] == [1, 2, 3, 4]


@pytest.mark.parametrize("how", ["crash", "full disk"])
def test_the_next_leader_does_a_step_that_the_one_before_did_not_propose(how: str) -> None:
    ensemble = Ensemble(strangers=2)
    servers = ensemble.servers
    operator = while_said_again(ensemble, ensemble.operator)  # of server 2
    assert operator.ask(operator.write(Reconfig(0, 4))) == []
    if how == "crash":
        servers.crash(3)
    else:
        servers[3].step(DiskSpaceChanged(False))
    say_again(ensemble)
    servers.restart(1)
    servers.pass_time(10_000)
    assert servers.leader.server_id == 2
    (reply,) = [item for item in operator.new() if isinstance(item, WriteReply)]
    assert reply.code == 0 and epoch_of(Zxid(reply.zxid)) == 2
    ensemble.all_have(1, 2, 3)


def test_a_transfer_of_the_lead_waits_for_the_step_that_waits() -> None:
    ensemble = Ensemble(strangers=2)
    servers, operator = ensemble.servers, while_said_again(ensemble)
    assert operator.ask(operator.write(FIFTH)) == []
    servers[3].step(TransferRequested(1, ServerId(2), 5_000, 1_000))
    servers.run()
    assert proposed(ensemble) == []
    say_again(ensemble)
    servers.pass_time(5_000)
    assert servers.leader.server_id == 2
    (reply,) = [item for item in operator.new() if isinstance(item, WriteReply)]
    assert reply.code == 0 and epoch_of(Zxid(reply.zxid)) == 1
    ensemble.all_have(1, 2, 3, observers=(4, 5))
