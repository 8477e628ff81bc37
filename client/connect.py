"""Open a session with an ensemble by its name, from a driver, a task or an actor."""

from collections.abc import Iterable
from functools import partial

from msgspec import structs

from raykeeper.client import arguments, task_sessions
from raykeeper.client.client import Client
from raykeeper.client.core.public_types import ClientId
from raykeeper.client.ensembles import begin_search, dialer_of
from raykeeper.client.identity import identity_of_process
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.process_metrics import process_metrics
from raykeeper.client.ray_lookups import fail_after, left_s
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import (
    VALUE_BYTES_MAX,
    SessionOptions,
    checked_default_acl,
    split_ensemble_name,
)
from raykeeper.znodes.acl import Acl


def connect(
    name: str,
    session_timeout_s: float = 10.0,
    timeout_s: float = 30.0,
    *,
    value_bytes_max: int = VALUE_BYTES_MAX,
    default_acl: Iterable[Acl] | None = None,
    client_id: ClientId | None = None,
    read_only: bool = False,
) -> Client:
    """Open a session with the ensemble `name` of this Ray cluster.

    A process without `ray.init` joins the cluster of RAY_ADDRESS, else that of `raykeeper up`, else
    the one that `ray start` started last on its machine (client/ray_address.py). A session that a
    Ray task leaves open ends with the task (client/task_sessions.py).

    Args:
        name: The ensemble. With a path, "coord/app1", the znode /app1 is the root of the handle
            (chroot): all its paths are below. `ensure_path("/")` creates it.
        session_timeout_s: How long the session outlives the client's silence; servers may bound it.
        timeout_s: How long this call, and each request of the client, may take.
        value_bytes_max: The ensemble's bound of a value, if one was configured.
        default_acl: The ACL of znodes that this handle creates without one; open to all if None.
        client_id: The id of another handle, whose session this one takes over with all it owns;
            every later request of the other handle fails with SessionMovedError.
        read_only: Also accept a server without a leader while there is no other. It shows what it
            knows, which may be old, and the state is CONNECTED_READ_ONLY: writes, `sync` and
            linearizable reads fail with NotReadOnlyError. The client moves to a server with a
            leader as soon as there is one; a handle without a session gets one only then. A session
            that was open before ends by its timeout all the same: the handle becomes LOST.

    Raises:
        BadArgumentsError: an argument makes no sense.
        InvalidAclError: the default ACL is malformed.
        EnsembleNotFoundError: there is no such ensemble; the text lists the ensembles.
        WrongContextError: inside an event loop (use AsyncClient there), without a Ray cluster,
            through `ray://`, or in a fork of a process that uses Ray; the text says what to do.
        ConnectionLossError: no server took the session within `timeout_s`; the text says which
            servers were tried and how each failed, or that Ray does not answer.
        SessionExpiredError: the session to take over is over.
        AuthFailedError: its password is wrong, or not its password any more.
    """
    refuse_running_loop("connect")
    ensemble, chroot = split_ensemble_name(name)
    options = SessionOptions(
        session_timeout_s=session_timeout_s,
        timeout_s=timeout_s,
        value_bytes_max=value_bytes_max,
        default_acl=checked_default_acl(default_acl),
        client_id=client_id,
        chroot=chroot,
        read_only=read_only,
    )
    # A handle that is passed on opens a session of its own, also if this one takes one over.
    reopen = partial(_open, ensemble, structs.replace(options, client_id=None))
    return Client(_open(ensemble, options), reopen, name)


def _open(ensemble: str, options: SessionOptions) -> BlockingSession:
    with fail_after(arguments.milliseconds("timeout_s", options.timeout_s) / 1000):
        found = begin_search(ensemble)
        # What can be done while Ray answers.
        sessions = task_sessions.task_sessions
        task = sessions.current_task()
        sessions.close_leftovers(left_s())
        identity = identity_of_process()
        servers = found()
        dialer = dialer_of(ensemble, options.session_timeout_s, servers)
        options = structs.replace(options, identity=identity, open_timeout_s=left_s())
    session = BlockingSession.open(servers, dialer, options)
    sessions.add(task, session)
    process_metrics.add(ensemble, session.core, session.now)
    return session
