"""The commands of scenarios that are texts: acts and faults in a `ZabWorld`, and what is shown.

The properties of Zab are checked at every step, whatever the file expects. What servers do is told
in the lines of `zab_text`; `trace` prints them, and `when` waits for one.

An act happens at once; then time passes, `ms` of it. Below `when` and `after` no time passes: what
is shown there is of the moment before the awaited act is carried out, and faults strike right after
it. Messages and disks take no time unless `delays` says so, an end notices within 5 ms that its
link broke, and of servers with equal histories the last is elected.
"""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Final

from raykeeper.zab.effects import Effect, Send, Truncate
from raykeeper.zab.ids import ServerId
from raykeeper.zab.messages import AckEpoch
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.datadriven import Then
from tests.harness.zab_text import format_effect, format_zxids, name_of
from tests.harness.zab_world import ZabServer, ZabWorld

CHATTER: Final = re.compile(r"\S+ -> \S+ (NOTIFICATION|PING|PONG|SNAPSHOTC)")
"""Lines that a trace of a server leaves out."""
MEMORY: Final = {
    "usual": RecentLogLimits(),
    "one": RecentLogLimits(txns_max=1),
    "one, no reading back": RecentLogLimits(txns_max=1, read_log_bytes_max=1),
}
"""The log in memory: with one transaction a DIFF comes from the disk, or else a whole snapshot."""
ANY: Final = ServerId(0)


def read_server(word: str) -> ServerId:
    if not re.fullmatch(r"S[1-9]\d*", word):
        raise ValueError(f"{word!r} is no server like S1")
    return ServerId(int(word[1:]))


def read_memory(word: str) -> RecentLogLimits:
    if word not in MEMORY:
        raise ValueError(f"{word!r} is none of {', '.join(map(repr, MEMORY))}")
    return MEMORY[word]


READERS: dict[Any, Callable[[str], Any]] = {
    ServerId: read_server,
    RecentLogLimits: read_memory,
}


class ZabScenario:
    """The public methods are the commands; `world` must be the first one."""

    def __init__(self) -> None:
        self._printed: list[str] = []
        self._traced: tuple[str, ...] = ()
        self._awaited: list[tuple[str, Then]] = []
        self._is_in_act = False

    # The world, and time.

    def world(
        self,
        voters: int = 3,
        observers: int = 0,
        seed: int = 1,
        memory: RecentLogLimits = MEMORY["usual"],
    ) -> None:
        """Make the servers, all of them down; voters have the lower numbers."""
        self.zab = ZabWorld(Random(seed), voters, observers, memory)
        self.zab.dial_ms = 0
        self.zab.ambush = self._observe
        self.delays()

    def delays(self, latency: int = 0, disk: int = 0, notice: int = 5) -> None:
        """Set how long, at most, a message, an act of a disk, and the news of a break take."""
        self.zab.latency_ms, self.zab.disk_ms = latency, disk
        self.zab.notice_ms = notice

    def run(self, ms: int) -> str:
        return self._act(lambda: None, ms)

    def after(self, ms: int, then: Then) -> None:
        """Carry out the commands below later, while other commands let time pass."""
        self.zab.after(ms, lambda: self._strike(then))

    def when(self, pattern: str, then: Then) -> None:
        """Carry out the commands below once, when a server does what the pattern (`*`) says."""
        self._awaited.append((pattern, then))

    def repeat(self, count: int, then: Then) -> str:
        """Carry out the commands below several times."""
        return "\n".join(line for _ in range(count) for line in then())

    # Acts and faults.

    def start(self, *servers: ServerId, ms: int = 1_000) -> str:
        """Start servers, or all that are down."""

        def start() -> None:
            for server_id in servers or self.zab.servers:
                if servers or self.zab.servers[server_id].peer is None:
                    self.zab.start(server_id)

        return self._act(start, ms)

    def crash(self, *servers: ServerId, ms: int = 1_000) -> str:
        """Crash servers; a random part of what is under way on their disks is kept."""
        return self._each(servers, self.zab.crash, ms)

    def wipe(self, *servers: ServerId, ms: int = 0) -> str:
        """Crash servers and empty their disks."""
        return self._each(servers, self.zab.wipe, ms)

    def isolate(self, *servers: ServerId, ms: int = 0) -> str:
        """Lose all messages from and to each of these servers, also between them."""

        def isolate(server_id: ServerId) -> None:
            for other in self.zab.servers:
                if other != server_id:
                    self.zab.cut(server_id, other)
                    self.zab.cut(other, server_id)

        return self._each(servers, isolate, ms)

    def cut(self, one: ServerId, other: ServerId, ms: int = 0) -> str:
        """Lose all messages between two servers."""

        def cut() -> None:
            self.zab.cut(one, other)
            self.zab.cut(other, one)

        return self._act(cut, ms)

    def lose(self, sender: ServerId, to: ServerId, ms: int = 0) -> str:
        """Lose all messages of one server to another one."""
        return self._act(lambda: self.zab.cut(sender, to), ms)

    def heal(self, ms: int = 0) -> str:
        """Lose no more messages."""
        return self._act(self.zab.heal, ms)

    def flap(self, one: ServerId, other: ServerId, ms: int = 0) -> str:
        """Break a link, which comes up again."""
        return self._act(lambda: self.zab.flap(one, other), ms)

    def delay(self, sender: ServerId, to: ServerId, by: int) -> None:
        """Delay all messages on this link from now on, that of the awaited act included."""
        self.zab.servers[sender].links[to].arrival[to] = self.zab.now + by

    def stall(self, server: ServerId, by: int) -> None:
        """Let a disk complete nothing that begins now or later for `by` ms."""
        self.zab.servers[server].slow_until = self.zab.now + by

    def snapshot(self, *servers: ServerId, purged: int = 0) -> None:
        """Publish a snapshot of the whole log, whose first entries are then purged."""
        for server_id in servers:
            disk = self.zab.servers[server_id].disk
            disk.snapshot = disk.consistent = len(disk.entries)
            disk.log_start = purged

    def write(self, leader: ServerId = ANY, count: int = 1, ms: int = 50) -> str:
        """Propose transactions at a leader, or at the only one that there is."""
        if leader == ANY:
            (leader,) = self.zab.leaders()

        def propose() -> None:
            assert self.zab.propose(leader, count), f"{name_of(leader)} does not lead"

        return self._act(propose, ms)

    def transfer(self, to: ServerId = ANY, within: int = 1_000, ms: int = 50) -> str:
        """Have the only leader transfer the lead, to any voter if none is named."""
        (leader,) = self.zab.leaders()
        refused: list[str] = []

        def transfer() -> None:
            refusal = self.zab.transfer(leader, None if to == ANY else to, within)
            refused.extend([f"{name_of(leader)} refuses: {refusal}"] if refusal else [])

        found = self._act(transfer, ms)
        return "\n".join(filter(None, [*refused, found]))

    def freeze(self, server: ServerId, by: int) -> None:
        """Have a server come to nothing for `by` ms (SIGSTOP); its disk goes on."""
        self.zab.servers[server].paused_until = self.zab.now + by

    def read(self, server: ServerId, ms: int = 0) -> str:
        """Ask a server that leads, or believes so, for a linearizable read."""
        return self._act(lambda: self.zab.read(server), ms)

    # What is shown.

    def trace(self, *patterns: str) -> None:
        """Print what servers do from now on, if it is like a pattern (`*`).

        A server stands for all that it does, is sent or sends, save notifications, pings and the
        chunks of snapshots. Without a pattern nothing is printed any more.
        """
        self._traced = patterns

    def logs(self, *servers: ServerId) -> str:
        """Show what is on the disks of servers, or of all."""
        return "\n".join(
            f"{name_of(server.id)} log: {format_zxids(zxid for zxid, _ in server.disk.entries)}"
            for server in self._chosen(servers)
        )

    def epochs(self, *servers: ServerId) -> str:
        """Show accepted and current epoch on the disks of servers, or of all."""
        return "\n".join(
            f"{name_of(server.id)} epochs: {server.disk.accepted}/{server.disk.current}"
            for server in self._chosen(servers)
        )

    def roles(self, *servers: ServerId) -> str:
        """Show the roles of servers, or of all."""
        return "\n".join(
            f"{name_of(server.id)} {describe_role(server)}" for server in self._chosen(servers)
        )

    def committed(self) -> str:
        """Show what any server has delivered."""
        return f"committed: {self._committed()}"

    def events(self, *names: str) -> str:
        """Show how many trace events of these names the servers have emitted."""
        return "\n".join(f"{name}: {self.zab.notes.get(name, 0)}" for name in names)

    def converge(self) -> str:
        """Heal and start all; check that each has every committed transaction and nothing else."""
        assert not self._awaited, f"nobody did {self._awaited[0][0]!r}"
        self.heal()
        found = self.start(ms=4_000)
        for server in self.zab.servers.values():
            assert server.disk.entries == self.zab.properties.committed, name_of(server.id)
            assert server.applied == len(server.disk.entries), name_of(server.id)
        return f"{found}\nall have {self._committed()}".lstrip()

    # The rest is no command.

    def _act(self, act: Callable[[], None], ms: int) -> str:
        if self._is_in_act:
            self.zab.after(0, act)
            return ""
        act()
        if ms > 0:
            self.zab.run_until(self.zab.now + ms)
        found = "\n".join(self._printed)
        self._printed.clear()
        return found

    def _each(self, servers: tuple[ServerId, ...], act: Callable[[ServerId], None], ms: int) -> str:
        def act_on_each() -> None:
            for server_id in servers:
                act(server_id)

        return self._act(act_on_each, ms)

    def _observe(self, server: ZabServer, effect: Effect) -> None:
        self._check(server, effect)
        line = format_effect(server.id, effect)
        if line is None:
            return
        struck = [found for found in self._awaited if fnmatchcase(line, found[0])]
        if self._is_traced(line):
            self._printed.append(line)
        for found in struck:
            self._awaited.remove(found)
            self._strike(found[1])

    def _check(self, server: ZabServer, effect: Effect) -> None:
        """Check what holds at each step besides the properties."""
        if isinstance(effect, Send) and isinstance(effect.message, AckEpoch):
            # Rule Z2: a server tells a leader the end of the log on its disk.
            assert effect.message.last_zxid == server.disk.last, server.id
        if isinstance(effect, Truncate):
            assert effect.upto >= self.zab.properties.last, "a committed transaction is cut"
        assert server.peer is not None
        history = server.peer.history
        assert history.recent_log.base <= history.recent_log.last
        if history.is_disk_idle:
            assert history.recent_log.base <= history.delivered <= history.recent_log.last

    def _strike(self, then: Then) -> None:
        was, self._is_in_act = self._is_in_act, True
        self._printed += then()
        self._is_in_act = was

    def _is_traced(self, line: str) -> bool:
        is_chatter = CHATTER.match(line)
        return any(
            not is_chatter and (line.startswith(f"{each} ") or f"-> {each} " in line)
            if re.fullmatch(r"S\d+", each)
            else fnmatchcase(line, each)
            for each in self._traced
        )

    def _chosen(self, servers: tuple[ServerId, ...]) -> list[ZabServer]:
        return [self.zab.servers[server_id] for server_id in servers or self.zab.servers]

    def _committed(self) -> str:
        return format_zxids(zxid for zxid, _ in self.zab.properties.committed)


def describe_role(server: ZabServer) -> str:
    if server.peer is None:
        return "is down"
    leader = server.peer.leader
    if leader is None:
        return "is looking"
    if server.peer.is_active:
        how = "leads" if leader == server.id else f"follows {name_of(leader)}"
        return f"{how} in epoch {server.peer.epoch}"
    return "prepares to lead" if leader == server.id else f"joins {name_of(leader)}"
