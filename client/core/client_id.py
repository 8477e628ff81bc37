"""What it takes to take a session over.

ZooKeeper: the session id and password of the constructor of `ZooKeeper`; kazoo: `client_id`.
"""

from typing import NamedTuple

from raykeeper.znodes.requests import SessionId


class ClientId(NamedTuple):
    """Id and password of a session. Whoever has them may become this client: keep them secret.

    Valid until somebody takes the session over, who then has a `client_id` of its own.
    """

    session_id: SessionId
    password: bytes
