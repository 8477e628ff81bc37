"""The journal of an import or export: a file that lets a later run go on where this one ended.

It notes for each znode the versions of the source that were copied and of the copy that came of it:
czxid, mzxid and aversion, which together change with every creation, value and ACL. A later run
skips what has the same versions on both sides; it reads neither value again. What a killed run has
copied and not noted is found to be the same by its value.

Only czxid, mzxid and aversion decide, never the addresses: in another ensemble the zxids differ.
The file is SQLite's, so a killed run leaves it whole; two runs cannot use it at once.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from raykeeper.commands.migration.errors import JournalError
from raykeeper.znodes.stat import Stat

_VERSION: Final = 1
_SCHEMA: Final = """
create table if not exists copy (version integer, source text, target text, run integer);
create table if not exists znode (
    path text primary key,
    source_czxid integer, source_mzxid integer, source_aversion integer,
    target_czxid integer, target_mzxid integer, target_aversion integer,
    next_number integer, run integer
) without rowid;
"""
Versions = tuple[int, int, int]


class CopyJournal:
    """An open journal. It belongs to one copy; see `Journal` of client/subtree_copier.py."""

    def __init__(self, file: Path | None, source: str, target: str) -> None:
        """Open the journal in `file`, which may be missing; None: only in memory.

        Args:
            file: The file; its folder is created.
            source: What the source is, as its side tells it.
            target: What the destination is.

        Raises:
            JournalError: it cannot be used.
        """
        name = "the journal" if file is None else str(file)
        try:
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(":memory:" if file is None else file, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"cannot use {name}: {error}") from None
        self._identity = _VERSION, source, target
        try:
            row = self._read()
        except sqlite3.Error as error:
            self._db.close()
            if "locked" in str(error):
                raise JournalError(f"{name} is used by another run") from None
            raise JournalError(f"{name} is no journal of a copy: {error}") from None
        if row is not None and row[:3] != self._identity:
            self._db.close()
            raise JournalError(
                f"{name} is of the copy of {row[1]} to {row[2]} (version {row[0]}), "
                f"not of {source} to {target}"
            )
        self.is_begun = row is not None
        """Whether an earlier run has begun to write."""
        self._run = 1 if row is None else row[3] + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._db.close()

    def begin(self) -> None:
        """Note that a run begins to write."""
        self.is_begun = True
        with self._db:
            self._db.execute("delete from copy")
            self._db.execute("insert into copy values (?, ?, ?, ?)", (*self._identity, self._run))

    def was_copied(self, relative: str, source: Stat, target: Stat) -> bool:
        """Return whether a run has copied this state of the source, and left this state there."""
        return self._versions(relative) == (*_versions(source), *_versions(target))

    def was_written(self, relative: str, target: Stat) -> bool:
        """Return whether a run has left this state of the destination."""
        return self._versions(relative)[3:] == _versions(target)

    def keep(self, copied: list[tuple[str, Stat, Stat]]) -> None:
        """Note znodes with the Stats of both sides."""
        rows = [
            (relative, *_versions(source), *_versions(target), next_number(source), self._run)
            for relative, source, target in copied
        ]
        with self._db:
            self._db.executemany("insert or replace into znode values (?,?,?,?,?,?,?,?,?)", rows)

    def sequences(self, count: int) -> Iterator[list[tuple[str, int]]]:
        """Yield the znodes of this run that had children, and their next sequential numbers."""
        rows = self._db.execute(
            "select path, next_number from znode where run = ? and next_number > 0", (self._run,)
        )
        while found := rows.fetchmany(count):
            yield found

    def gone(self, count: int) -> tuple[int, list[str]]:
        """Return how many znodes earlier runs have copied and this one, at its end, has not met.

        Beside it the first few of them. They may be deleted in the source, or ephemeral now.
        """
        where = "from znode where run < ?"
        (number,) = self._db.execute(f"select count(*) {where}", (self._run,)).fetchone()
        rows = self._db.execute(f"select path {where} order by path limit {count}", (self._run,))
        return number, [path for (path,) in rows]

    def gone_paths(self, count: int) -> Iterator[list[str]]:
        """Yield those znodes, each before its parent; what is yielded may be forgotten."""
        last = "\U0010ffff"
        while found := self._gone_before(last, count):
            yield found
            last = found[-1]

    def forget(self, paths: list[str]) -> None:
        """Note that the copy has these znodes no more."""
        with self._db:
            self._db.executemany("delete from znode where path = ?", [(path,) for path in paths])

    def _gone_before(self, path: str, count: int) -> list[str]:
        rows = self._db.execute(
            "select path from znode where run < ? and path < ? order by path desc limit ?",
            (self._run, path, count),
        )
        return [path for (path,) in rows]

    def _read(self) -> tuple[int, str, str, int] | None:
        """Lock the file, and return the version, source, target and last run in it."""
        for pragma in ("locking_mode = exclusive", "journal_mode = wal", "synchronous = normal"):
            self._db.execute(f"pragma {pragma}")
        self._db.executescript(_SCHEMA)
        row: tuple[int, str, str, int] | None = self._db.execute(
            "select version, source, target, run from copy"
        ).fetchone()
        return row

    def _versions(self, relative: str) -> tuple[int, ...]:
        row: tuple[int, ...] | None = self._db.execute(
            "select source_czxid, source_mzxid, source_aversion, target_czxid, target_mzxid, "
            "target_aversion from znode where path = ?",
            (relative,),
        ).fetchone()
        return row or ()


def next_number(stat: Stat) -> int:
    """Return the number of the next sequential child: how many children there ever were."""
    return max(0, stat.cversion + stat.num_children) // 2


def _versions(stat: Stat) -> Versions:
    return stat.czxid, stat.mzxid, stat.aversion
