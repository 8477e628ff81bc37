"""ZooKeeper's four-letter words: a connection that begins with one gets its text, and is closed.

| word | its text |
|---|---|
| ruok, isro | that the server is there; whether it takes writes |
| envi, gtmk | the process; the trace mask |
| srvr, stat, mntr | state, counts and latencies; `stat` the connections too |
| conf, dirs | settings; sizes on disk |
| cons, wchs, dump, wchc, wchp | connections, watches, sessions and ephemerals |
| srst, crst | that the counts of the server, or of its connections, begin anew |

Without a leader, and until read-only mode begins, all but the first four say only that the server
does not serve. Of the process the server knows nothing: it asks the shell (`ReadProcessFacts`),
once for all words that wait.

ZooKeeper: `FourLetterCommands`, `CommandExecutor`, `server/command/`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from raykeeper.server.connection import Connection
from raykeeper.server.connection_stats import ConnectionStats, connection_stats
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import CloseClient, ReadProcessFacts, SendClient
from raykeeper.server.monitoring import (
    READ_ONLY,
    VERSION,
    average_of,
    monitor_values,
    server_state,
)
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.server.read_only_mode import ReadOnlyMode
from raykeeper.server.stats import ServerStats, collect_stats
from raykeeper.zab.effects import Role

NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests\n"
ALWAYS_ALLOWED: Final = ("srvr", "isro")
"""As in ZooKeeper: its own scripts and read-only clients need them."""
EVERY_WORD: Final = "*"
NEVER_ANSWERED: Final = ("hash", "stmk")
_WITHOUT_LEADER: Final = ("ruok", "isro", "envi", "gtmk")


class FourLetterWords:
    """Answers the words of one server's connections."""

    def __init__(
        self,
        context: ServerContext,
        read_only: ReadOnlyMode,
        connections: Mapping[int, Connection],
    ) -> None:
        """`connections` are all of the server, by number."""
        self._context = context
        self._read_only = read_only
        self._connections = connections
        self._waiting: dict[int, str] = {}  # for the facts of the process, by connection
        self._has_requested_facts = False  # the shell has not answered yet
        self._texts: dict[str, Callable[[], str]] = {
            "ruok": lambda: "imok",
            "isro": self._isro,
            "gtmk": lambda: "0",  # nothing is traced
            "srvr": self._srvr,
            "stat": self._stat,
            "cons": lambda: self._connection_lines(is_brief=False) + "\n",
            "wchs": self._wchs,
            "wchc": self._wchc,
            "wchp": self._wchp,
            "dump": self._dump,
            "srst": self._srst,
            "crst": self._crst,
        }
        self._texts_of_process: dict[str, Callable[[ProcessFacts], str]] = {
            "envi": _envi,
            "mntr": self._mntr,
            "conf": self._conf,
            "dirs": _dirs,
        }

    def take(self, number: int, first: bytes) -> bool:
        """Answer connection `number` if its first four bytes are a word; return whether they are.

        The connection is closed then, perhaps not at once.
        """
        word = first.decode("latin-1")
        is_known = word in self._texts or word in self._texts_of_process
        if not is_known and word not in NEVER_ANSWERED:
            return False
        allowed = self._context.options.zookeeper.words
        is_allowed = word in ALWAYS_ALLOWED or word in allowed or EVERY_WORD in allowed
        if not (is_known and is_allowed):
            self._answer(number, f"{word} is not executed because it is not in the whitelist.\n")
        elif word not in _WITHOUT_LEADER and not self._is_serving:
            self._answer(number, NOT_SERVING)
        elif word in self._texts:
            self._answer(number, self._texts[word]())
        else:
            self._waiting[number] = word
            if not self._has_requested_facts:
                self._has_requested_facts = True
                self._context.out.append(ReadProcessFacts())
        return True

    def on_process_facts(self, facts: ProcessFacts) -> None:
        """Answer the words that waited for the facts."""
        waiting, self._waiting = self._waiting, {}
        self._has_requested_facts = False
        for number, word in waiting.items():
            self._answer(number, self._texts_of_process[word](facts))

    def discard(self, number: int) -> None:
        """Forget a connection that is gone."""
        self._waiting.pop(number, None)

    @property
    def _is_serving(self) -> bool:
        return self._context.peer.is_active or self._read_only.is_active

    def _answer(self, number: int, text: str) -> None:
        self._context.out += [SendClient(number, text.encode()), CloseClient(number)]

    def _stats(self) -> ServerStats:
        return collect_stats(self._context, self._connections.values(), self._read_only)

    # The words.

    def _isro(self) -> str:
        if self._context.peer.is_active:
            return "rw"
        return "ro" if self._read_only.is_active else "null"

    def _mntr(self, facts: ProcessFacts) -> str:
        values = monitor_values(self._stats(), facts)
        return _lines(f"zk_{name}\t{value}" for name, value in values.items())

    def _srvr(self) -> str:
        return self._heading() + self._summary()

    def _stat(self) -> str:
        clients = self._connection_lines(is_brief=True)
        return f"{self._heading()}Clients:\n{clients}\n{self._summary()}"

    def _heading(self) -> str:
        heading = f"Zookeeper version: {VERSION}\n"
        if server_state(self._stats()) == READ_ONLY:
            heading += "READ-ONLY mode; serving only read-only clients\n"
        return heading

    def _summary(self) -> str:
        stats = self._stats()
        latency = stats.latency
        lines = [
            f"Latency min/avg/max: {latency.min_ms}/{average_of(latency)}/{latency.max_ms}",
            f"Received: {stats.packets_received}",
            f"Sent: {stats.packets_sent}",
            f"Connections: {stats.connections}",
            f"Outstanding: {stats.outstanding}",
            f"Zxid: {_hex(stats.last_zxid)}",
            f"Mode: {server_state(stats)}",
            f"Node count: {stats.znodes}",
        ]
        if server_state(stats) == Role.LEADER.value:
            lines.append("Proposal sizes last/min/max: -1/-1/-1")  # as before the first: not kept
        return _lines(lines)

    def _connection_lines(self, *, is_brief: bool) -> str:
        context = self._context
        every = (connection_stats(context, each) for each in self._connections.values())
        return _lines(f" {_describe(each, is_brief=is_brief)}" for each in every)

    def _conf(self, facts: ProcessFacts) -> str:
        context = self._context
        options, settings, limits = context.options.zookeeper, context.peer.settings, context.limits
        timing = settings.timing
        is_observer = not settings.members.is_voter(settings.server_id)
        values = {
            "clientPort": options.port or -1,
            "secureClientPort": options.tls_port or -1,
            "dataDir": options.data_dir,
            "dataDirSize": facts.snapshot_bytes,
            "dataLogDir": options.data_dir,
            "dataLogSize": facts.log_bytes,
            "tickTime": timing.tick_ms,
            "maxClientCnxns": options.per_address_max,
            "minSessionTimeout": limits.session_timeout_min_ms,
            "maxSessionTimeout": limits.session_timeout_max_ms,
            "clientPortListenBacklog": options.backlog,
            "serverId": settings.server_id,
            "initLimit": timing.init_limit,
            "syncLimit": timing.sync_limit,
            "electionAlg": 3,  # ZooKeeper's number of the only one
            "peerType": int(is_observer),
        }
        return _lines(f"{name}={value}" for name, value in values.items())

    def _wchs(self) -> str:
        watches = self._context.watches
        watching = sum(watches.count_of(number) > 0 for number in self._connections)
        paths = frozenset[str]().union(*watches.tables)
        return (
            f"{watching} connections watching {len(paths)} paths\nTotal watches:{watches.count}\n"
        )

    def _wchc(self) -> str:
        lines: list[str] = []
        for number in self._connections:
            paths = {path: None for _, path, _ in self._context.watches.watches_of(number)}
            if paths:
                lines += [self._session(number), *(f"\t{path}" for path in paths)]
        return _lines([*lines, ""])

    def _wchp(self) -> str:
        by_path: dict[str, dict[int, bool]] = {}
        for table in self._context.watches.tables:
            for path, watchers in table.items():
                by_path.setdefault(path, {}).update(watchers)
        lines: list[str] = []
        for path, watchers in by_path.items():
            lines += [path, *(f"\t{self._session(number)}" for number in watchers)]
        return _lines([*lines, ""])

    def _dump(self) -> str:
        state = self._context.state
        sessions, ephemerals = state.sessions.by_id, state.tree.ephemerals
        lines = ["SessionTracker dump:", f"Global Sessions({len(sessions)}):"]
        lines += [f"{_hex(each.session_id)}\t{each.timeout_ms}ms" for each in sessions.values()]
        lines += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(ephemerals)}):"]
        for owner, paths in ephemerals.items():
            lines += [f"{_hex(owner)}:", *(f"\t{path}" for path in paths)]
        lines.append("Connections dump:")
        for each in self._connections.values():
            known = connection_stats(self._context, each)
            lines.append(f"\tip: {_address(known)} sessionId: {_hex(known.session_id)}")
        return _lines(lines)

    def _srst(self) -> str:
        self._context.counters.reset(self._connections.values())
        return "Server stats reset.\n"

    def _crst(self) -> str:
        for connection in self._connections.values():
            self._context.counters.take_over(connection)
            if connection.translator is not None:
                connection.translator.responses.reset()
        return "Connection stats reset.\n"

    def _session(self, number: int) -> str:
        return _hex(self._connections[number].session_id)


def _envi(facts: ProcessFacts) -> str:
    values = [("zookeeper.version", VERSION), *facts.environment]
    return "Environment:\n" + _lines(f"{name}={value}" for name, value in values)


def _dirs(facts: ProcessFacts) -> str:
    return f"datadir_size: {facts.snapshot_bytes}\nlogdir_size: {facts.log_bytes}\n"


def _describe(each: ConnectionStats, *, is_brief: bool) -> str:
    """Return the line of a connection; that of a native client has fewer fields."""
    parts = [
        f"queued={each.outstanding}",
        f"recved={each.packets_received}",
        f"sent={each.packets_sent}",
    ]
    responses = each.responses
    if not is_brief and each.session_id:
        parts.append(f"sid={_hex(each.session_id)}")
        if responses is not None:
            parts.append(f"lop={responses.operation}")
        parts += [f"est={each.opened_at_ms}", f"to={each.timeout_ms}"]
        if responses is not None:
            if responses.xid >= 0:
                parts.append(f"lcxid={_hex(responses.xid)}")
            parts += [
                f"lzxid={_hex(responses.zxid)}",
                f"lresp={responses.at_ms}",
                f"llat={responses.took_ms}",
                f"minlat={responses.min_ms}",
                f"avglat={responses.average_ms}",
                f"maxlat={responses.max_ms}",
            ]
    return f"{_address(each)}[{int(each.is_read)}]({','.join(parts)})"


def _address(each: ConnectionStats) -> str:
    host = f"[{each.host}]" if ":" in each.host else each.host
    return f"/{host}:{each.port}"


def _hex(number: int) -> str:
    return f"{number:#x}"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
