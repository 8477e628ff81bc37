"""The root of the error tree, and the error of a peer that breaks the protocol.

RayKeeperError
├── ConfigError           a setting is wrong (clusters/config.py)
├── StorageError          a data folder cannot be used (actors/storage_errors.py)
│   ├── CorruptRecord
│   └── NotFormatted
├── PeerProtocolError     another server broke the protocol (here)
├── ClientProtocolError   a client broke the protocol (znodes/errors.py)
└── KeeperError           what a client sees, one class per ZooKeeper code (znodes/errors.py)
"""


class RayKeeperError(Exception):
    """Root of every error this library raises on purpose."""


class PeerProtocolError(RayKeeperError):
    """Raised when another server sends what the protocol forbids at this point.

    The caller should drop the link to that server and keep its own state, which has not changed.
    """
