"""All that Raykeeper takes from Ray's private modules, and its way out where Ray lacks it.

Ray has no public way to ask any of this, and promises nothing about it. So every access is here,
and each docstring says what happens with a Ray that lacks the thing or has changed it.
`tests/tidy` forbids private modules of Ray elsewhere; `make test-oldest-ray` runs the oldest Ray.

Ray is imported inside the functions only, so that the client loads without it.
"""

import atexit
import ctypes
import importlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from raykeeper.links.daemon_threads import begin_in_daemon_thread

_AUTH_MODE_SETTING: Final = "RAY_AUTH_MODE"
_GCS_THREAD: Final = "gcs_client_io"
"""The beginning of the name of the thread in which Ray takes the answers of its GCS."""
_THREADS: Final = Path("/proc/self/task")


class WorkerExit(Struct, frozen=True):
    """Ray's record of a worker that has ended."""

    pid: int
    type: int
    detail: str


def last_started_address() -> str | None:
    """Return the address of the cluster that the last `ray start` on this machine left behind.

    Without Ray's function: None, as if nothing had been started; RAY_ADDRESS names a cluster then.
    """
    read = _import_attribute("ray._private.utils", "read_ray_address")
    address = read() if read is not None else None
    return address if isinstance(address, str) else None


def forget_started_address(address: str) -> None:
    """Remove Ray's note of its last cluster if it is this one: Ray would wait for it.

    Without Ray's function: the note stays, until the next `ray start` writes another.
    """
    locate = _import_attribute("ray._common.utils", "get_ray_address_file")
    if locate is not None and last_started_address() == address:
        Path(locate(None)).unlink(missing_ok=True)


def worker_exit(worker: str) -> WorkerExit | None:
    """Return how a worker has ended; None if it has not, as far as Ray knows.

    `worker` is its id in hexadecimal. Ray keeps a table of its workers, drivers among them, and
    records why each has ended.

    Raises:
        LookupError: this Ray has no such table.
        Exception: Ray does not answer, or is not as in the versions that this was written for.
    """
    import ray

    state = _import_attribute("ray._private.state", "state")
    record_type = _import_attribute("ray.core.generated.gcs_pb2", "WorkerTableData")
    if state is None or record_type is None:
        raise LookupError(f"Ray {ray.__version__} does not tell how a worker has ended")
    raw = _state_accessor(state).get_worker_info(ray.WorkerID(bytes.fromhex(worker)))
    if not raw:
        return None
    record = record_type.FromString(raw)
    return None if record.is_alive else WorkerExit(record.pid, record.exit_type, record.exit_detail)


def current_task() -> object | None:
    """Return the task that this process runs, a new object for each execution; None outside of one.

    Unlike `get_runtime_context().get_task_id()` every thread sees it. Without it: None, as
    outside of any task.
    """
    task: object | None = _import_attribute("ray._raylet", "current_task_id")
    return task


def actor_id(handle: Any) -> str:
    """Return the id of an actor, which no other actor has, also none of the same name.

    Without it: an AttributeError. The keeper then moves no server.
    """
    found: str = handle._actor_id.hex()
    return found


def draining_nodes() -> list[str]:
    """Return the ids of the nodes that Ray is about to lose, as it was told: it preempts them.

    Without it: none, as if Ray knew of no preemption; such a node is dead one day.
    """
    state = _import_attribute("ray._private.state", "state")
    told = getattr(state, "get_draining_nodes", None)
    return sorted(told()) if told is not None else []


def raylet_pid() -> int | None:
    """Return the process of the raylet that has started this worker, as Ray tells its workers.

    Without it: None, as in a driver.
    """
    told = os.environ.get("RAY_RAYLET_PID", "")
    return int(told) if told.isdecimal() else None


def session_log_folder() -> Path | None:
    """Return the folder of this Ray session's logs; None if it is unknown."""
    node = _import_attribute("ray._private.worker", "_global_node")  # as Ray Serve does
    locate = getattr(node, "get_logs_dir_path", None)
    if locate is None:
        return None
    folder = Path(locate())
    return folder if folder.is_dir() else None


def knows_tokens() -> bool:
    """Return whether this Ray has tokens: before 2.52 it has none, and no setting for them."""
    return _import_attribute("ray._raylet", "AuthenticationTokenLoader") is not None


def has_token() -> bool:
    """Return whether this user has a token for Ray, of this cluster or another."""
    loader = _import_attribute("ray._raylet", "AuthenticationTokenLoader")
    if loader is None:
        return False
    try:
        return bool(loader.instance().has_token(ignore_auth_mode=True))
    except TypeError:  # Ray 2.52, which looks only where RAY_AUTH_MODE is set
        return bool(loader.instance().has_token())


def own_token() -> str | None:
    """Return the token that this process shows to its cluster, None if Ray's authentication is off.

    Without Ray's function: None, as if it were off.
    """
    mode = _import_attribute("ray._raylet", "get_authentication_mode")
    modes = _import_attribute("ray._raylet", "AuthenticationMode")
    loader = _import_attribute("ray._raylet", "AuthenticationTokenLoader")
    if mode is None or modes is None or loader is None or mode() != modes.TOKEN:
        return None
    headers = loader.instance().get_token_for_http_header()
    _, _, token = str(headers.get("authorization", "")).partition(" ")
    return token or None


def enable_token() -> None:
    """Have Ray send this user's token, if there is one and RAY_AUTH_MODE does not say otherwise.

    Ray reads that setting when it is loaded, and has it read again as below when it finds a cluster
    by itself. A Ray that cannot is left alone; then the cluster refuses a process without a token.
    """
    config = _import_attribute("ray._raylet", "Config")
    if config is None or _AUTH_MODE_SETTING in os.environ:
        return
    os.environ[_AUTH_MODE_SETTING] = "token"
    config.initialize("")
    if not has_token():
        del os.environ[_AUTH_MODE_SETTING]
        config.initialize("")


def is_refused(address: str, timeout_s: float) -> bool:
    """Return whether the cluster at `host:port` refuses this process for lack of the right token.

    Takes milliseconds, where `ray.init` goes on trying for twenty seconds and says so in twenty
    lines. The process must have a token if it is to send one: without, Ray aborts it.

    Where Ray lacks the means: False; `ray.init` finds out.

    Raises:
        TimeoutError: the cluster does not answer in time; Ray itself waits 30 s.
    """
    client = _import_attribute("ray._raylet", "GcsClient")
    if client is None or not knows_tokens():
        return False
    with _without_lines_of("gcs_client.cc"):
        try:
            begin_in_daemon_thread(partial(client, address=address)).result(timeout_s)
        except TimeoutError:
            raise
        except Exception as error:
            return "InvalidAuthToken" in str(error)
    return False


@contextmanager
def without_sigterm_warning() -> Iterator[None]:
    """Drop Ray's warning that `ray.init` in this thread sets no handler of SIGTERM."""
    logger = logging.getLogger("ray._private.worker")

    def is_other(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("SIGTERM handler is not set")

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def has_threads() -> bool:
    """Return whether this process has the threads in which Ray takes the answers of its GCS.

    Ray starts them with the first question, before `ray.init` has returned, and they stay after
    `ray.shutdown`. Where the system does not list threads: whether the process is in a cluster.
    """
    ray = sys.modules.get("ray")
    if ray is None:
        return False
    if not _THREADS.is_dir():
        is_initialized: Callable[[], bool] = getattr(ray, "is_initialized", bool)
        return is_initialized()
    for thread in _THREADS.iterdir():
        with suppress(OSError):  # it has just ended
            if (thread / "comm").read_text().startswith(_GCS_THREAD):
                return True
    return False


def abandon_inherited() -> None:
    """In a forked child, keep the rest of the process from calling the Ray of its parent.

    Ray's hooks for an uncaught error and for the end of a process, the destructors of its objects
    and those of its library would wait for answers that nobody takes, or write into the parent's
    connections. So the hooks are removed, the objects are never destroyed, and the process ends,
    with its exit code, when the interpreter is finished.

    Without `on_exit`, which is GNU's, a child ends by `os._exit` only, as the children of
    `multiprocessing` do. With a Ray of another make: as without this function.
    """
    worker = _import_attribute("ray._private.worker", "global_worker")
    state = _import_attribute("ray._private.state", "state")
    hook = _import_attribute("ray._private.worker", "custom_excepthook")
    if hook is not None and sys.excepthook is hook:
        sys.excepthook = _import_attribute("ray._private.worker", "normal_excepthook")
    atexit.unregister(sys.modules["ray"].shutdown)
    for owner in (worker, state):
        for kept in getattr(owner, "__dict__", {}).values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)  # the first of C's hooks: the last one to be registered


@contextmanager
def _without_lines_of(source: str) -> Iterator[None]:
    """Drop the lines of that C++ file of Ray from stderr; all other lines follow at the end."""
    try:
        stderr = os.dup(2)
    except OSError:  # a process without a stderr
        yield
        return
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            kept.seek(0)
            os.write(stderr, b"".join(line for line in kept if source.encode() not in line))
            os.close(stderr)


def _state_accessor(state: Any) -> Any:
    """Return Ray's access to the tables of its GCS."""
    if hasattr(state, "_connect_and_get_accessor"):
        return state._connect_and_get_accessor()
    state._check_connected()  # Ray 2.50 and 2.51
    return state.global_state_accessor


def _import_attribute(module: str, name: str) -> Any:
    """Return an attribute of a private module of Ray; None if Ray lacks either."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
