"""The handle of a running ensemble: connect, ask for its status, wait for a leader, stop it.

The handle holds only the name, so it pickles into tasks and actors. Every method first looks up
the named actors of the ensemble in the Ray cluster.

The file is long because the handle has every act on an ensemble, each with what it promises.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import ray

from raykeeper.actors.replica_status import (
    ReplicaDescription,
    ReplicaStatus,
)
from raykeeper.client import Client
from raykeeper.client import connect as connect_client
from raykeeper.client.arguments import checked_path, milliseconds
from raykeeper.client.core.public_types import ClientId
from raykeeper.client.ensembles import as_lost_connection, servers_among
from raykeeper.client.errors import (
    EnsembleNotFoundError,
)
from raykeeper.client.ray_lookups import GRACE_S, fail_after, find_actor, list_actors
from raykeeper.client.session_options import VALUE_BYTES_MAX
from raykeeper.clusters.actor_calls import (
    ANSWER_TIMEOUT_S,
    call_actors,
    find_replicas,
    stop_actor,
)
from raykeeper.clusters.ensemble_status import EnsembleStatus, summarize, unreached_leader
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.clusters.local_ray import join_ray
from raykeeper.clusters.membership import newest_description
from raykeeper.clusters.rolling_restart import (
    RollingRestart,
    RollingRestartError,
    View,
    began_before,
)
from raykeeper.clusters.rolling_turn import rolling_turn
from raykeeper.clusters.server_draining import (
    CLIENTS_PER_S,
    PATIENCE_S,
    TIMEOUT_S,
    DrainPace,
    drain_before_stop,
    drain_server,
    end_drain,
)
from raykeeper.clusters.transfer_outcome import LeadershipTransferError, leader_after
from raykeeper.links.ray_internals import actor_id
from raykeeper.links.ray_names import NAMESPACE, keeper_name, replicas_among
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.acl import Acl

if TYPE_CHECKING:
    from raykeeper.clusters.backups.backup import BackupProgress, BackupReport
    from raykeeper.clusters.member_steps.planning import Known, Request
    from raykeeper.clusters.members_status import MembersStatus

CHANGE_WAIT_S = 600.0
"""How long one act of a change of the members may take: a newcomer receives all data first."""
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.05


class NoLeaderError(RayKeeperError):
    """Raised when an ensemble has no leader within the caller's timeout.

    The message says which servers answered and what is missing. The caller should start the
    missing servers (`launch` again), or wait longer.
    """


class Ensemble:
    """An ensemble of the Ray cluster, by name. Returned by `launch` and `attach`.

    Every method asks Ray where the servers are, and raises RayUnavailableError if Ray does not
    answer in time (client/ray_lookups.py); `connect` raises ConnectionLossError then.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Ensemble({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ensemble) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def connect(
        self,
        session_timeout_s: float = 10.0,
        timeout_s: float = 30.0,
        *,
        chroot: str = "",
        default_acl: Iterable[Acl] | None = None,
        client_id: ClientId | None = None,
        read_only: bool = False,
    ) -> Client:
        """Open a session; see `raykeeper.client.connect`. `chroot` is the path of its root.

        Raises:
            BadArgumentsError: an argument is invalid.
            InvalidAclError: the default ACL is malformed.
            EnsembleNotFoundError: no server of the ensemble runs.
            ConnectionLossError: no server accepted the session within `timeout_s`, or Ray does not
                answer.
        """
        name = self.name + (checked_path(chroot) if chroot else "")
        with fail_after(milliseconds("timeout_s", timeout_s) / 1000):
            with as_lost_connection():
                described = self.describe()
            bytes_max = VALUE_BYTES_MAX if described is None else described.value_bytes_max
            return connect_client(
                *(name, session_timeout_s, timeout_s),
                value_bytes_max=bytes_max,
                default_acl=default_acl,
                client_id=client_id,
                read_only=read_only,
            )

    def describe(self) -> ReplicaDescription | None:
        """Return the first server's description of the ensemble; None when no server answers.

        Raises:
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        handles = find_replicas(self.name)
        for described in call_actors(handles.values(), "describe"):
            if isinstance(described, ReplicaDescription):
                return described
        return None

    def status(self, *, timeout_s: float = ANSWER_TIMEOUT_S) -> EnsembleStatus:
        """Ask every server for its status.

        A leader that does not answer while a majority follows it is unreached.

        Args:
            timeout_s: A server that does not answer within this time is down.

        Raises:
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        handles = find_replicas(self.name)
        answers = call_actors(
            [*handles.values(), *handles.values()], "status", "describe", timeout_s=timeout_s
        )
        heard: dict[ServerId, ReplicaStatus | str] = dict(zip(handles, answers, strict=False))
        members = newest_description(answers[len(handles) :])
        voters = set(handles) if members is None else set(members.voters)
        servers = voters.union(handles, () if members is None else members.observers)
        observers = servers - voters
        every = {server: heard.get(server, "not started") for server in sorted(servers)}
        leader = unreached_leader(every, observers)
        if leader is not None:
            # They may have answered before they noticed the leader's end, which Ray knows by now.
            again = [server for server in handles if server != leader]
            asked = [handles[server] for server in again]
            every.update(zip(again, call_actors(asked, "status", timeout_s=timeout_s), strict=True))
        strangers = servers.difference(voters, () if members is None else members.observers)
        return summarize(self.name, every, observers, strangers)

    def keeper(self, *, timeout_s: float = ANSWER_TIMEOUT_S) -> KeeperStatus | None:
        """Ask the keeper what it does; None if the ensemble has none (setting `heal_after_s`)."""
        join_ray()
        handle = find_actor(keeper_name(self.name))
        if handle is None:
            return None
        (answer,) = call_actors([handle], "status", timeout_s=timeout_s)
        if isinstance(answer, KeeperStatus):
            return answer
        return KeeperStatus(leads=False, problem=answer)

    def wait_for_leader(self, timeout_s: float = 10.0) -> ServerId:
        """Wait until a leader serves clients, and return its id.

        Raises:
            NoLeaderError: there was no leader within `timeout_s`; the message tells why.
            EnsembleNotFoundError: no server of the ensemble runs.
            RayUnavailableError: Ray does not answer within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        with fail_after(timeout_s + GRACE_S):
            while True:
                report = self.status()
                if report.leader is not None:
                    return report.leader
                if time.monotonic() > deadline:
                    raise NoLeaderError(
                        f"ensemble {self.name!r} has no leader after {timeout_s:g} s: "
                        f"{report.reason}"
                    )
                time.sleep(_POLL_S)

    def transfer_leadership(
        self, to: int | None = None, *, timeout_s: float = 2.0, lag_max: int = 1_000
    ) -> ServerId:
        """Have another voting server lead; clients notice no more than a short wait.

        Writes wait while the leader hands over, and are done once, by the new leader. If it does
        not come about in time, the old leader goes on.

        Args:
            to: The server that is to lead; None lets the leader choose one that has everything.
            timeout_s: How long the leader tries, and how long the election may take after that.
            lag_max: How many transactions that server may lack on its disk at first.

        Returns:
            The leader: `to`, if it is given. It may have led before.

        Raises:
            LeadershipTransferError: it does not exist, does not follow, has no vote, lacks too
                much, or its disk is full; or it did not take over in time. Tells which.
            NoLeaderError: there is no leader that could be asked.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        report = self.status()
        if to is not None and to not in [each.server_id for each in report.servers]:
            known = ", ".join(str(each.server_id) for each in report.servers)
            raise LeadershipTransferError(
                f"ensemble {self.name!r} has no server {to}; its members are {known}"
            )
        if report.leader is None:
            raise NoLeaderError(f"ensemble {self.name!r} has no leader: {report.reason}")
        leader = find_replicas(self.name).get(report.leader, None)
        given = (to, round(timeout_s * 1000), lag_max)
        handles = [] if leader is None else [leader]
        patience_s = 2 * timeout_s + ANSWER_TIMEOUT_S
        answers = call_actors(handles, "transfer_leadership", given=given, timeout_s=patience_s)
        return leader_after(report.leader, answers[0] if answers else "its process is gone")

    def rolling_restart(
        self,
        *,
        since_s: int | None = None,
        wait_s: float = 120.0,
        clients_per_s: int = CLIENTS_PER_S,
        patience_s: float = PATIENCE_S,
        tell: Callable[[str], object] = lambda _: None,
    ) -> list[ServerId]:
        """Restart all servers one after the other: followers first, the leader after a transfer.

        Each must be back, follow a leader and have its vote before the next one is stopped, and a
        voter is stopped only while a majority is in step without it. Its clients are moved before
        (`drain`). Clients see no error. A leader of a version that knows no transfer is restarted
        without one, and the others elect another.

        Args:
            since_s: Goes on with a restart that began at this second of Unix time: servers that
                began later are left alone. None begins a new one.
            wait_s: How long to wait for one server, or for a majority.
            clients_per_s: How many clients are moved in a second, at most.
            patience_s: How long to wait for a client of ZooKeeper that always waits for something.
            tell: Called with each step, as a line.

        Returns:
            The servers that were restarted, in order.

        Raises:
            RollingRestartError: a server does not come back, a majority would be in danger, there
                are too few voters, another process restarts servers, or a change of the members
                has not ended. Servers that were not restarted yet run as before.
            LeadershipTransferError: the leader cannot hand over.
            ServerDrainError: `clients_per_s` or `patience_s` is out of range.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        since_s = int(time.time()) if since_s is None else since_s
        pace = DrainPace(clients_per_s, patience_s)
        with rolling_turn(self, wait_s) as check_turn:

            def look() -> View:
                check_turn()
                voters, answers = self.ask_all()
                return View(voters, answers, began_before(answers, since_s))

            def restart(server: ServerId) -> None:
                drain_before_stop(self, server, pace, wait_s, tell)
                check_turn()
                self._restart(server)

            rolling = RollingRestart(look, restart, self.transfer_leadership, tell)
            return rolling.run(wait_s, f"go on with --since {since_s}")

    def drain(
        self,
        server: int,
        *,
        clients_per_s: int = CLIENTS_PER_S,
        patience_s: float = PATIENCE_S,
        timeout_s: float = TIMEOUT_S,
        tell: Callable[[str], object] = lambda _: None,
    ) -> int:
        """Have a server take no clients and move those it has to the other servers.

        It goes on to vote; if it leads, another voter leads before. Clients see no error and keep
        their sessions. One of ZooKeeper's is moved when it waits for nothing. The drain lasts until
        `end_drain`, or until the server's process ends.

        Args:
            server: The server, which keeps its data and stays where it is.
            clients_per_s: How many clients are moved in a second, at most.
            patience_s: How long to wait for a client of ZooKeeper that always waits for something;
                then it is moved all the same, and its requests under way fail.
            timeout_s: How long to wait; the server goes on afterwards.
            tell: Called with the progress, as a line.

        Returns:
            How many clients it had.

        Raises:
            ServerDrainError: there is no such server, no other one would take its clients, or it
                has not moved them in time.
            LeadershipTransferError: it leads and cannot hand over; nothing was changed.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        return drain_server(
            self,
            ServerId(server),
            clients_per_s=clients_per_s,
            patience_s=patience_s,
            timeout_s=timeout_s,
            tell=tell,
        )

    def end_drain(self, server: int) -> bool:
        """Have a drained server take clients again; return whether it was drained.

        Raises:
            ServerDrainError: there is no such server, or it does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        return end_drain(self, ServerId(server))

    def ask_all(self) -> tuple[tuple[ServerId, ...], dict[ServerId, ReplicaStatus | str]]:
        """Return the voters, and what every server tells."""
        handles = find_replicas(self.name)
        both = [*handles.values(), *handles.values()]
        answers = call_actors(both, "status", "describe")
        found: dict[ServerId, ReplicaStatus | str] = dict(zip(handles, answers, strict=False))
        members = newest_description(answers[len(handles) :])
        voters = () if members is None else members.voters
        observers = () if members is None else members.observers
        every = {server: found.get(server, "not started") for server in (*voters, *observers)}
        return voters, {server: every[server] for server in sorted(every)}

    def _restart(self, server: ServerId) -> None:
        """Stop a server as an orderly end does; Ray starts its actor again where it was."""
        handle = find_replicas(self.name).get(server)
        if handle is None:
            raise RollingRestartError(
                f"server {server} does not run, so it cannot be restarted: `raykeeper up` starts it"
            )
        ray.wait([handle.stop.remote()], timeout=_STOP_TIMEOUT_S)
        ray.kill(handle, no_restart=False)

    def members(self) -> "MembersStatus":
        """Return who the members are, where they run, and what change of them is open.

        Raises:
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.members_status import ask_members_status  # few processes need it

        return ask_members_status(self)

    def add_server(
        self,
        server_id: int | None = None,
        *,
        observer: bool = False,
        node: str | None = None,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Start a server and add it to the ensemble; it gets a vote when it has caught up.

        Clients see no error. This and the five methods below write the change down before they
        begin. If one of them is interrupted, `resume_change` goes on with it, and `undo_change`
        goes back.

        Args:
            server_id: Its id; None for the lowest that no member, founder or folder has.
            observer: Whether it remains without a vote.
            node: The beginning of the Ray id of the node that it must run on; None for any one
                that the settings allow.
            tell: Called with each act, and with what it waits for, as a line.
            wait_s: How long one act may take, with all that it waits for.

        Returns:
            The members after the change.

        Raises:
            MemberChangeError: it makes no sense, another change is open, or it cannot go on; tells
                which.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_steps.planning import addition

        added = None if server_id is None else ServerId(server_id)
        return self._change(
            lambda known: addition(added, known, is_observer=observer), tell, wait_s, node
        )

    def remove_server(
        self,
        server_id: int,
        *,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Remove a server from the ensemble, and end it; a leader hands over before.

        See `add_server` for the rest. Its folder remains, and says that it has left.

        Args:
            server_id: A member, which need not run; or a server that runs and is none, because a
                client took it out of the list.
            tell: As above.
            wait_s: As above.

        Raises:
            MemberChangeError: as above.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_steps.planning import removal

        return self._change(lambda known: removal(ServerId(server_id), known), tell, wait_s)

    def replace_server(
        self,
        old: int,
        new: int | None = None,
        *,
        node: str | None = None,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Put another server in the place of one, which need not run: a machine is replaced.

        See `add_server` for the rest. A vote passes in one step, so the majority stays as large.

        Args:
            old: A member.
            new: The id of the newcomer, None for the lowest free one; or an observer that takes
                the place of a voter.
            node: As above.
            tell: As above.
            wait_s: As above.

        Raises:
            MemberChangeError: as above.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_steps.planning import replacement

        added = None if new is None else ServerId(new)
        return self._change(
            lambda known: replacement(ServerId(old), added, known), tell, wait_s, node
        )

    def promote(
        self,
        server_id: int,
        *,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Give an observer a vote, once it has caught up. See `add_server` for the rest.

        Args:
            server_id: An observer.
            tell: As above.
            wait_s: As above.

        Raises:
            MemberChangeError: as above.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_steps.planning import promotion

        return self._change(lambda known: promotion(ServerId(server_id), known), tell, wait_s)

    def demote(
        self,
        server_id: int,
        *,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Make a voter an observer; a leader hands over before. See `add_server` for the rest.

        Args:
            server_id: A voter.
            tell: As above.
            wait_s: As above.

        Raises:
            MemberChangeError: as above.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_steps.planning import demotion

        return self._change(lambda known: demotion(ServerId(server_id), known), tell, wait_s)

    def change_members(
        self,
        voters: int | Iterable[int] | None = None,
        observers: int | Iterable[int] | None = None,
        *,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Bring the ensemble to so many voters and observers, or to these. See `add_server`.

        Newcomers get free ids. Of those that are too many the leader and the servers that work
        stay. One that leaves makes room for one that comes.

        Args:
            voters: How many there are to be, or which; None: as they are.
            observers: The same. A voter that is named here loses its vote.
            tell: As above.
            wait_s: As above.

        Raises:
            MemberChangeError: as above.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_steps.planning import Request

        request = Request(voters=_number_or_ids(voters), observers=_number_or_ids(observers))
        return self._change(lambda _: request, tell, wait_s)

    def resume_change(
        self,
        *,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Go on with a change of the members that has not ended, forward or back as it was.

        Args:
            tell: As for `add_server`.
            wait_s: As for `add_server`.

        Raises:
            MemberChangeError: there is none, somebody else is at it, or it cannot go on.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_change import member_change

        with member_change(self, tell, wait_s) as change:
            change.resume()
        return self.members()

    def undo_change(
        self,
        *,
        tell: Callable[[str], object] = lambda _: None,
        wait_s: float = CHANGE_WAIT_S,
    ) -> "MembersStatus":
        """Go back from a change of the members that has not ended.

        Newcomers leave again, and members have the votes that they had. A server that has left
        does not come back; the one that took its place stays.

        Args:
            tell: As for `add_server`.
            wait_s: As for `add_server`.

        Raises:
            MemberChangeError: there is none, somebody else is at it, or it cannot go on.
            KeeperError: the ensemble does not answer.
            EnsembleNotFoundError: no server of the ensemble runs.
        """
        from raykeeper.clusters.member_change import member_change

        with member_change(self, tell, wait_s) as change:
            change.undo()
        return self.members()

    def _change(
        self,
        request_of: "Callable[[Known], Request]",
        tell: Callable[[str], object],
        wait_s: float,
        node: str | None = None,
    ) -> "MembersStatus":
        from raykeeper.clusters.member_change import member_change

        with member_change(self, tell, wait_s) as change:
            change.begin(request_of, node)
        return self.members()

    def backup(
        self,
        url: str | Path,
        *,
        mb_per_s: float | None = None,
        tell: "Callable[[BackupProgress], None] | None" = None,
    ) -> "BackupReport":
        """Write a backup of the running ensemble into a new file.

        It has every write that was acknowledged before this call, and goes up to one transaction.
        The files of a follower are read, on its node and at low priority; the leader is read only
        if there is no other server in step.

        Args:
            url: A path of this machine, or a URL of fsspec (`pip install 'raykeeper[backup]'`).
                Nothing must be there.
            mb_per_s: How many megabytes (of 1 000 000 bytes) are read in a second, from 0.1 to
                100 000; else the setting `backup_mb_per_s` says it. Writes wait longer while a
                faster backup is taken.
            tell: Called with the progress.

        Raises:
            ConfigError: the rate is out of bounds.
            EnsembleNotFoundError: no server of the ensemble runs.
            NoLeaderError: it has no leader, so nobody knows what was acknowledged last.
            BackupPlaceError: the place has something already, or cannot be written. Nothing new
                is there.
            BackupError: no server could be read to the end. Nothing new is there.
        """
        from raykeeper.clusters.backups.backup import take_backup  # few processes need it

        report = self.status()
        if report.leader is None:
            raise NoLeaderError(f"ensemble {self.name!r} has no leader: {report.reason}")
        return take_backup(self.name, url, tell, mb_per_s)

    def shutdown(self) -> None:
        """Stop all actors of the ensemble and keep its data; `launch` starts it again.

        Every acknowledged write is on disk already. Sessions are part of the data: a client keeps
        its session if the ensemble is launched again before the session times out.
        """
        join_ray()
        stop_actor(keeper_name(self.name))  # before it moves a server that ends
        killed: set[str] = set()
        deadline = time.monotonic() + 2 * _STOP_TIMEOUT_S
        # Again and again: a launch, or a change of the members, may start one meanwhile.
        while (names := _actors_of(self.name)) and time.monotonic() < deadline:
            found = [(name, find_actor(name)) for name in sorted(names)]
            handles = {name: x for name, x in found if x is not None and actor_id(x) not in killed}
            replicas = [handle for name, handle in handles.items() if "/replica/" in name]
            if replicas:
                stopping = [replica.stop.remote() for replica in replicas]
                ray.wait(stopping, num_returns=len(stopping), timeout=_STOP_TIMEOUT_S)
            for handle in handles.values():
                ray.kill(handle, no_restart=True)
                killed.add(actor_id(handle))
            time.sleep(_POLL_S)


def attach(name: str) -> Ensemble:
    """Return a handle of the ensemble `name`, which runs in this Ray cluster.

    A process without `ray.init` joins the cluster that `connect` would join.

    Raises:
        EnsembleNotFoundError: no ensemble of that name runs; the message lists the others.
        RayNotFoundError: there is no Ray cluster.
        RayUnavailableError: Ray does not answer in time.
    """
    join_ray()
    servers_among(name, list_actors())
    return Ensemble(name)


def list_ensembles() -> list[str]:
    """Return the names of the ensembles that run in this Ray cluster.

    Raises:
        RayNotFoundError: there is no Ray cluster.
        RayUnavailableError: Ray does not answer in time.
    """
    join_ray()
    return list(replicas_among(list_actors()))


def _number_or_ids(asked: int | Iterable[int] | None) -> int | tuple[ServerId, ...] | None:
    return asked if asked is None or isinstance(asked, int) else tuple(map(ServerId, asked))


def _actors_of(ensemble: str) -> set[str]:
    """Return the names of all actors of the ensemble that Ray knows."""
    return {
        actor["name"]
        for actor in list_actors()
        if actor["namespace"] == NAMESPACE and actor["name"].startswith(f"{ensemble}/")
    }


__all__ = [
    "Ensemble",
    "EnsembleNotFoundError",
    "NoLeaderError",
    "attach",
    "list_ensembles",
]
