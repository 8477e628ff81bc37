"""The member list in a data folder, for those who start servers: the file `members.json`.

A launch has to know who the members are before any server runs. The list is part of the replicated
state, in a snapshot and a log that only a server should read; so each server leaves the newest list
that was delivered to it beside its identity, and the reason why it was removed, once it was. The
file is a copy: it may be older than the list, and without it the list of the founding is assumed.

It is JSON, which an operator can read, with a checksum: a damaged list could be another one.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from raykeeper.actors.disk.file_operations import read_file, replace_file
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.storage_errors import StorageError, storage_errors
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.member_list import MemberList

MEMBERS_FILE: Final = "members.json"
FORMAT_VERSION: Final = 1
_BYTES_MAX: Final = 1 << 20


class StoredMembers(Struct, frozen=True):
    """The content of the file."""

    members: MemberList
    """The newest list that was delivered to the server."""
    removed: str = ""
    """Why the server is a member no more, with the version of the list; "" if nothing says so."""
    format_version: int = FORMAT_VERSION


class _Checked(Struct):
    checksum: str
    content: msgspec.Raw


def read_members(
    folder: Path,
    files: Filesystem = OS_FILESYSTEM,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> StoredMembers | None:
    """Return the list that the server of `folder` has left; None if it left none that can be used.

    Changes nothing, and needs no lock. `tell` is told in words why a file that is there is of no
    use: it is damaged, cannot be read, or is of another version of this program.
    """
    path = folder / MEMBERS_FILE
    try:
        with storage_errors(path):
            if not files.exists(path):
                return None
        checked = msgspec.json.decode(read_file(files, path, _BYTES_MAX), type=_Checked)
        if checked.checksum != _checksum(bytes(checked.content)):
            tell(f"{path} is damaged: it has another checksum")
            return None
        stored = msgspec.json.decode(checked.content, type=StoredMembers)
    except StorageError as error:
        tell(str(error))
        return None
    except DECODE_ERRORS as error:
        tell(f"{path} is damaged: {error}")
        return None
    if stored.format_version != FORMAT_VERSION:
        version = stored.format_version
        tell(f"{path} has version {version}; this program reads {FORMAT_VERSION}")
        return None
    return stored


def write_members(folder: Path, stored: StoredMembers, files: Filesystem = OS_FILESYSTEM) -> None:
    """Replace the list in `folder`, atomically. Durable on return.

    Raises:
        StorageError: it failed; the old or the new list is there.
    """
    content = msgspec.json.encode(stored)
    checked = _Checked(_checksum(content), msgspec.Raw(content))
    with storage_errors(folder):
        replace_file(files, folder / MEMBERS_FILE, msgspec.json.encode(checked) + b"\n")


def _checksum(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
