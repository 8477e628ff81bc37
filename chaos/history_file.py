"""The records of a chaos run in files: written by the clients, read and judged afterwards.

Every client writes a file of its own, one line of JSON for each record. A further file has the
faults.

Invariant: a request is in the file before it can have an effect.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

import msgspec

from raykeeper.chaos.checks.faults import RoundFaults
from raykeeper.chaos.checks.history import History, HistoryError, Record
from raykeeper.chaos.checks.judge import HistoryReport, judge
from raykeeper.clusters.config import ConfigError

_FAULTS: Final = "faults.json"


class HistoryFile:
    """The file of one client. `add` returns after the operating system has the record."""

    def __init__(self, path: Path) -> None:
        """Create the file at `path`, or append to it.

        Raises:
            OSError: the file cannot be opened.
        """
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encode = msgspec.json.Encoder().encode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, record: Record) -> None:
        """Append one line.

        Raises:
            OSError: the line was not written, or only in part.
        """
        line = self._encode(record) + b"\n"
        written = os.write(self._fd, line)
        if written != len(line):
            raise OSError(f"{written} of {len(line)} bytes of a record were written")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def read_history(paths: Iterable[Path]) -> History:
    """Read the history of all clients. A killed client may have cut the last line of its file.

    Raises:
        HistoryError: another line is no record, or a record contradicts another one.
        OSError: a file cannot be read.
    """
    decode = msgspec.json.Decoder(Record).decode
    history = History()
    for path in paths:
        *lines, _cut_short = path.read_bytes().split(b"\n")
        for place, line in enumerate(lines, 1):
            try:
                record: Record = decode(line)
            except msgspec.DecodeError as error:
                raise HistoryError(f"{path}:{place}: {error}") from None
            history.add(record)
    return history


def write_faults(records: Path, faults: RoundFaults) -> None:
    """Write the faults of a round into the folder of its records.

    Raises:
        OSError: the file cannot be written.
    """
    (records / _FAULTS).write_bytes(msgspec.json.encode(faults))


def read_faults(records: Path) -> RoundFaults | None:
    """Read the faults of a round; None if it ended before they were written.

    Raises:
        HistoryError: the file is damaged.
        OSError: the file cannot be read.
    """
    path = records / _FAULTS
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=RoundFaults)
    except msgspec.DecodeError as error:
        raise HistoryError(f"{path}: {error}") from None


def judge_records(folder: Path) -> HistoryReport:
    """Judge the rounds that a run kept in `folder`, each in a folder of its own.

    Raises:
        ConfigError: `folder` has no round.
        HistoryError: the records of a round are damaged.
    """
    rounds = sorted({path.parent for path in folder.rglob("*.jsonl")})
    if not rounds:
        raise ConfigError(f"{folder} holds no records of `raykeeper chaos`")
    total = HistoryReport()
    for records in rounds:
        history = read_history(sorted(records.glob("*.jsonl")))
        total.include(judge(history, read_faults(records)))
    return total
