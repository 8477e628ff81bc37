"""A Ray head that outlives the command that started it.

`ray.init` starts a Ray that ends with its process, so `raykeeper up` runs `ray start --head
--block` as a separate process and keeps a record of it (client/head_record.py). That process ends
its whole node on SIGTERM, so one signal to one pid stops the head. `ray stop` is never used: it
ends every Ray on the machine.

The head listens on all interfaces, as any Ray head does. Ray's token guards its ports; one is
generated if there is none. Ray before 2.52 has no token, and before 2.59 it requires one only if
RAY_AUTH_MODE=token is set: without it anybody who reaches this machine can use the head.
"""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil
import ray

from raykeeper.client.head_record import LocalHead, head_folder, record_file
from raykeeper.client.ray_lookups import list_actors
from raykeeper.links.processes import started_at, this_pid_namespace
from raykeeper.links.ray_internals import forget_started_address, has_token, is_refused
from raykeeper.links.ray_names import replicas_among
from raykeeper.zab.errors import RayKeeperError

_log = logging.getLogger("raykeeper.clusters")
_STARTED = re.compile(r"ray start --address='([^']+)'")
_POLL_S = 0.05
_PROMPT_WORKERS = {"RAY_worker_niceness": "0"}
"""Ray gives its workers, and so the servers, the priority of its own processes."""
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_KILL_TIMEOUT_S = 10.0


class LocalHeadError(RayKeeperError):
    """Raised when the Ray head of `raykeeper up` does not start or does not end.

    The caller should read the file that the message names.
    """


def start_head() -> LocalHead:
    """Start a Ray head on this machine and wait until it accepts connections.

    Raises:
        LocalHeadError: Ray did not start. Nothing is left running.
    """
    head_folder().mkdir(parents=True, exist_ok=True)
    log = head_folder() / "head.log"
    _ensure_token()
    command = [*_ray(), "start", "--head", "--block", "--port=0", "--disable-usage-stats"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--include-dashboard=false"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=Path.home(),
            env=_PROMPT_WORKERS | os.environ,
            start_new_session=True,  # a ^C for the command must not end the head
        )
    try:
        address = _wait_for_address(process, log)
        me = (process.pid, started_at(process.pid), this_pid_namespace())
        head = LocalHead(*me, address, _wants_token(address))
        record_file().write_bytes(msgspec.json.encode(head))
    except BaseException:
        process.terminate()
        raise
    return head


def stop_head(head: LocalHead) -> None:
    """Stop the head and its whole node; what has not ended in 30 s is killed.

    Raises:
        LocalHeadError: the head did not end even so.
    """
    try:
        process = psutil.Process(head.pid)
        children = process.children(recursive=True)
        process.terminate()
    except psutil.NoSuchProcess:
        children = []
    else:
        _, alive = psutil.wait_procs([process, *children], timeout=_STOP_TIMEOUT_S)
        for each in alive:  # a raylet waits longer for some actors, such as Ray Train's coordinator
            with suppress(psutil.NoSuchProcess):
                each.kill()
        _, alive = psutil.wait_procs(alive, timeout=_KILL_TIMEOUT_S)
        alive = [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
        if alive:
            raise LocalHeadError(f"processes {[p.pid for p in alive]} of Ray did not end")
    record_file().unlink(missing_ok=True)
    forget_started_address(head.address)


@contextmanager
def stopped_if_unused(head: LocalHead | None) -> Iterator[None]:
    """Stop a head that was started for the block, if the block fails and no ensemble runs there.

    Otherwise the user would keep an unused Ray that they did not ask for. If an ensemble runs,
    perhaps without a leader yet, the head is kept: a second try completes the ensemble.
    """
    try:
        yield
    except BaseException:
        if head is not None and not _has_ensembles():
            _log.warning("nothing was launched, so the Ray that was started for it ends again")
            ray.shutdown()
            stop_head(head)
        raise


def _has_ensembles() -> bool:
    """Return whether this process is connected to a Ray in which an ensemble runs."""
    try:
        if not ray.is_initialized():
            return False
        return bool(replicas_among(list_actors()))
    except Exception:  # a Ray that does not answer, with any error, is of no use
        return False


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while (found := _STARTED.search(log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise LocalHeadError(f"Ray did not start; see {log}")
        time.sleep(_POLL_S)
    return found.group(1)


def _ray() -> list[str]:
    """Return the `ray` command of this interpreter's installation."""
    return [sys.executable, "-m", "ray.scripts.scripts"]


def _wants_token(address: str) -> bool:
    """Return whether the head requires a token; by default that depends on Ray's version.

    Raises:
        LocalHeadError: it does not answer.
    """
    mode = os.environ.get("RAY_AUTH_MODE")
    if mode is not None:
        return mode.lower() == "token"
    try:
        return is_refused(address, _START_TIMEOUT_S)
    except TimeoutError:
        raise LocalHeadError(f"the Ray at {address} was started, and does not answer") from None


def _ensure_token() -> None:
    """Let Ray generate its token if there is none: a head without one admits anybody."""
    if os.environ.get("RAY_AUTH_MODE", "token").lower() != "token" or has_token():
        return
    subprocess.run(
        [*_ray(), "get-auth-token", "--generate"],
        # If the variable demands a token, Ray does nothing without one, not even generate it.
        env={name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"},
        stdout=subprocess.DEVNULL,  # it prints the secret
        stderr=subprocess.DEVNULL,
        check=False,
    )
