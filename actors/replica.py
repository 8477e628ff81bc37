"""The Replica: the Ray actor that gives one pure server a clock, a disk, links and sidecars.

It runs a loop: take all waiting events, step, perform the effects in order, arm one timer. It
decides nothing. ZooKeeper: `QuorumPeerMain`.

Invariants: exactly one `step` takes each event, in the order of arrival; a step or a disk that
fails ends the process at once, so that Ray restarts it from its log and nothing built on a broken
state gets out; no client is served before all of the disk was read.

The file is long because the calls of the actor stand beside the loop that they start and ask.
"""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import ray
import ray.util
from msgspec.structs import replace

from raykeeper.actors.admin_server import AdminServer
from raykeeper.actors.client_limit import client_limit, raise_files_limit
from raykeeper.actors.client_process_monitor import monitor_client_processes
from raykeeper.actors.disk.disk_thread import DiskThread
from raykeeper.actors.disk.members_file import StoredMembers, read_members
from raykeeper.actors.disk.opening import open_storage
from raykeeper.actors.disk.storage import Storage, StorageEffect
from raykeeper.actors.disk.storage_errors import FolderInUse, NoRoom
from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.actors.members_writer import MembersWriter
from raykeeper.actors.metrics_flusher import MetricsFlusher, make_ray_metrics
from raykeeper.actors.operator_answers import OperatorAnswers
from raykeeper.actors.operator_requests import OperatorRequests
from raykeeper.actors.process_facts import niceness_below_parent, read_process_facts
from raykeeper.actors.ray_actors import find_replica, own_node_id, start_actor
from raykeeper.actors.replica_config import CLIENTS_MAX_CEILING, ReplicaConfig
from raykeeper.actors.replica_logger import ReplicaLogger
from raykeeper.actors.replica_status import (
    FAILED,
    REMOVED,
    STARTING,
    ReconfigOutcome,
    ReplicaDescription,
    ReplicaStatus,
    TransferOutcome,
    describe_replica,
)
from raykeeper.actors.running_versions import running_versions
from raykeeper.actors.server_links import CannotListenError, ServerLinks
from raykeeper.actors.session_tracker import start_tracker
from raykeeper.actors.sidecars import (
    SNAPSHOTTER_CALL_FAILED,
    TRACKER_CALL_FAILED,
    SessionTrackerClient,
    SnapshotterClient,
)
from raykeeper.actors.snapshotter import start_snapshotter
from raykeeper.actors.step_effects import sort_effects
from raykeeper.actors.step_times import StepTimes
from raykeeper.links.batches import Portion
from raykeeper.links.contract import LinkUnreachable
from raykeeper.links.hello import Refusal, encode_hello
from raykeeper.links.ray_calls import UNKNOWN_LINK, Answer
from raykeeper.links.ray_names import replica_name
from raykeeper.links.stream_endpoints import StreamAddress
from raykeeper.server.admin_commands import AdminInput, Document, answer_command
from raykeeper.server.admin_queries import AdminAnswer, AdminQuery
from raykeeper.server.effects import (
    CloseClient,
    Effect,
    LeaveEnsemble,
    MembersKnown,
    PauseReading,
    ReadProcessFacts,
    Restart,
    ResumeReading,
    SendClient,
    SnapshotAbort,
    SnapshotBegin,
    SnapshotFinish,
    SnapshotWrite,
    TrackSessions,
)
from raykeeper.server.events import (
    DiskEvent,
    DrainEnded,
    DrainRequested,
    Event,
    ProcessFactsRead,
)
from raykeeper.server.server import Server
from raykeeper.zab.effects import BreakLink, TraceEvent
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.feature_levels import LEVEL_MAX
from raykeeper.zab.ids import SERVER_ID_MAX, Millis, Now, ServerId, Zxid, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import MEMBER_PLAN_PATH
from raykeeper.znodes.requests import Reconfig

FOLDER_RETRY_S: Final = 1.0
IDLE_COLLECTION_S: Final = 60.0
CALLS_RESERVE: Final = 256
"""Slots for calls of peers, of operators, and of links that are being refused."""
PEERS_RESERVE: Final = 16
"""Open files are kept free for the links of so many servers, since the ensemble may grow; of a
larger ensemble for those that it has when this server starts."""


def start_replica(
    config: ReplicaConfig, node_id: str | None = None, placement: Mapping[str, Any] | None = None
) -> Any:
    """Return the Replica actor of a server, started if there is none; it may not be ready yet.

    Args:
        config: Of a new actor; one that exists keeps its own.
        node_id: The Ray node to run on for good; None leaves it to Ray.
        placement: More options of Ray that place it, such as `resources` or `label_selector`.
    """
    # Two calls of each client are under way, one of them a long poll, and two of each peer. Only
    # the process knows how many clients it bears; a slot that is not used costs nothing.
    calls = 2 * CLIENTS_MAX_CEILING + 2 * SERVER_ID_MAX + CALLS_RESERVE
    name = replica_name(config.ensemble, config.server_id)
    options = {"max_concurrency": calls, **(placement or {})}
    return start_actor(Replica, name, node_id, config, **options)


class Replica:
    """One server of an ensemble. All its methods are coroutines on one event loop."""

    def __init__(self, config: ReplicaConfig) -> None:
        """Begin to start; await `ready` for the end of that."""
        self.server_id = config.server_id
        self.incarnation = 0
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._log = ReplicaLogger(config.ensemble, config.server_id, self._loop.call_later)
        self._log.attach_to_ray(config.log_format, config.log_file_bytes, config.log_files_kept)
        share_fate_with_raylet(lambda: self._log.line("replica.orphaned"))
        self._node_id = own_node_id()
        self._niceness = niceness_below_parent()
        self._failure: RayKeeperError | None = None
        self._retried_error: RayKeeperError | None = None
        self._runner: _ServerRunner | None = None
        self._removed = ""  # why the server is a member no more
        self._leaving: asyncio.Task[None] | None = None
        self._operators = OperatorAnswers()
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
        """Return the state of the server, also when it failed to start."""
        if self._runner is None:
            return self._status_without_server(self._role_without_server())
        server, links = self._runner.server, self._runner.links
        stats, state = server.stats(), server.state
        members = server.peer.settings.members.delivered
        config, plan = self._config, state.tree.get(MEMBER_PLAN_PATH)
        return replace(
            self._status_without_server(stats.role.value),
            is_active=stats.is_active,
            leader=stats.leader,
            epoch=stats.epoch,
            last_zxid=stats.last_zxid,
            votes=stats.has_vote,
            voters_lost=stats.voters_lost,
            voter_disks=stats.voter_disks,
            reset_reason=self._runner.reset_reason,
            restored_from=self._runner.restored_from,
            has_disk_space=stats.has_disk_space,
            incarnation=self.incarnation,
            incarnations_seen=links.peers.incarnations(),
            links=dict(links.peers.states),
            carriers=links.peers.carriers(),
            clients=links.clients.carriers(),
            stream_problem=links.stream_problem,
            clients_max=links.clients.limit.clients_max,
            clients_problem=links.clients.limit.problem,
            zookeeper=config.zookeeper_address_at(_node_host(), config.zookeeper_port),
            zookeeper_problem=links.jute.problem if links.jute else "",
            zookeeper_tls=config.zookeeper_address_at(_node_host(), config.zookeeper_tls_port),
            zookeeper_tls_problem=links.jute_tls.problem if links.jute_tls else "",
            admin_problem=self._runner.admin.problem if self._runner.admin else "",
            sessions_max=self._config.sessions_max,
            sessions=stats.sessions,
            znodes=stats.znodes,
            watches=stats.watches,
            outstanding=stats.outstanding,
            digest=0 if state.tree.unhashed else state.digest(),
            members=members if members.version else None,
            is_member=self.server_id in members.servers,
            change=server.open_change,
            member_plan=(plan and plan.value) or b"",
            clients_to_move=stats.clients_to_move,
            level=state.level,
            level_newest=LEVEL_MAX,
            level_raise_to=min(LEVEL_MAX, config.feature_level_max or LEVEL_MAX),
        )

    def _role_without_server(self) -> str:
        if self._removed:
            return REMOVED
        return STARTING if self._failure is None else FAILED

    def _status_without_server(self, role: str) -> ReplicaStatus:
        return ReplicaStatus(
            server_id=self.server_id,
            role=role,
            pid=os.getpid(),
            node_id=self._node_id,
            failure=str(self._failure or self._retried_error or ""),
            wall_ms=_now().wall,
            niceness=self._niceness,
            versions=running_versions(),
            log_file=str(self._log.file or ""),
        )

    async def describe(self) -> ReplicaDescription:
        """Return the ensemble that this server belongs to."""
        if self._runner is not None:
            members = self._runner.server.peer.settings.members.delivered
            return describe_replica(self._config, self._node_id, members)
        stored = await asyncio.to_thread(read_members, self._config.path)
        known = None if stored is None else stored.members
        return describe_replica(self._config, self._node_id, known)

    async def answer(self, query: AdminQuery) -> AdminAnswer | str:
        """Answer an operator, between the steps of the server; a text says why it does not."""
        if self._runner is None:
            return "is reading its disk, or waiting for it"
        return await self._operators.answer(self._runner.server, query)

    async def transfer_leadership(
        self, to: ServerId | None, within_ms: int, lag_max: int
    ) -> TransferOutcome:
        """Hand the lead to another voter; see `LeaderBroadcast.transfer_leadership`."""
        if self._runner is None:
            return TransferOutcome(None, False, f"server {self.server_id} is starting, or stopped")
        return await self._runner.operators.transfer_leadership(to, within_ms, lag_max)

    async def reconfig(self, op: Reconfig) -> ReconfigOutcome:
        """Change the member list by one step, as an operator; see `ReconfigRequests`."""
        if self._runner is None:
            reason = f"server {self.server_id} is starting, or stopped"
            return ReconfigOutcome(Code.SYSTEM_ERROR, reason)
        return await self._runner.operators.reconfig(op)

    async def drain(self, clients_per_s: int, patience_ms: int) -> str:
        """Take no more clients, and move those that are there; return "", or why not.

        See `DrainRequested`. `status` tells how many are left.
        """
        if self._runner is None:
            return "it is starting, or stopped"
        self._runner.drain(DrainRequested(clients_per_s, patience_ms))
        return ""

    async def end_drain(self) -> bool:
        """Take clients again; return whether the server was drained."""
        if self._runner is None:
            return False
        was_drained = self._runner.server.stats().clients_to_move is not None
        self._runner.drain(DrainEnded())
        return was_drained

    async def stop(self, held: tuple[str, Zxid] | None = None) -> bool:
        """End all but the actor; but return False if `held` (path, token) is known to be lost."""
        if held and (runner := self._runner) is not None and runner.server.knows_lost(*held):
            return False
        self._starting.cancel()
        if self._leaving is not None:
            await self._leaving
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.stop()
            self._log.line("replica.stopped")
            self._log.flush()
        if not self._removed:
            self._failure = RayKeeperError("the server was stopped")
        return True

    async def link_address(self) -> StreamAddress | None:
        """Return where this server takes direct streams; None without them. Keep it secret.

        Raises:
            LinkUnreachable: the server is not running, so it takes neither streams nor calls.
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
        self._failure, self._removed = None, ""
        try:
            while True:
                try:
                    stored = await asyncio.to_thread(self._read_members)
                    if stored is not None and stored.removed:
                        self._on_removed(stored.removed)
                        return
                    storage, server = await asyncio.to_thread(self._recover, stored)
                    break
                except (FolderInUse, NoRoom) as error:
                    # An older instance of this actor may be about to end; a full disk may get
                    # space.
                    if type(error) is not type(self._retried_error):
                        self._log.line("replica.waits", reason=error)
                    self._retried_error = error
                    await asyncio.sleep(FOLDER_RETRY_S)
        except RayKeeperError as error:
            self._failure = error
            self._log.line("replica.failed", reason=error)
            return
        # A bug. Nothing was built on it yet, so log it instead of restarting again and again.
        except Exception as error:
            self._failure = RayKeeperError(f"the start failed: {error!r}")
            self._log.fatal("the start failed", error)
            return
        self._retried_error = None
        _freeze_recovered_objects()
        self.incarnation = storage.identity.incarnation
        try:
            self._runner = _ServerRunner(
                self._config, self._log, storage, server, stored, self._begin_to_leave
            )
        except CannotListenError as error:
            await asyncio.to_thread(storage.close)
            self._failure = error
            self._log.line("replica.failed", reason=error)
            return
        limit = self._runner.links.clients.limit
        self._log.line(
            "replica.started",
            incarnation=self.incarnation,
            clients_max=limit.clients_max,
            clients_max_from=limit.source,
            sessions_max=self._config.sessions_max,
            sessions_max_from="the setting sessions_max",
        )
        if limit.problem:
            self._log.line("replica.few_files", reason=limit.problem)

    def _begin_to_leave(self, members: MemberList) -> None:
        if self._leaving is None:
            self._leaving = self._loop.create_task(self._leave(members))

    async def _leave(self, members: MemberList) -> None:
        """End all but the actor: the member list has this server no more, and needs it no more."""
        runner, self._runner = self._runner, None
        reason = f"left the ensemble by the change of version {format_zxid(members.version)}"
        if runner is not None:
            try:
                await runner.stop(StoredMembers(members, reason))
            except RayKeeperError as error:  # its folder could not be closed
                self._log.line("replica.stop_failed", reason=error)
        self._on_removed(reason)
        self._leaving = None

    def _on_removed(self, reason: str) -> None:
        self._removed = reason
        self._failure = RayKeeperError(f"server {self.server_id} {reason}")
        self._log.line("replica.removed", reason=reason)
        self._log.flush()

    def _read_members(self) -> StoredMembers | None:
        def tell(reason: str) -> None:  # this is another thread
            self._loop.call_soon_threadsafe(lambda: self._log.line("members.unread", reason=reason))

        return read_members(self._config.path, tell=tell)

    def _recover(self, stored: StoredMembers | None) -> tuple[Storage, Server]:
        config = self._config
        storage, recovered = open_storage(
            config.path,
            config.owner(),
            config.storage_limits(),
            has_peers=config.has_other_voters(None if stored is None else stored.members),
            wall_s=max(int(time.time()), config.newest_incarnation + 1),
        )
        try:
            for event in recovered.trace_events:
                self._loop.call_soon_threadsafe(self._log.trace, event)  # this is another thread
            listed = () if stored is None else stored.members.servers
            server = Server(
                config.settings(disk=recovered.disk_id),
                config.limits(),
                config.options(_node_host()),
                replace(recovered, was_member=self.server_id in listed),
            )
        except BaseException:
            storage.close()
            raise
        return storage, server


class _ServerRunner:
    """A server that has read its disk, and everything that drives it."""

    def __init__(
        self,
        config: ReplicaConfig,
        log: ReplicaLogger,
        storage: Storage,
        server: Server,
        stored: StoredMembers | None,
        on_removed: Callable[[MemberList], None],
    ) -> None:
        self.server = server
        self.operators = OperatorRequests(self._deliver)
        self._members = MembersWriter(config.path, config.server_id, stored, log.line)
        self._on_removed = on_removed
        self.reset_reason = storage.identity.reset_reason
        self.restored_from = storage.identity.restored_from
        files = raise_files_limit(2 * CLIENTS_MAX_CEILING)
        peers = max(PEERS_RESERVE, len(server.peer.settings.members.newest.servers))
        limit = client_limit(config.clients_max, files, peers)
        incarnation = storage.identity.incarnation
        self.links = ServerLinks(config, incarnation, _node_host(), self._deliver, log.line, limit)
        self._log = log
        self._storage = storage
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._is_scheduled = self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: Millis | None = None
        self._collected_at = self._loop.time()
        self._times = StepTimes()
        self._scheduled_at = self._began_at = 0  # in nanoseconds of perf_counter
        self._slow_step_ns = config.options().slow_request_ms * 1_000_000
        self._disk = DiskThread(
            storage,
            self._on_disk_events_in_thread,
            self._on_trace_in_thread,
            lambda error: self._fail("the disk failed", error),
            on_forced=self._times.force.add,
        )
        self._tracker = SessionTrackerClient(
            lambda: start_tracker(config, own_node_id()),
            self._deliver,
            lambda reason: log.line(TRACKER_CALL_FAILED, reason=reason),
        )
        self._snapshotter = SnapshotterClient(
            lambda: start_snapshotter(config, own_node_id()),
            self._deliver,
            lambda reason: log.line(SNAPSHOTTER_CALL_FAILED, reason=reason),
        )
        self._client_processes = monitor_client_processes(
            self.links.clients, own_node_id(), server.awaits_process_death, self._deliver
        )
        self.admin = self._make_admin(config)
        """Answers over HTTP, if the settings ask for it."""
        self._metrics = self._flush_metrics(config) if config.metrics else None
        self._handlers = self._make_handlers()
        self._perform(server.start(_now()))
        self._arm_timer()
        self.links.dial_peers(lambda server: find_replica(config.ensemble, server))

    def _flush_metrics(self, config: ReplicaConfig) -> MetricsFlusher:
        return MetricsFlusher(
            make_ray_metrics(config.ensemble, config.server_id),
            self.server.metrics,
            self._times,
            self._storage.folder,
            (config.sessions_max, self.links.clients.limit.clients_max),
            self._log.totals,
        )

    def _make_admin(self, config: ReplicaConfig) -> AdminServer | None:
        address, port = config.zookeeper_address, config.zookeeper_admin_port
        return AdminServer(address, port, self._answer_admin, self._log.line) if port else None

    def _make_handlers(self) -> dict[type, Callable[[Any], None]]:
        """Return what performs the effects that `_perform` does not know by itself."""
        clients = self.links.clients
        return {
            CloseClient: lambda effect: clients.close(effect.connection, "the session ended"),
            PauseReading: lambda effect: clients.set_reading(effect.connection, False),
            ResumeReading: lambda effect: clients.set_reading(effect.connection, True),
            TrackSessions: lambda effect: self._tracker.track(effect.report),
            **self.operators.handlers(),
            MembersKnown: self._on_members_known,
            LeaveEnsemble: self._on_leave,
            ReadProcessFacts: lambda _: self._begin_reading_facts(),
            **dict.fromkeys(
                (SnapshotBegin, SnapshotWrite, SnapshotFinish, SnapshotAbort),
                self._snapshotter.perform,
            ),
            TraceEvent: self._log.trace,
        }

    def _on_members_known(self, effect: MembersKnown) -> None:
        self.links.peers.set_servers(effect.servers)
        self._members.take(effect)

    def _on_leave(self, effect: LeaveEnsemble) -> None:
        self._is_stopped = True  # nothing more is delivered; what this step sends still leaves
        self._on_removed(effect.members)

    def drain(self, event: DrainRequested | DrainEnded) -> None:
        """Have the server begin or end to move its clients to other servers."""
        self._deliver(event)

    async def stop(self, last_word: StoredMembers | None = None) -> None:
        """Close the links, finish the disk's work and unlock the folder.

        A server that was removed leaves a `last_word` there.
        """
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self.operators.end()
        self._tracker.close()
        self._snapshotter.close()
        self._client_processes.close()
        if self._metrics is not None:
            self._metrics.close()
        if self.admin is not None:
            await self.admin.close()
        self.links.close("the server stops")
        await asyncio.to_thread(self._disk.close)
        await self._members.finish(last_word)
        await asyncio.to_thread(self._storage.close)

    # Events in.

    def _deliver(self, event: Event) -> None:
        self._events.append(event)
        self._schedule()

    def _on_disk_events_in_thread(self, events: list[DiskEvent]) -> None:
        self._loop.call_soon_threadsafe(self._on_disk_events, events)

    def _on_trace_in_thread(self, event: TraceEvent) -> None:
        self._loop.call_soon_threadsafe(self._log.trace, event)

    def _on_disk_events(self, events: list[DiskEvent]) -> None:
        self._events += events
        self._schedule()

    def _schedule(self) -> None:
        # One step takes everything that arrives in one turn of the loop, from any link.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._scheduled_at = time.perf_counter_ns()
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
        server, times = self.server, self._times
        scheduled, began = self._scheduled_at, time.perf_counter_ns()
        times.queue.add(began - scheduled)
        proposed, applied = server.txn_counts
        try:
            effects = server.step(events, _now())
            self._began_at = ended = time.perf_counter_ns()
            has_proposed, has_applied = server.txn_counts
            if has_proposed != proposed:
                times.prepare.add(ended - began)
            if has_applied != applied:
                times.apply.add(ended - began)
            self._perform(effects, is_alone=len(events) == 1)
            self._arm_timer()
        # End the process: a server must not continue after a failed assertion.
        except BaseException as error:
            self._fail("a step failed", error)
        took = time.perf_counter_ns() - scheduled
        times.loop_pause.add(took)
        if took > self._slow_step_ns:
            stage = "queue" if began - scheduled > took // 2 else "step"
            self._log.line("step.slow", stage=stage, events=len(events), took_ms=took // 1_000_000)

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

    def _perform(self, effects: list[Effect], *, is_alone: bool = False) -> None:
        """Perform the effects of a step, in the order of `sort_effects`.

        `is_alone`: the step had one event.
        """
        found = sort_effects(effects)
        peers, disk, send_client = self.links.peers, found.disk, self.links.clients.send
        for peer, messages in found.peers:
            if isinstance(messages, BreakLink):
                peers.break_link(peer, messages.reason)
            else:
                peers.send(peer, messages)
        for effect in found.others:
            if isinstance(effect, SendClient):
                send_client(effect.connection, effect.data)
            else:
                self._handlers[type(effect)](effect)
        if effects and self._began_at:
            self._times.answer.add(time.perf_counter_ns() - self._began_at)
        if found.restart is not None:
            self._restart_after(found.restart, disk)
        elif is_alone and not self._events and self._disk.performs_here(disk):
            self._disk.perform_here(disk)
        elif disk:
            self._disk.submit(disk)

    def _begin_reading_facts(self) -> None:
        self._reading_facts = self._loop.create_task(self._read_facts())

    async def _read_facts(self) -> None:
        facts = await asyncio.to_thread(read_process_facts, self._storage.folder)
        self._deliver(ProcessFactsRead(facts))

    async def _answer_admin(self, command: str) -> Document:
        facts = await asyncio.to_thread(read_process_facts, self._storage.folder)
        stats, connections = self.server.stats(), self.server.connection_stats()
        return answer_command(command, AdminInput(stats, connections, facts, _node_host()))

    def _restart_after(self, effect: Restart, disk: list[StorageEffect]) -> None:
        """End the process once the disk has done its work; Ray restarts it from the disk."""
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

    # Garbage. A full collection over a million znodes takes most of a second, during which a leader
    # would be taken for dead. So it runs only in quiet moments, and objects that were recovered or
    # have survived a quiet minute are frozen, so that the collector skips them.

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


def _node_host() -> str:
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
