"""Open a session with an ensemble by its name, from a driver, a task or an actor."""

from functools import partial

from raykeeper.client.client import Client
from raykeeper.client.ensembles import dialer_of, find_servers
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.opening import VALUE_BYTES_MAX
from raykeeper.client.session import Session


def connect(
    name: str,
    session_timeout_s: float = 10.0,
    timeout_s: float = 30.0,
    *,
    value_bytes_max: int = VALUE_BYTES_MAX,
) -> Client:
    """Open a session with the ensemble `name` of this Ray cluster.

    A process without `ray.init` joins the cluster that runs on its machine.

    Args:
        name: Of the ensemble.
        session_timeout_s: How long the session outlives silence; the servers may bound it.
        timeout_s: How long this call, and each request of the client, may take.
        value_bytes_max: The ensemble's bound of a value, if that was configured.

    Raises:
        BadArgumentsError: a span of time makes no sense.
        EnsembleNotFoundError: there is no such ensemble; the text lists those there are.
        WrongContextError: inside an event loop (use AsyncClient there), without a Ray cluster, or
            through `ray://`; the text says what to do.
        ConnectionLossError: no server took the session within `timeout_s`; the text says which
            servers were tried and what came of it.
    """
    refuse_running_loop("connect")
    reopen = partial(_open, name, session_timeout_s, timeout_s, value_bytes_max)
    return Client(reopen(), reopen)


def _open(name: str, session_timeout_s: float, timeout_s: float, value_bytes_max: int) -> Session:
    return Session.open(
        find_servers(name),
        dialer_of(name, session_timeout_s),
        session_timeout_s=session_timeout_s,
        timeout_s=timeout_s,
        value_bytes_max=value_bytes_max,
    )
