"""One round: a folder of znodes of its own, load and faults, rest, the last look, the verdict.

A run is a row of rounds, so that however long it takes what it remembers is bounded, and what
went wrong is known soon after.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from raykeeper.chaos.client_pool import ChaosError, ClientPool
from raykeeper.chaos.history import (
    History,
    HistoryFile,
    Ok,
    Read,
    ReadKind,
    Result,
    SessionEnded,
    read_history,
)
from raykeeper.chaos.judge import HistoryReport, judge
from raykeeper.chaos.load_client import REQUEST_TIMEOUT_S, LoadSettings
from raykeeper.chaos.recorded_session import RecordedSession, now
from raykeeper.chaos.workload import LOCKS, REGISTERS, folders
from raykeeper.client import connect
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.znodes.requests import CloseSession, Create

RECOVERY_S: Final = 60.0
"""Within this time after the last fault every server must serve."""
EXPIRY_SLACK_S: Final = 15.0
"""A session may outlive its timeout by elections and by trackers that were lost."""
_WINDOW = 64
_POLL_S = 0.1


class Round:
    """Set up with the first call, judged with the last; what is between is up to the caller."""

    def __init__(
        self, ensemble: Ensemble, settings: LoadSettings, crowd: ClientPool | None = None
    ) -> None:
        """`settings.records` is an empty folder, and `settings.root` was never used."""
        self._ensemble = ensemble
        self._settings = settings
        self.clients = crowd or ClientPool(settings)

    def begin(self, clients: int) -> None:
        """Make the folders and start the load."""
        with HistoryFile(self._records() / "a-begin.jsonl") as file:
            session = self._session(file, "begin")
            for path in folders(self._settings.root):
                session.call(Create(path, b"", 0))
            session.end()
        self.clients.start(clients)

    def finish(self, tell: Callable[[str], None] = lambda text: None) -> HistoryReport:
        """Stop the load, wait until everything is well again, take the last look and judge.

        Raises:
            ChaosError: a client failed, or the ensemble does not come back.
        """
        tell("waiting for all servers to serve")
        self._wait_for_servers()
        tell("stopping the clients")
        self.clients.stop()
        tell("waiting for sessions to end")
        with HistoryFile(self._records() / "z-end.jsonl") as file:
            session = self._session(file, "end")
            self._wait_for_sessions(session)
            self._record_session_ends(file)
            tell("reading the final state")
            self._read_final_state(session)
            session.end()
        tell("judging")
        return judge(self.history())

    def history(self) -> History:
        """What was recorded so far."""
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
        """Until no ephemeral is left, but not longer than its session may live; then it is wrong.

        Of the clients' sessions none is alive any more.
        """
        longest_s = max(self._settings.session_timeouts_s) + EXPIRY_SLACK_S
        deadline = time.monotonic() + longest_s
        left = self._paths(session)
        while left and time.monotonic() < deadline:
            told = self._read(session, left, ReadKind.EXISTS)
            left = [path for path, result in zip(left, told, strict=True) if _is_ephemeral(result)]
            time.sleep(_POLL_S)

    def _record_session_ends(self, file: HistoryFile) -> None:
        """By now every session that did not end before our eyes must be over."""
        for session in list(self.history().sessions.values()):
            closes = [op for op in session.operations if isinstance(op.call, CloseSession)]
            is_known = any(isinstance(op.result, Ok) for op in closes)
            if session.client in ("begin", "end") or is_known:
                continue
            last = max((op.called for op in session.operations), default=0)
            since = session.ended.since if session.ended is not None else last
            file.add(SessionEnded(session.client, session.life, since, now()))

    def _read_final_state(self, session: RecordedSession) -> None:
        self._read(session, self._paths(session), ReadKind.GET)

    def _read(self, session: RecordedSession, paths: list[str], kind: ReadKind) -> list[Result]:
        """Synced reads of all the paths.

        Raises:
            ChaosError: the session is over before they are answered.
        """
        told = [session.submit(Read(path, kind, is_synced=True)) for path in paths]
        answers = [future.result() for future in told if future is not None]
        if len(answers) != len(paths):
            raise ChaosError("the session that takes the last look was lost")
        return answers

    def _paths(self, session: RecordedSession) -> list[str]:
        """All znodes that the load may have left."""
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
    """Whether an ephemeral znode was found."""
    return isinstance(result, Ok) and result.stat is not None and bool(result.stat.ephemeral_owner)
