"""ZooKeeper's four-letter words: what a connection is told that begins with one.

Two of them are answered: they say whether a server is there and whether it takes writes, which is
how a read-only client finds one that does. The others are refused as by a ZooKeeper that does not
allow them.

ZooKeeper: `FourLetterCommands`, `RuokCommand`, `IsroCommand`, `NopCommand`.
"""

from typing import Final

from raykeeper.server.context import ServerContext
from raykeeper.server.read_only_mode import ReadOnlyMode

_REFUSED: Final = frozenset(
    b"conf cons crst dirs dump envi gtmk hash mntr srst srvr stat stmk wchc wchp wchs".split()
)


def answer_to_word(word: bytes, context: ServerContext, read_only: ReadOnlyMode) -> bytes | None:
    """Return the answer to the first four bytes of a connection, None if they are no word."""
    if word == b"ruok":
        return b"imok"
    if word == b"isro":
        if context.peer.is_active:
            return b"rw"
        return b"ro" if read_only.is_active else b"null"
    if word in _REFUSED:
        return word + b" is not executed because it is not in the whitelist.\n"
    return None
