"""Steps of the timelines that are played in the world of `zab_world`.

Everything takes no time unless a test says so, and with equal histories server 3 is elected.
"""

from collections.abc import Callable
from random import Random

from raykeeper.zab.effects import Effect, Send
from raykeeper.zab.ids import ServerId, format_zxid
from raykeeper.zab.messages import ZabMessage
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.zab_world import ZabServer, ZabWorld

SMALL = RecentLogLimits(txns_max=1)
"""So little of the log is in memory that a DIFF comes from the disk."""
FAR = RecentLogLimits(txns_max=1, read_log_bytes_max=1)
"""So little may be read back that who is behind gets a whole snapshot."""


def make_world(
    voters: int = 3, learners: int = 0, seed: int = 1, window: RecentLogLimits | None = None
) -> ZabWorld:
    world = ZabWorld(Random(seed), voters, learners, window)
    world.latency_ms = world.dial_ms = world.disk_ms = 0
    world.notice_ms = 5
    return world


def start(world: ZabWorld, *servers: ServerId) -> None:
    """Start these servers, or all that are down, and let them form an ensemble."""
    for server_id in servers or world.servers:
        if world.servers[server_id].peer is None:
            world.start(server_id)
    world.run_until(world.now + 1_000)


def write(world: ZabWorld, leader: ServerId, count: int = 1) -> None:
    """Have `leader` commit `count` transactions."""
    assert world.propose(leader, count)
    world.run_until(world.now + 50)


def crash(world: ZabWorld, *servers: ServerId) -> None:
    """Kill servers, and give the others time to notice."""
    for server_id in servers:
        world.crash(server_id)
    world.run_until(world.now + 1_000)


def isolate(world: ZabWorld, server_id: ServerId) -> None:
    """Lose all messages from and to a server."""
    for other in world.servers:
        if other != server_id:
            world.cut(server_id, other)
            world.cut(other, server_id)


def log_of(world: ZabWorld, server_id: ServerId) -> list[str]:
    """Return the zxids on the disk of a server."""
    return [format_zxid(zxid) for zxid, _ in world.servers[server_id].disk.entries]


def committed(world: ZabWorld) -> list[str]:
    """Return the zxids that any server has delivered."""
    return [format_zxid(zxid) for zxid, _ in world.properties.committed]


def converge(world: ZabWorld) -> None:
    """Bring all servers back; check that each has every committed entry and nothing else."""
    world.ambush = None
    world.heal()
    start(world)
    world.run_until(world.now + 3_000)
    for server_id, server in world.servers.items():
        assert log_of(world, server_id) == committed(world), server_id
        assert server.applied == len(committed(world)), server_id


def delay(world: ZabWorld, sender: ServerId, receiver: ServerId, ms: int) -> None:
    """Delay all later messages on this link by `ms`."""
    world.servers[sender].links[receiver].arrival[receiver] = world.now + ms


def watch(
    world: ZabWorld, what: Callable[[ZabServer, Effect], bool], then: Callable[[], None]
) -> None:
    """When an effect that satisfies `what` is about to be carried out, do `then` right after it."""

    def ambush(server: ZabServer, effect: Effect) -> None:
        if what(server, effect):
            world.ambush = None
            world.after(0, then)

    world.ambush = ambush


def record(world: ZabWorld) -> list[tuple[ServerId, Effect]]:
    """Return a list that grows by every effect that any server emits from now on."""
    seen: list[tuple[ServerId, Effect]] = []
    world.ambush = lambda server, effect: seen.append((server.id, effect))
    return seen


def said(
    seen: list[tuple[ServerId, Effect]], sender: ServerId, to: ServerId | None = None
) -> list[ZabMessage]:
    """Return the messages of one server among `seen`, to any server or to one."""
    return [
        effect.message
        for server, effect in seen
        if server == sender and isinstance(effect, Send) and to in (None, effect.peer)
    ]
