"""The turn to restart servers, or to change the members, which one process has at a time.

It is the lock that changes of the members hold, too (members_lock.py).
Counterexample for none: two operators restart the servers, each of them one after the other. Both
see a majority in step, stop a different server at the same moment, and nobody can write.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from raykeeper.client import Client
from raykeeper.client.errors import LostError
from raykeeper.clusters.members_lock import SESSION_TIMEOUT_S, members_lock
from raykeeper.clusters.rolling_restart import RollingRestartError

_CONNECT_S: Final = 30.0


class ConnectedEnsemble(Protocol):
    """What a turn needs of `Ensemble`."""

    name: str

    def connect(self, session_timeout_s: float = ..., timeout_s: float = ...) -> Client:
        """Open a session."""


@contextmanager
def rolling_turn(ensemble: ConnectedEnsemble, wait_s: float) -> Iterator[Callable[[], None]]:
    """Have the turn; what is yielded raises an error when it may be over.

    Another process is waited for, `wait_s` at most, and no longer than a dead one can have it.

    Raises:
        RollingRestartError: another process has the turn, or this one may have lost it.
        KeeperError: the ensemble takes no session, or has no leader.
    """
    with (
        ensemble.connect(SESSION_TIMEOUT_S, _CONNECT_S) as client,
        take_turn(client, ensemble.name, wait_s) as check,
    ):
        yield check


@contextmanager
def take_turn(client: Client, name: str, wait_s: float) -> Iterator[Callable[[], None]]:
    """Have the turn in the session of a client; see `rolling_turn`."""

    def refusal(holder: str | None) -> RollingRestartError:
        return RollingRestartError(
            f"another process restarts servers of ensemble {name!r} now, or changes its members: "
            f"{holder or 'it has just ended; try again'}"
        )

    with members_lock(client, wait_s, refusal) as held:

        def check() -> None:
            try:
                held.lost.check()
            except LostError as error:
                raise RollingRestartError(
                    f"another process may restart the servers of ensemble {name!r} now, for the "
                    f"session of this one is lost: {error}"
                ) from None

        yield check
