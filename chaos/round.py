"""One round: its own znodes, load and faults, rest, a final read of all znodes, the judgement.

A run is a series of rounds, so its memory is bounded however long it takes, and a violation is
reported soon after it happened.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from raykeeper.chaos.checks.faults import RoundFaults
from raykeeper.chaos.checks.history import (
    BEGIN,
    END,
    History,
    Ok,
    Read,
    ReadKind,
    Result,
    SessionEnded,
)
from raykeeper.chaos.checks.judge import HistoryReport, judge
from raykeeper.chaos.client_pool import ChaosError, ClientPool
from raykeeper.chaos.history_file import HistoryFile, read_history, write_faults
from raykeeper.chaos.load_client import REQUEST_TIMEOUT_S, LoadSettings
from raykeeper.chaos.recorded_session import RecordedSession, now
from raykeeper.chaos.workload import LOCKS, REGISTERS, folders
from raykeeper.client import connect
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.znodes.requests import CloseSession, Create

RECOVERY_S: Final = 60.0
"""Every server must serve within this time after the last fault."""
EXPIRY_SLACK_S: Final = 15.0
"""Elections and lost trackers may prolong a session by this time beyond its timeout."""
_WINDOW = 64
_POLL_S = 0.1


class Round:
    """Call `begin`, inject faults, then call `finish`."""

    def __init__(
        self, ensemble: Ensemble, settings: LoadSettings, clients: ClientPool | None = None
    ) -> None:
        """`settings.records` must be an empty folder, and `settings.root` a path never used."""
        self._ensemble = ensemble
        self._settings = settings
        self.clients = clients or ClientPool(settings)

    def begin(self, clients: int) -> None:
        """Create the parent znodes and start the load."""
        with HistoryFile(self._records() / "a-begin.jsonl") as file:
            session = self._session(file, BEGIN)
            for path in folders(self._settings.root):
                session.call(Create(path, b"", 0))
            session.end()
        self.clients.start(clients)

    def finish(
        self,
        tell: Callable[[str], None] = lambda text: None,
        faults: RoundFaults | None = None,
    ) -> HistoryReport:
        """Stop the load, wait until all servers serve, read the final state, and judge.

        Args:
            tell: Called with what it is doing.
            faults: All faults of the round; None if the report need not tell of them.

        Raises:
            ChaosError: a client failed, or the ensemble does not recover.
        """
        if faults is not None:
            write_faults(self._records(), faults)
        tell("waiting for all servers to serve")
        self._wait_for_servers()
        tell("stopping the clients")
        self.clients.stop()
        tell("waiting for sessions to end")
        with HistoryFile(self._records() / "z-end.jsonl") as file:
            session = self._session(file, END)
            self._wait_for_sessions(session)
            self._record_session_ends(file)
            tell("reading the final state")
            self._read_final_state(session)
            session.end()
        tell("judging")
        return judge(self.history(), faults)

    def history(self) -> History:
        """Read all records so far."""
        return read_history(sorted(self._records().glob("*.jsonl")))

    def _records(self) -> Path:
        return Path(self._settings.records)

    def _session(self, file: HistoryFile, name: str) -> RecordedSession:
        timeout_s = max(self._settings.session_timeouts_s)
        session = RecordedSession(file, name, 1, timeout_s=timeout_s, window=_WINDOW)
        name = self._settings.ensemble
        if not session.open(lambda: connect(name, timeout_s, REQUEST_TIMEOUT_S)):
            raise ChaosError(f"no server of ensemble {name!r} takes a session")
        return session

    def _wait_for_servers(self) -> None:
        deadline = time.monotonic() + RECOVERY_S
        while True:
            report = self._ensemble.status()
            roles = [server.role for server in report.servers]
            if report.leader is not None and set(roles) <= {"leader", "follower"}:
                return
            if time.monotonic() > deadline:
                state = ", ".join(f"server {s.server_id} {s.role}" for s in report.servers)
                raise ChaosError(f"{RECOVERY_S:g} s after the last fault: {state}")
            time.sleep(_POLL_S)

    def _wait_for_sessions(self, session: RecordedSession) -> None:
        """Wait until no ephemeral znode is left, at most as long as its session may live.

        All clients are gone by now; a check reports an ephemeral znode that stays longer.
        """
        longest_s = max(self._settings.session_timeouts_s) + EXPIRY_SLACK_S
        deadline = time.monotonic() + longest_s
        left = self._paths(session)
        while left and time.monotonic() < deadline:
            told = self._read(session, left, ReadKind.EXISTS)
            left = [path for path, result in zip(left, told, strict=True) if _is_ephemeral(result)]
            time.sleep(_POLL_S)

    def _record_session_ends(self, file: HistoryFile) -> None:
        """Record that every session is over by now, unless its close was answered."""
        for session in list(self.history().sessions.values()):
            closes = [op for op in session.operations if isinstance(op.call, CloseSession)]
            is_known = any(isinstance(op.result, Ok) for op in closes)
            if session.client in (BEGIN, END) or is_known:
                continue
            last = max((op.called for op in session.operations), default=0)
            since = session.ended.since if session.ended is not None else last
            file.add(SessionEnded(session.client, session.life, since, now()))

    def _read_final_state(self, session: RecordedSession) -> None:
        self._read(session, self._paths(session), ReadKind.GET)

    def _read(self, session: RecordedSession, paths: list[str], kind: ReadKind) -> list[Result]:
        """Read all the paths, with a sync before each.

        Raises:
            ChaosError: the session ended before all reads were answered.
        """
        told = [session.submit(Read(path, kind, is_synced=True)) for path in paths]
        answers = [future.result() for future in told if future is not None]
        if len(answers) != len(paths):
            raise ChaosError("the session that reads the final state was lost")
        return answers

    def _paths(self, session: RecordedSession) -> list[str]:
        """Return the paths of all znodes that the load may have left."""
        root = self._settings.root
        queue = session.call(Read(f"{root}/q", ReadKind.CHILDREN, is_synced=True))
        if not isinstance(queue, Ok) or queue.children is None:
            raise ChaosError(f"{root}/q cannot be read: {queue}")
        return [
            *(f"{root}/r/{number}" for number in range(REGISTERS)),
            *(f"{root}/e/{number}" for number in range(LOCKS)),
            *(f"{root}/q/{name}" for name in sorted(queue.children)),
        ]


def _is_ephemeral(result: Result) -> bool:
    """Return whether a read found an ephemeral znode."""
    return isinstance(result, Ok) and result.stat is not None and bool(result.stat.ephemeral_owner)
