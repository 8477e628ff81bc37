"""Drives one pure server: gives it a clock, a disk, links and sidecars.

It runs a loop: take all waiting events, step, perform the effects in order, arm one timer. It
decides nothing.

Invariants: exactly one `step` takes each event, in the order of arrival; a step or a disk that
fails ends the process at once, so that Ray restarts it from its log and nothing built on a broken
state gets out; no client is served before all of the disk was read.
"""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from raykeeper.actors.admin_server import AdminServer
from raykeeper.actors.client_limit import client_limit, raise_files_limit
from raykeeper.actors.client_process_monitor import monitor_client_processes
from raykeeper.actors.disk.disk_thread import DiskThread
from raykeeper.actors.disk.members_file import StoredMembers
from raykeeper.actors.disk.storage import Storage, StorageEffect
from raykeeper.actors.members_writer import MembersWriter
from raykeeper.actors.metrics_flusher import MetricsFlusher, make_ray_metrics
from raykeeper.actors.operator_requests import OperatorRequests
from raykeeper.actors.process_facts import read_process_facts
from raykeeper.actors.ray_actors import find_replica, own_node_host, own_node_id
from raykeeper.actors.replica_config import CLIENTS_MAX_CEILING, ReplicaConfig
from raykeeper.actors.replica_logger import ReplicaLogger
from raykeeper.actors.server_links import ServerLinks
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
from raykeeper.server.admin_commands import AdminInput, Document, answer_command
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
from raykeeper.zab.ids import Millis, Now
from raykeeper.zab.member_list import MemberList

IDLE_COLLECTION_S: Final = 60.0
PEERS_RESERVE: Final = 16
"""Open files are kept free for the links of so many servers, since the ensemble may grow; of a
larger ensemble for those that it has when this server starts."""


class ServerRunner:
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
        self.links = ServerLinks(
            config, incarnation, own_node_host(), self._deliver, log.line, limit
        )
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
        self._perform(server.start(read_clocks()))
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
            effects = server.step(events, read_clocks())
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
            delay_s = max(0, due - read_clocks().mono) / 1000
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
        return answer_command(command, AdminInput(stats, connections, facts, own_node_host()))

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


def freeze_recovered_objects() -> None:
    """Have the collector skip all that there is now; call it once the disk was read."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 1_000_000)


def read_clocks() -> Now:
    """Return the time now, by both clocks."""
    return Now(Millis(time.monotonic_ns() // 1_000_000), Millis(time.time_ns() // 1_000_000))
