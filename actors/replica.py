"""The Replica: the Ray actor that gives one pure server a clock, a disk, links and companions.

A loop: take all waiting events, step, carry out the effects in order, arm one timer. It decides
nothing. ZooKeeper: `QuorumPeerMain`.

Invariants: every event is handed to exactly one `step`, in the order in which it came; a step or
a disk that fails ends the process at once, so that Ray starts it anew from its log and nothing
built on a broken state gets out; nobody is served before all of the disk was read.
"""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn, get_args

from raykeeper.actors.client_process_monitor import ClientProcessMonitor
from raykeeper.actors.disk.disk_thread import DiskThread
from raykeeper.actors.disk.opening import open_storage
from raykeeper.actors.disk.storage import Storage, StorageEffect
from raykeeper.actors.disk.storage_errors import FolderInUse, NoRoom
from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.actors.process_liveness import is_gone
from raykeeper.actors.replica_config import ReplicaConfig
from raykeeper.actors.replica_links import CannotListenError, ReplicaLinks
from raykeeper.actors.replica_logger import ReplicaLogger
from raykeeper.actors.replica_status import FAILED, STARTING, ReplicaDescription, ReplicaStatus
from raykeeper.actors.session_tracker_client import SessionTrackerClient
from raykeeper.actors.snapshotter_client import SnapshotterClient
from raykeeper.links.batches import Portion
from raykeeper.links.contract import LinkUnreachable
from raykeeper.links.hello import Refusal, encode_hello
from raykeeper.links.ray_calls import UNKNOWN_LINK, Answer
from raykeeper.links.stream_endpoints import StreamAddress
from raykeeper.server.effects import (
    CloseClient,
    Effect,
    Restart,
    SendClient,
    SendPeer,
    SnapshotAbort,
    SnapshotBegin,
    SnapshotFinish,
    SnapshotWrite,
    TrackSessions,
)
from raykeeper.server.events import DiskEvent, Event
from raykeeper.server.peer_messages import PeerMessage
from raykeeper.server.server import Server
from raykeeper.zab.effects import BreakLink, TraceEvent
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis, Now, ServerId

DISK_EFFECTS: Final = frozenset(get_args(StorageEffect))
FOLDER_RETRY_S: Final = 1.0
IDLE_COLLECTION_S: Final = 60.0


class Replica:
    """One server of an ensemble. All its methods are coroutines on one event loop."""

    def __init__(self, config: ReplicaConfig) -> None:
        """Begin to start; `ready` tells when that is done."""
        self.server_id = config.server_id
        self.incarnation = 0
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._log = ReplicaLogger(config.ensemble, config.server_id)
        self._log.attach_to_ray()
        share_fate_with_raylet(lambda: self._log.line("replica.orphaned"))
        self._node_id = _node_id()
        self._failure: RayKeeperError | None = None
        self._retried_error: RayKeeperError | None = None
        self._runner: _ServerRunner | None = None
        self._starting = self._loop.create_task(self._start())

    async def ready(self) -> None:
        """Wait until the server has read its disk and takes part; try again if it failed.

        Raises:
            StorageError: its folder cannot be used; the text says what to do.
        """
        if self._starting.done() and self._failure is not None:
            self._starting = self._loop.create_task(self._start())
        await self._starting
        if self._failure is not None:
            raise self._failure

    async def status(self) -> ReplicaStatus:
        """How the server is, also when it failed to start."""
        pid = os.getpid()
        if self._runner is None:
            return ReplicaStatus(
                server_id=self.server_id,
                role=STARTING if self._failure is None else FAILED,
                pid=pid,
                node_id=self._node_id,
                failure=str(self._failure or self._retried_error or ""),
            )
        stats, links = self._runner.server.stats(), self._runner.links
        return ReplicaStatus(
            server_id=self.server_id,
            role=stats.role.value,
            pid=pid,
            node_id=self._node_id,
            is_active=stats.is_active,
            leader=stats.leader,
            epoch=stats.epoch,
            last_zxid=stats.last_zxid,
            votes=stats.has_vote,
            voters_lost=stats.voters_lost,
            reset_reason=self._runner.reset_reason,
            has_disk_space=stats.has_disk_space,
            incarnation=self.incarnation,
            links=dict(links.peers.states),
            carriers=links.peers.carriers(),
            clients=links.clients.carriers(),
            stream_problem=links.stream_problem,
            sessions=stats.sessions,
            znodes=stats.znodes,
            watches=stats.watches,
            outstanding=stats.outstanding,
            digest=stats.digest,
        )

    async def describe(self) -> ReplicaDescription:
        """Which ensemble this is a server of."""
        config = self._config
        return ReplicaDescription(
            ensemble=config.ensemble,
            ensemble_uuid=config.ensemble_uuid,
            server_id=config.server_id,
            voters=config.voters,
            observers=config.observers,
            folder=config.folder,
            node_id=self._node_id,
            value_bytes_max=config.value_bytes_max,
            session_timeout_min_ms=config.session_timeout_min_ms,
            session_timeout_max_ms=config.session_timeout_max_ms,
        )

    async def stop(self) -> None:
        """Close all links, have the disk finish, give the folder back; then the actor may go."""
        self._starting.cancel()
        if self._runner is not None:
            running, self._runner = self._runner, None
            await running.stop()
            self._log.line("replica.stopped")
        self._failure = RayKeeperError("the server was stopped")

    async def link_address(self) -> StreamAddress | None:
        """Where this server takes direct streams, None if it does not. Keep the answer secret.

        Raises:
            LinkUnreachable: the server is not running, so it cannot tell; nor does it take calls.
        """
        if self._runner is None:
            raise LinkUnreachable("the server is not running")
        return self._runner.links.address

    async def link_open(self, hello: bytes, keepalive_ms: int) -> tuple[int, bytes]:
        """See `RayCallAcceptor.link_open`."""
        if self._runner is None:
            return 0, encode_hello(Refusal("the server is not running"))
        return await self._runner.links.calls.link_open(hello, keepalive_ms)

    async def link_send(self, link_id: int, number: int, *portions: Portion) -> Answer:
        """See `RayCallAcceptor.link_send`."""
        if self._runner is None:
            return 0, None, UNKNOWN_LINK
        return await self._runner.links.calls.link_send(link_id, number, *portions)

    async def link_receive(self, link_id: int) -> Answer:
        """See `RayCallAcceptor.link_receive`."""
        if self._runner is None:
            return 0, None, UNKNOWN_LINK
        return await self._runner.links.calls.link_receive(link_id)

    async def link_close(self, link_id: int, reason: str) -> None:
        """See `RayCallAcceptor.link_close`."""
        if self._runner is not None:
            await self._runner.links.calls.link_close(link_id, reason)

    async def _start(self) -> None:
        self._failure = None
        try:
            while True:
                try:
                    storage, server = await asyncio.to_thread(self._recover)
                    break
                except (FolderInUse, NoRoom) as error:
                    # An older instance of this actor may still be on its way out; a disk may get
                    # room again.
                    if type(error) is not type(self._retried_error):
                        self._log.line("replica.waits", reason=error)
                    self._retried_error = error
                    await asyncio.sleep(FOLDER_RETRY_S)
        except RayKeeperError as error:
            self._failure = error
            self._log.line("replica.failed", reason=error)
            return
        # A bug. Nothing was built on it yet, so it is told where one looks instead of repeated.
        except Exception as error:
            self._failure = RayKeeperError(f"the start failed: {error!r}")
            self._log.fatal("the start failed", error)
            return
        self._retried_error = None
        _freeze_recovered_objects()
        self.incarnation = storage.identity.incarnation
        try:
            self._runner = _ServerRunner(self._config, self._log, storage, server)
        except CannotListenError as error:
            await asyncio.to_thread(storage.close)
            self._failure = error
            self._log.line("replica.failed", reason=error)
            return
        self._log.line("replica.started", incarnation=self.incarnation)

    def _recover(self) -> tuple[Storage, Server]:
        config = self._config
        storage, recovered = open_storage(
            config.path,
            config.owner(),
            config.storage_limits(),
            has_peers=config.has_other_voters,
            wall_s=int(time.time()),
        )
        try:
            for note in recovered.notes:
                self._log.note(note)
            server = Server(
                config.settings(disk=recovered.disk_id),
                config.limits(),
                config.options(),
                recovered,
            )
        except BaseException:
            storage.close()
            raise
        return storage, server


class _ServerRunner:
    """A server that has read its disk, and everything that moves it."""

    def __init__(
        self, config: ReplicaConfig, log: ReplicaLogger, storage: Storage, server: Server
    ) -> None:
        self.server = server
        self.reset_reason = storage.identity.begun_anew
        self.links = ReplicaLinks(
            config, storage.identity.incarnation, _node_host(), self._deliver, log.line
        )
        self._config = config
        self._log = log
        self._storage = storage
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._is_scheduled = False
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: Millis | None = None
        self._collected_at = self._loop.time()
        self._disk = DiskThread(
            storage,
            self._on_disk_events_in_thread,
            self._on_trace_in_thread,
            lambda error: self._fail("the disk failed", error),
        )
        self._tracker = SessionTrackerClient(
            self._find_tracker,
            self._deliver,
            lambda reason: log.line("tracker.call_failed", reason=reason),
        )
        self._snapshotter = SnapshotterClient(
            self._find_snapshotter,
            self._deliver,
            lambda reason: log.line("snapshotter.call_failed", reason=reason),
        )
        self._client_processes = ClientProcessMonitor(
            self.links.clients, partial(is_gone, _node_id()), self._deliver
        )
        self._handlers: dict[type, Callable[[Any], None]] = {
            CloseClient: lambda effect: self.links.clients.close(
                effect.connection, "the session ended"
            ),
            TrackSessions: lambda effect: self._tracker.track(effect.report),
            SnapshotBegin: self._snapshotter.perform,
            SnapshotWrite: self._snapshotter.perform,
            SnapshotFinish: self._snapshotter.perform,
            SnapshotAbort: self._snapshotter.perform,
            TraceEvent: log.note,
        }
        self._perform(server.start(_now()))
        self._arm_timer()
        self.links.dial_peers(self._find_replica)

    async def stop(self) -> None:
        """Close the links, finish what is under way on the disk, give the folder back."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._tracker.close()
        self._snapshotter.close()
        self._client_processes.close()
        self.links.close("the server stops")
        await asyncio.to_thread(self._disk.close)
        await asyncio.to_thread(self._storage.close)

    # Events in.

    def _deliver(self, event: Event) -> None:
        self._events.append(event)
        self._schedule()

    def _on_disk_events_in_thread(self, events: list[DiskEvent]) -> None:
        self._loop.call_soon_threadsafe(self._on_disk_events, events)

    def _on_trace_in_thread(self, note: TraceEvent) -> None:
        self._loop.call_soon_threadsafe(self._log.note, note)

    def _on_disk_events(self, events: list[DiskEvent]) -> None:
        self._events += events
        self._schedule()

    def _schedule(self) -> None:
        # What arrives in the same turn of the loop, from any link, goes into the same step.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._step)

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        if not self._events:
            self._collect_when_idle()
        self._schedule()

    def _step(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        events, self._events = self._events, []
        try:
            self._perform(self.server.step(events, _now()))
            self._arm_timer()
        # Not handled, but the end: an assertion that failed must not leave a server that goes on.
        except BaseException as error:
            self._fail("a step failed", error)

    def _arm_timer(self) -> None:
        due = self.server.deadline()
        if due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        if due is None:
            self._timer = None
        else:
            delay_s = max(0, due - _now().mono) / 1000
            self._timer = self._loop.call_later(delay_s, self._on_timer)

    # Effects out.

    def _perform(self, effects: list[Effect]) -> None:
        """In order, as far as anybody can tell: each link and the disk get theirs in order."""
        disk: list[StorageEffect] = []
        to_peers: dict[ServerId, list[PeerMessage]] = {}
        send_client = self.links.clients.send
        for effect in effects:
            if isinstance(effect, SendClient):
                send_client(effect.connection, effect.data)
            elif isinstance(effect, SendPeer):
                messages = to_peers.get(effect.peer)
                if messages is None:
                    to_peers[effect.peer] = [effect.message]
                else:
                    messages.append(effect.message)
            elif type(effect) in DISK_EFFECTS:
                disk.append(effect)  # type: ignore[arg-type]
            elif isinstance(effect, Restart):
                self._restart_after(effect, disk)
                return
            elif isinstance(effect, BreakLink):
                self._flush_peer(effect.peer, to_peers)
                self.links.peers.break_link(effect.peer, effect.reason)
            else:
                self._handlers[type(effect)](effect)
        # The disk last: its thread takes the interpreter from this one as soon as it has work.
        for peer in list(to_peers):
            self._flush_peer(peer, to_peers)
        if disk:
            self._disk.submit(disk)

    def _flush_peer(self, peer: ServerId, to_peers: dict[ServerId, list[PeerMessage]]) -> None:
        messages = to_peers.pop(peer, None)
        if messages:
            self.links.peers.send(peer, messages)

    def _restart_after(self, effect: Restart, disk: list[StorageEffect]) -> None:
        """End the process once the disk has done its work; Ray starts it anew from the disk."""
        self._is_stopped = True
        if disk:
            self._disk.submit(disk)

        def end() -> None:
            try:
                self._disk.close()
                if effect.wipe_disk:
                    self._storage.mark_for_repair(effect.reason)
            except BaseException as error:
                self._fail("the disk failed", error)
            self._log.line("replica.restarts", reason=effect.reason, forget=effect.wipe_disk)
            os._exit(1)

        threading.Thread(target=end, name="raykeeper-restart").start()

    def _fail(self, what: str, error: BaseException) -> NoReturn:
        self._log.fatal(what, error)
        os._exit(1)

    # Other actors. Imported late, because the file that applies `ray.remote` imports this one.

    def _find_replica(self, server: ServerId) -> Any:
        from raykeeper.actors.ray_actors import find_replica

        return find_replica(self._config.ensemble, server)

    def _find_tracker(self) -> Any:
        from raykeeper.actors.ray_actors import start_tracker

        return start_tracker(self._config, _node_id())

    def _find_snapshotter(self) -> Any:
        from raykeeper.actors.ray_actors import start_snapshotter

        return start_snapshotter(self._config, _node_id())

    # Garbage. What was recovered or has lived through a quiet minute is taken out of the
    # collector's sight, and full collections are left to quiet moments: one over a million
    # znodes takes most of a second, in which a leader would be taken for dead.

    def _collect_when_idle(self) -> None:
        now = self._loop.time()
        if now - self._collected_at > IDLE_COLLECTION_S:
            self._collected_at = now
            gc.collect()
            gc.freeze()


def _freeze_recovered_objects() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 1_000_000)


def _now() -> Now:
    return Now(Millis(time.monotonic_ns() // 1_000_000), Millis(time.time_ns() // 1_000_000))


def _node_id() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _node_host() -> str:
    import ray.util

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
