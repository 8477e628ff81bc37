"""What happened to the servers between two looks."""

from raykeeper.clusters.admin import EnsembleAdmin
from raykeeper.commands.ui.observed_changes import observe_changes
from raykeeper.zab.effects import Role
from tests.harness.admin_servers import AdminServers
from tests.harness.pure_servers import OPTIONS, TIMING, PureServers

LATE = "no answer within 2 s"


class Watched:
    """Three servers, of which 3 leads, and what was seen of them last."""

    def __init__(self) -> None:
        self.servers = PureServers(3, options=OPTIONS)
        self.asked = AdminServers(self.servers)
        self.last = EnsembleAdmin(self.asked).load()

    def changes(self) -> list[str]:
        """Return what happened since the last call."""
        self.asked.hosts = dict(self.servers.hosts)
        before, self.last = self.last, EnsembleAdmin(self.asked).load()
        return observe_changes(before, self.last)


def test_nothing_happens_while_all_serve() -> None:
    of = Watched()
    of.servers.pass_time(TIMING.tick_ms)
    caller = of.servers[1].caller(1)
    caller.ask(caller.create("/a"))
    assert of.changes() == []


def test_a_server_that_is_late_and_comes_back_is_told() -> None:
    of = Watched()
    of.asked.silent[1] = LATE
    assert of.changes() == [f"server 1 is down: {LATE}"]
    assert of.changes() == []
    of.asked.silent.clear()
    assert of.changes() == ["server 1 is back: follower"]


def test_a_new_leader_is_told_with_its_epoch() -> None:
    of = Watched()
    of.servers.crash(3)
    of.asked.silent[3] = "its actor is dead"
    while not any(host.server.peer.is_active for host in of.servers.hosts.values()):
        of.servers.pass_time(TIMING.tick_ms)
    assert of.changes() == ["server 2 leads, epoch 2", "server 3 is down: its actor is dead"]
    of.servers.restart(3)
    of.asked.silent.clear()
    while of.servers[3].server.peer.role is Role.LOOKING:
        of.servers.pass_time(TIMING.tick_ms)
    assert of.changes() == ["server 3 is back: follower"]


def test_a_server_that_was_started_again_between_two_looks_is_told() -> None:
    of = Watched()
    of.servers.pass_time(TIMING.tick_ms)
    of.changes()
    of.servers.crash(1)
    of.servers.restart(1)
    (told,) = of.changes()
    assert told.startswith("server 1 was started again: ")


def test_a_server_without_a_leader_is_told() -> None:
    of = Watched()
    for other in (2, 3):
        of.servers.crash(other)
        of.asked.silent[other] = LATE
    while of.servers[1].server.peer.role is not Role.LOOKING:
        of.servers.pass_time(TIMING.tick_ms)
    assert of.changes() == [
        "there is no leader",
        "server 1, follower before, is looking",
        f"server 2 is down: {LATE}",
        f"server 3 is down: {LATE}",
    ]
    assert of.changes() == []


def test_members_come_and_go() -> None:
    of = Watched()
    of.asked.silent[4] = "not started"
    assert of.changes() == ["server 4 is new: down"]
    del of.asked.silent[4]
    assert of.changes() == ["server 4 is no member any more"]
