"""How the two ends of a stream prove to each other that they belong together.

A server draws a key at its start and gives it, with its address, to everyone who can call its
actor. So an end that has the key could call the actor: it has what the Ray cluster demands for
that, Ray's token if there is one. The key itself never goes over the stream.

    dialer                                    acceptor
    MAGIC, nonce                      ->
                                      <-      nonce, proof of the acceptor
    proof of the dialer, its hello    ->      parses nothing before the proof holds
                                      <-      Welcome or Refusal

A listener without room says `busy_notice` at once instead, and closes. Only an end that has the
key can make the notice. It is the same for all connections, because it must be cheap; an end that
has seen it on the network can repeat it, and with that only make a dialer wait. Its size is that of
a nonce, so a dialer that does not know it misses the proof. With TLS the notice is an alert of TLS
(`stream_socket`).

A proof is the HMAC of the role and both nonces. So no end can be made to give away the other's
proof, and no proof is of use for another connection. The lengths up to the hello are fixed.
"""

import hmac
import secrets
from enum import Enum
from typing import Final

MAGIC: Final = b"raykeep1"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32


class Role(Enum):
    """The end that proves."""

    DIALER = b"dialer"
    ACCEPTOR = b"acceptor"


def new_key() -> bytes:
    """Return a key that nobody can guess."""
    return secrets.token_bytes(KEY_BYTES)


def new_nonce() -> bytes:
    """Return a number that was never used before."""
    return secrets.token_bytes(NONCE_BYTES)


def busy_notice(key: bytes) -> bytes:
    """Return what a listener says in the place of its nonce when it has no room."""
    return hmac.digest(key, b"busy", "sha256")


def proof(key: bytes, role: Role, dialer_nonce: bytes, acceptor_nonce: bytes) -> bytes:
    """Return what only an end that has the key can say on this connection."""
    return hmac.digest(key, role.value + dialer_nonce + acceptor_nonce, "sha256")


def is_valid_proof(
    received: bytes, key: bytes, role: Role, dialer_nonce: bytes, acceptor_nonce: bytes
) -> bool:
    """Return whether `received` is that proof; the time it takes tells nothing."""
    return hmac.compare_digest(received, proof(key, role, dialer_nonce, acceptor_nonce))
