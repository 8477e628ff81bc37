"""Server: a disk that fills up and has space again (rule D6), in each role."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.effects import Restart
from raykeeper.server.events import DiskSpaceChanged
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.server.server import Server
from raykeeper.zab.effects import Append, CheckDiskSpace, Role, TraceEvent
from raykeeper.zab.ids import ZERO, Epoch, Millis, Now, ServerId
from raykeeper.zab.messages import Ack, LogPaused
from raykeeper.zab.settings import Settings
from raykeeper.znodes.replies import EmptyReply, GetDataReply, WriteReply
from tests.harness.pure_servers import LIMITS, OPTIONS, TIMING, PureServer, PureServers

S1, S2 = ServerId(1), ServerId(2)
FULL, ROOM = DiskSpaceChanged(False), DiskSpaceChanged(True)
EVERY_MS = OPTIONS.disk_space_check_ms


def fill(host: PureServer) -> None:
    """Fill the disk: it can allocate nothing more, and the next segment is its last."""
    host.disk.log_space.is_full = True


def empty(host: PureServer) -> None:
    host.disk.log_space.is_full = False


class TestChecksDiskSpace:
    """A server asks its full disk periodically whether it has space again."""

    def test_it_checks_until_the_disk_has_space(self) -> None:
        host = PureServer(segment_bytes=1)
        caller = host.caller()
        fill(host)
        caller.ask(caller.create("/a"))
        assert host.of(CheckDiskSpace) == []
        assert host.notes(server_trace_events.DISK_FULL) == [None]
        assert not host.server.stats().has_disk_space
        for checks in (1, 2, 3):
            host.pass_time(EVERY_MS)
            assert len(host.of(CheckDiskSpace)) == checks
        assert host.notes(server_trace_events.DISK_FULL) == [None]
        empty(host)
        host.pass_time(EVERY_MS)
        assert host.notes(server_trace_events.DISK_SPACE_FREED) == [None]
        assert host.server.stats().has_disk_space
        host.pass_time(3 * EVERY_MS)
        assert len(host.of(CheckDiskSpace)) == 4

    def test_it_checks_on_time_and_once_until_the_disk_answers(self) -> None:
        host = PureServer(1, (1, 2))
        host.is_disk_held = True
        host.step(FULL)
        until = host.clock.now + EVERY_MS
        while (due := host.server.deadline()) is not None and due < until:
            host.clock.now = due
            assert CheckDiskSpace() not in host.step()
        assert host.server.deadline() == until
        host.clock.now = type(host.clock.now)(until)
        assert CheckDiskSpace() in host.step()
        host.pass_time(5 * EVERY_MS)
        assert len(host.of(CheckDiskSpace)) == 1

    def test_it_checks_from_its_start(self) -> None:
        recovered = RecoveredState(
            Epoch(0), Epoch(0), ZERO, ZERO, [], [], ZERO, has_disk_space=False
        )
        server = Server(Settings(S1, (S1, S2), timing=TIMING), LIMITS, OPTIONS, recovered)
        effects = server.start(Now(Millis(70_000), Millis(0)))
        assert not server.stats().has_disk_space
        assert server_trace_events.DISK_FULL not in [
            e.name for e in effects if isinstance(e, TraceEvent)
        ]
        early = server.step([], Now(Millis(70_000 + EVERY_MS - 1), Millis(0)))
        assert CheckDiskSpace() not in early
        assert CheckDiskSpace() in server.step([], Now(Millis(70_000 + EVERY_MS), Millis(0)))

    def test_it_does_not_check_while_the_disk_has_space(self) -> None:
        host = PureServer()
        host.step(ROOM)
        assert host.notes(server_trace_events.DISK_SPACE_FREED) == []
        host.pass_time(3 * EVERY_MS)
        assert host.of(CheckDiskSpace) == []


class TestFollower:
    """A follower continues in memory alone until its disk has space again or its role ends."""

    def paused(self) -> PureServers:
        """Return an ensemble in which server 1 follows; its disk is full after one more write."""
        servers = PureServers(3, segment_bytes=1)
        fill(servers[1])
        caller = servers[3].caller(7)
        assert len(caller.ask(caller.create("/before"))) == 1
        assert len(servers[1].sent(LogPaused)) == 1
        servers[1].take()
        return servers

    def test_a_follower_serves_on_without_logging(self) -> None:
        servers = self.paused()
        host = servers[1]
        caller = host.caller()
        items = caller.ask(caller.create("/a"), caller.sync(), caller.get("/a"))
        assert [type(item) for item in items] == [WriteReply, EmptyReply, GetDataReply]
        assert host.of(Append) == [] == host.sent(Ack)
        assert host.disk.log[-1][0] < host.server.state.zxid
        assert len(set(servers.digests())) == 1
        assert host.of(Restart) == []

    def test_its_leader_keeps_it(self) -> None:
        servers = self.paused()
        caller = servers[2].caller()
        for second in range(15):  # longer than a follower may owe an ack
            assert len(caller.ask(caller.create(f"/{second}"))) == 1
            servers.pass_time(1_000)
        assert servers[1].server.peer.is_active
        assert servers[3].broken == []

    def test_it_restarts_when_the_disk_has_space_again(self) -> None:
        servers = self.paused()
        host = servers[1]
        empty(host)
        servers.pass_time(EVERY_MS)
        assert host.of(Restart) == [Restart("the disk has space again", wipe_disk=False)]
        servers.crash(1)
        servers.restart(1)
        caller = servers[3].caller(8)
        servers[1].take()
        assert len(caller.ask(caller.create("/after"))) == 1
        assert servers[1].of(Append) != []
        assert len(set(servers.digests())) == 1

    def test_it_restarts_when_its_role_ends(self) -> None:
        """The tree is ahead of the disk, and a vote must name the disk's state (rule Z2)."""
        servers = self.paused()
        caller = servers[2].caller()
        caller.ask(caller.create("/a"))
        servers.cut(1, 3)
        reason = "the log was paused, and the role ends"
        assert servers[1].of(Restart) == [Restart(reason, wipe_disk=False)]
        assert servers[1].server.peer.role is Role.LOOKING

    def test_it_restarts_only_once(self) -> None:
        servers = PureServers(3, segment_bytes=1)
        fill(servers[1])
        servers[3].caller(7)  # all its transactions are on disk, so it starts an election at once
        assert servers[1].server.peer.history.is_paused
        servers.cut(1, 3)
        servers.link(1, 3)
        servers.pass_time(500)
        assert servers[1].server.peer.leader == 3
        assert len(servers[1].of(Restart)) == 1

    def test_it_goes_on_if_space_returns_before_it_follows(self) -> None:
        servers = PureServers(3)
        servers.cut(1, 3)
        servers.cut(1, 2)
        servers[1].step(FULL)
        servers[1].step(ROOM)
        servers.link(1, 3)
        servers.link(1, 2)
        servers.pass_time(500)
        assert servers[1].server.peer.is_active
        assert servers[1].sent(LogPaused) == [] == servers[1].of(Restart)


class TestLeader:
    """A leader hands over to a server with disk space; if there is none, writes wait."""

    def test_it_steps_down_for_a_follower_with_space(self) -> None:
        servers = PureServers(3, segment_bytes=1)
        caller = servers[1].caller()
        fill(servers[3])
        items = caller.ask(*(caller.create(f"/{n}") for n in range(3)))
        servers.pass_time(1_000)
        more = caller.ask(*(caller.create(f"/more{n}") for n in range(3)))
        assert [type(item) for item in (*items, *caller.new(), *more)] == [WriteReply] * 6
        assert servers.leader is servers[2]
        assert servers[3].server.peer.is_active  # it follows, but does not log
        assert len(set(servers.digests())) == 1

    @pytest.mark.parametrize("count", [1, 3])
    def test_writes_wait_until_a_quorum_has_space(self, count: int) -> None:
        servers = PureServers(count, segment_bytes=1)
        leader = servers.leader
        caller, reader = leader.caller(1), leader.caller(2)
        for host in servers.hosts.values():
            fill(host)
        caller.ask(caller.create("/fits"))
        servers.pass_time(100)
        leader.take()
        assert caller.ask(caller.create("/a")) == []
        assert leader.server.peer.broadcasting is not None
        assert leader.of(Append) == []
        assert [type(item) for item in reader.ask(reader.get("/fits"))] == [GetDataReply]
        servers.pass_time(2_000)
        assert caller.new() == [] and caller.ended is None
        for host in servers.hosts.values():
            empty(host)
        servers.pass_time(2 * EVERY_MS)
        for number, host in list(servers.hosts.items()):
            if host.of(Restart):
                servers.crash(number)
                servers.restart(number)
        servers.pass_time(2_000)
        assert [type(item) for item in caller.new()] == [WriteReply]
        assert leader.server.peer.epoch > 1
        assert leader.of(Restart) == []

    def test_it_opens_and_expires_no_sessions_meanwhile(self) -> None:
        host = PureServer(segment_bytes=1)
        quiet = host.caller(1, timeout_ms=1_000)
        host.track()
        fill(host)
        host.pass_time(100)
        loud = host.caller(2)
        assert not host.server.stats().has_disk_space
        host.pass_time(3_000)
        assert quiet.ended is None and loud.ended is None
        late = host.caller(3)
        assert late.greeting is None
        empty(host)
        host.pass_time(3_000)
        assert quiet.ended is not None
        assert late.greeting is not None
