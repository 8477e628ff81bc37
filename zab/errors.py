"""The root of the error tree, and the error of a peer that breaks the protocol.

    RayKeeperError
    ├── KeeperError           what a client sees, one class per ZooKeeper code (znodes/errors.py)
    ├── LostError             what a client held is gone (znodes/errors.py)
    ├── EnsembleNotFoundError, WrongContextError           before a request (client/errors.py)
    ├── ConfigError, PlacementError, NoLeaderError, …      of launching and running (clusters/)
    ├── StorageError          a data folder cannot be used (actors/disk/storage_errors.py)
    │   └── CorruptRecord, NotFormatted, ForeignFolder, FolderInUse
    ├── SnapshotFormatError   a snapshot cannot be read (znodes/snapshot.py)
    ├── LinkError             no link to another server or a client (links/contract.py)
    │   └── LinkRefused, LinkUnreachable
    ├── JuteError             a ZooKeeper client broke its protocol (jute/errors.py)
    │   └── TooManyElements
    └── PeerProtocolError     another server broke the protocol (here)

docs/ERRORS.md says of each when it is raised and what to do; a test compares the two.
"""

from typing import Final

import msgspec

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of decoding: bad UTF-8 and deep nesting have no msgspec error of their own."""


class RayKeeperError(Exception):
    """Root of every error this library raises on purpose."""


class PeerProtocolError(RayKeeperError):
    """Raised when another server sends what the protocol forbids at this point.

    The caller should drop the link to that server and keep its own state, which has not changed.
    """
