"""The id and password with which another handle takes a session over.

ZooKeeper: the session id and password of the constructor of `ZooKeeper`; kazoo: `client_id`.
"""

from typing import NamedTuple

from raykeeper.znodes.requests import SessionId


class ClientId(NamedTuple):
    """Id and password of a session. They let their holder become this client: keep them secret.

    They are valid until a client takes the session over, which gets a `client_id` of its own.
    """

    session_id: SessionId
    password: bytes
