"""Whole servers and their clients, for scenarios that are kept as data."""

import re

from msgspec.structs import replace

from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import Item
from raykeeper.znodes.requests import Request, WriteOp
from tests.harness.pure_servers import LIMITS, OPTIONS, Caller, PureServers
from tests.harness.struct_text import format_struct, format_value, parse_struct

DEFAULTS = {
    **{"watch": False, "version": -1, "value": b"", "flags": 0, "compares": [], "otherwise": []},
    **{"data": [], "exist": [], "child": []},
}


class ServersStage:
    """Servers, which `servers` makes anew, with clients that have sessions.

    What the clients receive is printed, with `…` for a znode's stat. Everything happens at once
    except on held wires and disks.
    """

    def servers(self, count: int, rest: str) -> None:
        """Start `count` servers, of which the last one leads; `rest` changes limits and options."""
        changed = {name: int(value) for name, _, value in (x.partition("=") for x in rest.split())}
        of_limits = {name: changed.pop(name) for name in list(changed) if hasattr(LIMITS, name)}
        self._servers = PureServers(
            count, limits=replace(LIMITS, **of_limits), options=replace(OPTIONS, **changed)
        )
        self._clients: dict[str, Caller] = {}
        self._ended: dict[str, None] = {}

    def client(self, name: str, server: int) -> None:
        """Open a session at a server."""
        self._clients[name] = self._servers[server].caller(len(self._clients) + 1)

    def take_up(self, name: str, other: str, server: int) -> None:
        """Take over the session of another client, at a server."""
        caller = Caller(self._servers[server], len(self._clients) + 1)
        caller.take_up(self._clients[other])
        self._clients[name] = caller

    def ask(self, name: str, lines: list[str]) -> str:
        """Send requests in one frame."""
        caller = self._clients[name]
        caller.host.step(caller.frame(*(self._request(caller, line) for line in lines)))
        return self.run()

    def step(self, server: int, lines: list[str]) -> str:
        """Give a server frames of clients in one step, and let nothing else happen."""
        requests: dict[str, list[Request]] = {}
        for name, _, text in (line.partition(" ") for line in lines):
            requests.setdefault(name, []).append(self._request(self._clients[name], text))
        frames = [self._clients[name].frame(*items) for name, items in requests.items()]
        self._servers[server].step(*frames)
        return self._news()

    def carry(self) -> None:
        """Let each wire carry one frame."""
        self._servers._carry()

    def run(self) -> str:
        self._servers.run()
        return self._news()

    def hold(self, *wires: str) -> None:
        """Keep the frames on wires, `1>3` from server 1 to server 3."""
        for wire in wires:
            self._servers.hold(*ends(wire))

    def release(self, *wires: str) -> str:
        for wire in wires:
            self._servers.release(*ends(wire))
        return self._news()

    def cut(self, one: int, other: int) -> str:
        self._servers.cut(one, other)
        return self._news()

    def link(self, one: int, other: int) -> str:
        self._servers.link(one, other)
        return self._news()

    def crash(self, server: int) -> str:
        self._servers.crash(server)
        return self._news()

    def restart(self, server: int) -> str:
        self._servers.restart(server)
        return self._news()

    def hold_disk(self, server: int) -> None:
        self._servers[server].is_disk_held = True

    def release_disk(self, server: int) -> str:
        self._servers[server].release_disk()
        return self.run()

    def busy(self, span: int) -> None:
        """Let time pass without a step."""
        self._servers.clock.now = Millis(self._servers.clock.now + span)

    def stats(self, server: int, *names: str) -> str:
        """Print some of a server's statistics."""
        stats = self._servers[server].server.stats()
        return " ".join(f"{name}={getattr(stats, name)}" for name in names)

    def notes(self, server: int, name: str) -> str:
        """Print the details of a server's trace events of one name."""
        return f"{name}: {format_value(self._servers[server].notes(name))}"

    def frames(self, name: str) -> str:
        """Print how many items each frame to a client had."""
        return f"{name} frames: {format_value([len(x.items) for x in self._clients[name].answers])}"

    def _request(self, caller: Caller, text: str) -> Request:
        name, _, fields = text.partition(" ")
        if name in {each.__name__ for each in WriteOp.__args__}:
            return caller.write(parse_struct(text, WriteOp, DEFAULTS))  # type: ignore[arg-type]
        return parse_struct(f"{name} xid={caller.next_xid()} {fields}", Request, DEFAULTS)  # type: ignore[return-value]

    def _news(self) -> str:
        found = []
        for name, caller in self._clients.items():
            found += [f"{name} {line_of(item)}" for item in caller.new()]
            if caller.ended is not None and name not in self._ended:
                self._ended[name] = None
                found.append(f"{name} ended {Code(caller.ended).name}")
        return "\n".join(found)


def ends(wire: str) -> tuple[int, int]:
    sender, _, receiver = wire.partition(">")
    return int(sender), int(receiver)


def line_of(item: Item) -> str:
    return re.sub(r"\(\d+:\d+ \d+:\d+ [^()]*\)", "…", format_struct(item))
