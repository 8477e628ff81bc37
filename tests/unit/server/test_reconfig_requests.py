"""Steps of the member list that an operator asks for: what he is told, and when."""

import pytest

from raykeeper.server.effects import ReconfigAnswered, ReconfigResult
from raykeeper.server.events import ReconfigRequested, TransferRequested
from raykeeper.zab.feature_levels import LEVEL_MIN
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.requests import Reconfig, SetData
from tests.unit.server.test_member_changes import Ensemble, promotable


def ask(ensemble: Ensemble, op: Reconfig, at: int = 3) -> list[ReconfigResult]:
    """Ask a server for a step; return what it answers at once."""
    ensemble.servers[at].take()
    ensemble.servers[at].step(ReconfigRequested(5, op))
    ensemble.servers.run()
    return answers(ensemble, at)


def answers(ensemble: Ensemble, at: int = 3) -> list[ReconfigResult]:
    answered = ensemble.servers[at].of(ReconfigAnswered)
    assert all(effect.request == 5 for effect in answered)
    return [effect.result for effect in answered]


def version_at(ensemble: Ensemble, server: int = 3) -> int:
    return ensemble.servers[server].settings.members.delivered.version


def test_a_step_is_done_once_the_list_was_said_again() -> None:
    ensemble = Ensemble(strangers=1)
    (result,) = ask(ensemble, Reconfig(4, 0, True))
    assert result == ReconfigResult(Code.OK, "", version_at(ensemble))
    ensemble.all_have(1, 2, 3, observers=(4,))
    for host in ensemble.servers.hosts.values():
        assert host.server.state.members_said == result.version
        assert host.server.open_change == ""


def test_a_step_that_is_delivered_and_not_said_again_is_not_done() -> None:
    ensemble = Ensemble(strangers=1)
    leader = ensemble.servers[3]
    for server in (1, 2):
        ensemble.servers.hold(server, 3)
    assert ask(ensemble, Reconfig(4, 0, True)) == []
    version = leader.server.peer.history.logged
    assert leader.server.open_change == f"server 4 joins as an observer, version {version:x}"
    leader.is_disk_held = True
    ensemble.servers.release(1, 3)
    assert version_at(ensemble) == version
    assert answers(ensemble) == []  # the second time is on the disk of server 1 alone
    leader.release_disk()
    ensemble.servers.run()
    assert answers(ensemble) == [ReconfigResult(Code.OK, "", version)]


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Reconfig(0, 1), "server 1 leaves"),
        (Reconfig(1, 0, True), "server 1 becomes an observer"),
        (Reconfig(5, 0, True), "server 5 joins as an observer"),
        (Reconfig(4), "server 4 becomes a voter"),
        (Reconfig(4, 1), "server 4 becomes a voter in the place of server 1"),
    ],
)
def test_the_open_step_is_told_in_words(op: Reconfig, words: str) -> None:
    ensemble = promotable(strangers=1)
    for server in (1, 2):
        ensemble.servers.hold(server, 3)
    assert ask(ensemble, op) == []
    assert ensemble.servers[3].server.open_change.startswith(f"{words}, version ")
    assert ensemble.servers[1].server.open_change == ""


def test_a_replaced_disk_is_an_open_step_too() -> None:
    ensemble = Ensemble()
    ensemble.servers.crash(1)
    ensemble.servers.down[1].disk.repair()
    ensemble.servers.hold(2, 3)
    ensemble.servers.restart(1)
    ensemble.servers.hold(1, 3)
    ensemble.servers.pass_time(300)
    words = "the vote of server 1 moves to its new disk"
    assert ensemble.servers[3].server.open_change == words
    (refused,) = ask(ensemble, Reconfig(0, 2))
    assert refused == ReconfigResult(Code.RECONFIG_IN_PROGRESS, "another change is open")


def test_a_server_that_does_not_lead_names_the_leader() -> None:
    ensemble = Ensemble()
    reason = "server 1 does not lead; server 3 does"
    assert ask(ensemble, Reconfig(0, 2), at=1) == [ReconfigResult(Code.SYSTEM_ERROR, reason)]
    for server in (2, 3):
        ensemble.servers.crash(server)
    reason = "server 1 does not lead; none is known"
    assert ask(ensemble, Reconfig(0, 2), at=1) == [ReconfigResult(Code.SYSTEM_ERROR, reason)]


def test_a_refused_step_takes_no_zxid_and_tells_the_reason() -> None:
    ensemble = Ensemble()
    before = ensemble.servers[3].server.peer.history.logged
    reason = "server 3 leads: transfer the lead first"
    assert ask(ensemble, Reconfig(0, 3)) == [ReconfigResult(Code.BAD_ARGUMENTS, reason)]
    assert ensemble.servers[3].server.peer.history.logged == before
    (result,) = ask(ensemble, Reconfig(0, 1))
    assert result.code == 0


def test_the_version_is_that_of_the_list_or_of_the_config() -> None:
    ensemble = Ensemble(strangers=2)
    (first,) = ask(ensemble, Reconfig(4, 0, True, version=0))
    assert first.code == 0
    # Every told address changes the config, and no member.
    ensemble.operator.ask(ensemble.operator.write(SetData(CONFIG_PATH, b"", -1)))
    (second,) = ask(ensemble, Reconfig(0, 4, version=first.version))
    assert second.code == 0
    (refused,) = ask(ensemble, Reconfig(4, 0, True, version=first.version))
    assert refused.code == Code.BAD_VERSION
    assert (
        refused.reason == f"the list is that of version {second.version:x}, not {first.version:x}"
    )


def test_servers_of_an_earlier_version_know_no_change() -> None:
    (refused,) = ask(Ensemble(level=LEVEL_MIN), Reconfig(0, 1))
    assert refused.code == Code.UNIMPLEMENTED
    assert refused.reason == "some server is of a version that knows no changes of the member list"


def test_a_leader_that_hands_over_takes_no_step() -> None:
    ensemble = Ensemble()
    ensemble.servers[1].is_disk_held = True
    ensemble.operator.ask(ensemble.operator.create("/before"))
    ensemble.servers[3].step(TransferRequested(7, ServerId(1), 1_000, 1_000))
    ensemble.servers.run()
    (refused,) = ask(ensemble, Reconfig(0, 2))
    assert refused.code == Code.SYSTEM_ERROR
    reason = "server 3 proposes nothing now: its disk is full, or its lead ends"
    assert refused.reason == reason


def test_the_outcome_of_a_leader_that_is_deposed_is_not_known() -> None:
    ensemble = Ensemble(strangers=1)
    for server in (1, 2):
        ensemble.servers.hold(server, 3)
    assert ask(ensemble, Reconfig(4, 0, True)) == []
    ensemble.servers.pass_time(10_000)
    reason = "server 3 stopped leading before the step was over: look at the version"
    assert answers(ensemble) == [ReconfigResult(Code.CONNECTION_LOSS, reason)]


def test_the_list_of_an_earlier_leader_is_said_again_first() -> None:
    ensemble = Ensemble(voters=1, strangers=1)
    assert ask(ensemble, Reconfig(2, 0, True), at=1)[0].code == 0
    host = ensemble.servers[1]
    host.is_disk_held = True
    ensemble.servers.crash(1)
    ensemble.servers.restart(1)
    while not host.server.peer.is_active:
        host.sync_disk()
    words = "the list that an earlier leader has left is said again"
    assert host.server.open_change == words
    assert ask(ensemble, Reconfig(0, 2), at=1) == []  # it waits for that
    host.release_disk()
    ensemble.servers.run()
    assert [result.code for result in answers(ensemble, at=1)] == [Code.OK]
    assert host.server.open_change == ""
