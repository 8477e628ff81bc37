"""MemberChanges: a server that was removed, and has not ended yet."""

from raykeeper.server.effects import LeaveEnsemble
from tests.unit.server.test_member_changes import WAIT_MS, Ensemble


def test_a_server_that_was_removed_is_not_added_again_before_it_has_ended() -> None:
    """It does not know yet that it is to end, and has kept up. With a vote in an ensemble of one it
    would take the majority with it, for good: it never starts again on that folder.
    """
    ensemble = Ensemble(voters=1, strangers=1)
    servers = ensemble.servers
    ensemble.does(2, observes=True)
    servers.pass_time(WAIT_MS)
    servers.hold(1, 2)
    ensemble.does(0, 2)
    reason = "server 2 was removed, and ends: start it anew before it is added"
    assert ensemble.refusal(2, observes=True) == f"NEW_CONFIG_NO_QUORUM: {reason}"
    assert servers[2].of(LeaveEnsemble) == []
    servers.release(1, 2)
    assert len(servers[2].of(LeaveEnsemble)) == 1
    servers.crash(2)
    assert "does not follow" in ensemble.refusal(2, observes=True)
    servers.down[2].disk.repair()
    servers.restart(2)
    servers.pass_time(1_000)
    ensemble.does(2, observes=True)
    assert "has kept up for" in ensemble.refusal(2)


def test_a_server_that_is_removed_while_it_is_away_may_come_back_at_once() -> None:
    ensemble = Ensemble(observers=1)
    ensemble.servers.crash(4)
    ensemble.does(0, 4)
    ensemble.servers.restart(4)
    ensemble.does(4, observes=True)
