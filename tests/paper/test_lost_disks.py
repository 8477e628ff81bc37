"""ZOOKEEPER-261: a server whose disk was wiped must not vote as if it had promised nothing.

Rule D3: the member list, part of the replicated state, names the disk on which each vote rests; a
new disk gets its vote by a transaction that voters other than it commit. Three whole servers.
"""

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import FOUNDING_DISK, Epoch
from raykeeper.zab.settings import Settings
from raykeeper.znodes.replies import ConnectReply, GetDataReply, Item, WriteReply
from tests.harness.pure_servers import Caller, PureServers
from tests.harness.sim_disk import SimDisk


def codes(items: list[Item]) -> list[int]:
    return [item.code for item in items if isinstance(item, WriteReply)]


def values(items: list[Item]) -> list[bytes]:
    return [item.value for item in items if isinstance(item, GetDataReply)]


def wipe(servers: PureServers, server_id: int) -> None:
    """The server, which is down, will start from a new and empty disk."""
    host = servers.down[server_id]
    host.disk.repair()
    use_disk(servers, server_id)


def use_disk(servers: PureServers, server_id: int) -> None:
    """The next process knows the disk that is there."""
    host = servers.down[server_id]
    was = host.settings
    host.settings = Settings(
        was.server_id, was.members.voters, host.disk.disk, was.timing, was.window
    )


def leaders(servers: PureServers) -> list[int]:
    found = [(n, host.server.peer) for n, host in servers.hosts.items()]
    return [n for n, peer in found if peer.role is Role.LEADER and peer.is_active]


def committed_without_one() -> tuple[PureServers, Caller]:
    """S1 is down while "new" is committed by S2 and S3; then S2 and S3 go down too."""
    servers = PureServers(3)
    one = servers[2].caller(1)
    assert codes(one.ask(one.create("/a", b"old"))) == [0]
    servers.crash(1)
    assert codes(one.ask(one.set("/a", b"new"))) == [0]
    servers.crash(2)
    servers.crash(3)
    return servers, one


def read(servers: PureServers, server_id: int, before: Caller, connection: int) -> list[bytes]:
    """What a client that takes up its session on this server reads behind a sync."""
    again = Caller(servers[server_id], connection)
    assert isinstance(again.take_up(before), ConnectReply)
    return values(again.ask(again.sync(), again.get("/a")))


def test_zookeeper_261_a_wiped_disk_and_one_that_is_behind_are_no_quorum() -> None:
    """Together they do not know what was committed, and so must not begin.

    1. "new" was committed by S2 and S3, while S1 was down.
    2. S2 loses its disk; S3 is down. S1 and S2 start.
    3. ZooKeeper's S2, empty, votes: both elect S1, and "new" is gone.
    4. S3 comes back: all have "new".
    """
    servers, one = committed_without_one()
    wipe(servers, 2)
    servers.restart(1)
    servers.restart(2)
    servers.pass_time(20_000)
    assert leaders(servers) == []
    servers.restart(3)
    servers.pass_time(2_000)
    assert leaders(servers) == [3]
    assert read(servers, 2, one, 50) == [b"new"]
    assert len(set(servers.digests())) == 1


def test_zookeeper_261_the_vote_comes_back_without_a_person() -> None:
    """A new disk that has what a quorum has is named in the member list, and counts from then on.

    1. S2 starts from an empty disk, while S1 and S3 are up.
    2. It is synchronized, and a transaction puts its vote on the new disk.
    3. S3 dies: S1 and S2 are a quorum, also when both restart at once.
    """
    servers, one = committed_without_one()
    wipe(servers, 2)
    for server_id in (3, 1, 2):
        servers.restart(server_id)
    servers.pass_time(2_000)
    new = servers[2].disk.disk
    assert new != FOUNDING_DISK
    for host in servers.hosts.values():
        assert host.server.state.voters == {2: new}
        assert host.server.peer.settings.members.has_vote(servers[2].server_id, new)
    servers.crash(3)
    servers.pass_time(2_000)
    assert len(leaders(servers)) == 1
    for server_id in (1, 2):
        servers.crash(server_id)
        use_disk(servers, server_id)
    for server_id in (1, 2):
        servers.restart(server_id)
    servers.pass_time(2_000)
    assert len(leaders(servers)) == 1
    assert read(servers, 1, one, 50) == [b"new"]


def test_zookeeper_261_the_new_disk_does_not_count_for_itself() -> None:
    """Its transaction is committed by a majority of the voters other than it.

    1. S2 starts from an empty disk; only S3 is up, which has everything.
    2. S3 and S2 are two of three, and yet no quorum: S3 alone vouches for what was committed.
    3. S1 comes: now there is one.
    """
    servers, one = committed_without_one()
    wipe(servers, 2)
    servers.restart(3)
    servers.restart(2)
    servers.pass_time(20_000)
    assert leaders(servers) == []
    servers.restart(1)
    servers.pass_time(2_000)
    assert leaders(servers) == [3] and read(servers, 1, one, 50) == [b"new"]


class Contents:
    """What is on a disk, to be put back later."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = (disk.disk, disk.accepted, disk.current, disk.committed)
        self.log, self.snapshots = list(disk.log), list(disk.snapshots)

    def put_back(self, disk: SimDisk) -> None:
        disk.repair()
        disk.disk, disk.accepted, disk.current, disk.committed = self.disk
        disk.log, disk.snapshots = list(self.log), list(self.snapshots)


def test_zookeeper_261_the_old_disk_is_the_unknown_one_when_it_returns() -> None:
    """What was replaced has no vote any more, with all its promises.

    1. S2's disk is replaced, the new one gets the vote, and "newest" is committed by S2 and S3
       while S1 is down.
    2. All go down; S2 comes back from its old disk, with S1.
    3. Neither of them knows "newest": they must not begin.
    """
    servers, one = committed_without_one()
    old = Contents(servers.down[2].disk)
    wipe(servers, 2)
    for server_id in (3, 1, 2):
        servers.restart(server_id)
    servers.pass_time(2_000)
    servers.crash(1)
    servers.pass_time(1_000)
    again = Caller(servers[3], 60)
    assert isinstance(again.take_up(one), ConnectReply)
    assert codes(again.ask(again.set("/a", b"newest"))) == [0]
    servers.crash(2)
    servers.crash(3)
    old.put_back(servers.down[2].disk)
    for server_id in (1, 2):
        use_disk(servers, server_id)
        servers.restart(server_id)
    servers.pass_time(20_000)
    assert leaders(servers) == []
    use_disk(servers, 3)
    servers.restart(3)
    servers.pass_time(3_000)
    assert leaders(servers) == [3]
    assert read(servers, 1, again, 70) == [b"newest"]
    assert any(servers[3].notes(trace_events.LEARNER_JOINED)) and servers[3].disk.current > Epoch(1)
