"""Histories made by hand: who asked what from when to when, and what came of it."""

from pathlib import Path

from raykeeper.chaos.checks.history import (
    Call,
    Called,
    Fired,
    History,
    Ok,
    Read,
    ReadKind,
    Record,
    Result,
    Returned,
    SessionBegan,
    SessionEnded,
)
from raykeeper.chaos.history_file import HistoryFile
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import ANY_VERSION, CloseSession, Create, Delete, SessionId, SetData
from raykeeper.znodes.stat import Stat

A, B = "a", "b"
SESSIONS = {A: 101, B: 102, "end": 103}
X, Y = "/r/x", "/r/y"


def stat(mzxid: int, *, czxid: int = 1, version: int = 0, owner: int = 0) -> Stat:
    at = Millis(0)
    return Stat(Zxid(czxid), Zxid(mzxid), at, at, version, 0, 0, owner, 0, 0, Zxid(czxid))


class Story:
    """Lines of a history, one session for each client. Times are small numbers."""

    def __init__(self) -> None:
        self._records: list[tuple[int, Record]] = []
        self._numbers: dict[str, int] = {}
        for client, session in SESSIONS.items():
            self._records.append((0, SessionBegan(client, 1, 0, SessionId(session))))

    def history(self) -> History:
        return History(self._in_order())

    def write(self, path: Path) -> None:
        """As the clients of a run do."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with HistoryFile(path) as file:
            for record in self._in_order():
                file.add(record)

    def _in_order(self) -> list[Record]:
        return [record for _, record in sorted(self._records, key=lambda r: r[0])]

    def ask(
        self, who: str, since: int, until: int | None, call: Call, result: Result | None = None
    ) -> "Story":
        """A request, and its answer unless `until` is None."""
        number = self._numbers[who] = self._numbers.get(who, 0) + 1
        self._records.append((since, Called(who, 1, number, since, call)))
        if until is not None:
            self._records.append((until, Returned(who, 1, number, until, result or Ok())))
        return self

    def set(self, who: str, since: int, until: int | None, value: str, mzxid: int = 0) -> "Story":
        """A set of X; `mzxid` is told with its answer."""
        call = SetData(X, value.encode(), ANY_VERSION)
        return self.ask(who, since, until, call, Ok(zxid=Zxid(mzxid), stat=stat(mzxid)))

    def create(self, who: str, since: int, until: int | None, path: str, value: str) -> "Story":
        return self.ask(who, since, until, Create(path, value.encode(), 0), Ok(path=path))

    def append(
        self, who: str, since: int, until: int | None, value: str, number: int = 0
    ) -> "Story":
        """A sequential creation of /q/n-<number>."""
        result = Ok(path=f"/q/n-{number:010d}")
        return self.ask(who, since, until, Create("/q/n-", value.encode(), 2), result)

    def delete(self, who: str, since: int, until: int | None, path: str = X) -> "Story":
        return self.ask(who, since, until, Delete(path, ANY_VERSION))

    def get(
        self,
        who: str,
        since: int,
        until: int | None,
        value: str,
        mzxid: int,
        *,
        path: str = X,
        synced: bool = False,
        watched: bool = False,
        owner: int = 0,
    ) -> "Story":
        call = Read(path, ReadKind.GET, synced, watched)
        result = Ok(value=value.encode(), stat=stat(mzxid, owner=owner))
        return self.ask(who, since, until, call, result)

    def children(
        self, who: str, since: int, until: int, path: str, names: list[str], watched: bool = False
    ) -> "Story":
        call = Read(path, ReadKind.CHILDREN, True, watched)
        return self.ask(who, since, until, call, Ok(children=names))

    def fired(self, who: str, at: int, kind: EventType, zxid: int, path: str = X) -> "Story":
        self._records.append((at, Fired(who, 1, at, kind, path, Zxid(zxid))))
        return self

    def close(self, who: str, since: int, until: int) -> "Story":
        return self.ask(who, since, until, CloseSession())

    def ended(self, who: str, since: int, until: int) -> "Story":
        self._records.append((until, SessionEnded(who, 1, since, until)))
        return self
