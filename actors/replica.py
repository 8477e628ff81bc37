"""The Replica: the Ray actor that is one server of an ensemble, and the calls that it answers.

It starts the server from its folder, and waits for the folder as long as another process has it.
What drives the server from then on is a `ServerRunner`. ZooKeeper: `QuorumPeerMain`.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from raykeeper.actors.disk.members_file import StoredMembers, read_members
from raykeeper.actors.disk.opening import open_storage
from raykeeper.actors.disk.storage import Storage
from raykeeper.actors.disk.storage_errors import FolderInUse, NoRoom
from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.actors.operator_answers import OperatorAnswers
from raykeeper.actors.process_priority import raise_priority, read_niceness
from raykeeper.actors.ray_actors import own_node_host, own_node_id, start_actor
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
from raykeeper.actors.server_links import CannotListenError
from raykeeper.actors.server_runner import ServerRunner, freeze_recovered_objects, read_clocks
from raykeeper.links.batches import Portion
from raykeeper.links.contract import LinkUnreachable
from raykeeper.links.hello import Refusal, encode_hello
from raykeeper.links.ray_calls import UNKNOWN_LINK, Answer
from raykeeper.links.ray_names import replica_name
from raykeeper.links.stream_endpoints import StreamAddress
from raykeeper.server.admin_queries import AdminAnswer, AdminQuery
from raykeeper.server.events import DrainEnded, DrainRequested
from raykeeper.server.server import Server
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.feature_levels import LEVEL_MAX
from raykeeper.zab.ids import SERVER_ID_MAX, ServerId, Zxid, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import MEMBER_PLAN_PATH
from raykeeper.znodes.requests import Reconfig

FOLDER_RETRY_S: Final = 1.0
CALLS_RESERVE: Final = 256
"""Slots for calls of peers, of operators, and of links that are being refused."""


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
        self._priority_problem = raise_priority(config.niceness)
        if self._priority_problem:
            self._log.line("replica.low_priority", reason=self._priority_problem)
        self._failure: RayKeeperError | None = None
        self._retried_error: RayKeeperError | None = None
        self._runner: ServerRunner | None = None
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
            zookeeper=config.zookeeper_address_at(own_node_host(), config.zookeeper_port),
            zookeeper_problem=links.jute.problem if links.jute else "",
            zookeeper_tls=config.zookeeper_address_at(own_node_host(), config.zookeeper_tls_port),
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
            wall_ms=read_clocks().wall,
            niceness=read_niceness(),
            priority_problem=self._priority_problem,
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
        freeze_recovered_objects()
        self.incarnation = storage.identity.incarnation
        try:
            self._runner = ServerRunner(
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
                config.options(own_node_host()),
                replace(recovered, was_member=self.server_id in listed),
            )
        except BaseException:
            storage.close()
            raise
        return storage, server
