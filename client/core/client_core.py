"""The client without its IO: one session from its opening to its end, over many connections.

    NEW ─start─> DIALING ─link_opened─> HANDSHAKING ─Connected─> SERVING
                  ^  │ failed, or too slow │                        │ link lost, silent server
                  │  v                     v                        v
                 PAUSED <─(after a failed cycle)─── the next server ┘     any ──> FINISHED

The rules of the pure rooms hold: no clock, no IO; every input tells the time and appends its
effects to `out`. The driver must:

1.  Pass on each input as it comes, then perform `out` in order and clear it.
2.  Call `flush` once after a round of `submit`; it sends what was submitted in one frame.
3.  Call `wake` when `deadline` has come. A call too early does nothing.
4.  Report `servers_listed` once after ListServers, whatever it found.
5.  After OpenLink report `link_opened` or `link_failed`, and frames and a later `link_failed` of
    that link only; nothing of it after CloseLink. The same for OpenSearchLink and the second link,
    until CloseSearchLink or PromoteSearchLink.

The core hides lost connections as long as the session lives. It sends unanswered requests again in
order, sets watches again first, and reads never go backwards, because a server answers Connect only
when it is as recent as all that the client has seen. DESIGN section 7.

Every server that answers Connect tells the member list, and later a newer one with its next frame.
The client goes to the servers of the newest list that it was told. When all of them have failed it
asks for the servers that run, since those that it knows may all have been replaced.

With `read_only` the client takes a server without a leader after a whole cycle of servers failed.
Then a second link looks for a server with a leader (client/core/read_write_search.py). Nothing
keeps an open session alive meanwhile, so its deadline runs on; a handle without a session loses
nothing.

ZooKeeper: `ClientCnxn`. Exactly-once writes and the client's own expiry have no counterpart there.

The file is long because one state machine handles every event of a session; what can be told apart
from it is in the modules beside it.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from random import Random
from typing import Final

from raykeeper.client.core.chroot import ROOT, Chroot
from raykeeper.client.core.client_counts import ClientCounts
from raykeeper.client.core.effects import (
    CallWatchers,
    ChangeState,
    CloseLink,
    Complete,
    Effect,
    Fail,
    KeepServers,
    ListServers,
    OpenLink,
    SendFrame,
    SuccessReply,
    TimedOut,
)
from raykeeper.client.core.host_provider import HostProvider
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import (
    NewRequest,
    OutstandingRequests,
    PendingRequest,
    WatchAddition,
    WatchRemoval,
    path_of,
)
from raykeeper.client.core.public_types import ClientId, ClientState, EventType, WatchedEvent
from raykeeper.client.core.read_write_search import ReadWriteSearch
from raykeeper.client.core.session_deadlines import SessionDeadlines
from raykeeper.client.core.session_handshake import SessionHandshake
from raykeeper.client.core.session_watches import SessionWatches
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ZERO, Millis, ServerId
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import (
    ClosedError,
    Code,
    ConnectionLossError,
    KeeperError,
    NotReadOnlyError,
    OperationTimeoutError,
    SessionExpiredError,
    error_for,
)
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    ErrorReply,
    ServerFrame,
    WatcherEvent,
    WriteReply,
    decode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Request,
    SessionId,
    encode_client_frame,
)

CLOSE_TOKEN = object()
"""The token of CloseSession; no caller waits for its reply."""
_TRANSACTION_REFUSED = (
    "a condition is invalid, or there are more operations than the settings transaction_ops_max "
    "and zookeeper_request_bytes allow"
)
_REASONS: Final[Mapping[int, str]] = {
    Code.INVALID_ACL: "the session has proved nothing for which `auth` stands, or there are more "
    "entries than the setting acl_entries_max",
    Code.AUTH_FAILED: "the credential proves nothing, or the session would have more identities "
    "than the setting session_identities_max",
    Code.UNIMPLEMENTED: "a server is of a version that does not know the request",
}
"""What a code says of a request that this client has checked."""


class ConnectionPhase(Enum):
    """The client's progress with a server."""

    NEW = "new"
    PAUSED = "paused"
    DIALING = "opening"
    HANDSHAKING = "joining"
    SERVING = "serving"
    FINISHED = "finished"


class ClientCore:
    """One session of one client. Once FINISHED it stays so."""

    def __init__(
        self,
        password: bytes,
        session_timeout_ms: Millis,
        servers: list[ServerId],
        rng: Random,
        limits: ClientLimits,
        *,
        takeover: ClientId | None = None,
        chroot: Chroot = ROOT,
        read_only: bool = False,
        identity: bytes = b"",
        learns_servers: bool = True,
    ) -> None:
        """`password` is drawn at random for this handle.

        It names a new session until the session has an id. `takeover` names another handle's
        session to take over instead; `password` then replaces its password. Nothing may be
        submitted before that session is open, because the numbers of its writes are not known.
        `read_only`: accept a server without a leader while there is no other. `identity`: the line
        that names the process, for those who list the sessions. `learns_servers`: go to the members
        that servers tell, or those that run; else to `servers` alone.
        """
        self.out: list[Effect] = []
        self.counts = ClientCounts()
        self.state = ClientState.SUSPENDED
        self.last_zxid = ZERO
        """The newest transaction whose effect the user may have seen."""
        self._chroot = chroot
        self._handshake = SessionHandshake(
            password, session_timeout_ms, takeover, read_only=read_only, identity=identity
        )
        self._limits = limits
        self._phase = ConnectionPhase.NEW
        self.members: MemberList | None = None
        """The newest member list that a server has told."""
        self._servers: tuple[ServerId, ...] = tuple(servers)  # of that list, else those given
        self._learns_servers = learns_servers
        self._is_listing = False  # ListServers is under way
        self._rng = rng
        self._search: ReadWriteSearch | None = None  # while a server serves the client read-only
        self._host_provider = HostProvider(servers, rng)
        self._deadlines = SessionDeadlines(session_timeout_ms)
        self._outstanding = OutstandingRequests(limits)
        self._watches = SessionWatches(chroot)
        self._heartbeat_seq = 0
        self._server = ServerId(0)
        self._phase_until = Millis(0)  # PAUSED, OPENING and JOINING end then
        self._connect_sent_at = Millis(0)
        self._open_by: Millis | None = None
        self._close_by: Millis | None = None
        self._cause: KeeperError | None = None
        self._was_reported_lost = False  # `is_lost` has told a caller so
        self._has_received_frame = False  # this server has sent more than Connected

    def start(self, now: Millis) -> None:
        """Open the session, within `open_timeout_ms`."""
        assert self._phase is ConnectionPhase.NEW, self._phase
        open_ms = self._limits.open_timeout_ms or self._limits.request_timeout_ms
        self._open_by = Millis(now + open_ms)
        self.counts.on_disconnected(now)
        self._dial_next(now)

    def submit(self, request: NewRequest, token: object, now: Millis) -> None:
        """Queue a request; Complete or Fail returns `token`, exactly once."""
        if self._phase is ConnectionPhase.FINISHED or self._close_by is not None:
            path = path_of(request)
            self.out.append(Fail(token, end_error(self._cause, path)))
            return
        if self._chroot.path:
            request = self._chroot.prepend(request)
        if type(request) is WatchAddition or type(request) is WatchRemoval:
            request = self._watches.on_submit(request)
        self._outstanding.add(request, token, now)

    def flush(self, now: Millis) -> None:
        """Send queued requests, as far as the limits allow."""
        if self._outstanding.refused_count:
            self._fail_refused()
        if self._phase is ConnectionPhase.SERVING:
            while batch := self._outstanding.take_batch():
                self._send(batch, now)

    def link_opened(self, now: Millis) -> None:
        """The link of OpenLink is open."""
        assert self._phase is ConnectionPhase.DIALING, self._phase
        self._phase = ConnectionPhase.HANDSHAKING
        # A server that has just taken the link has answered: to leave it now would waste its work
        # and ours, and a crowd that does so keeps all servers busy with links that nobody uses.
        self._phase_until = self._attempt_until(now)
        self._connect_sent_at = now
        joining = self._handshake
        connect = joining.encode_connect(self.last_zxid, read_only=joining.takes_read_only)
        self.out.append(SendFrame(connect))

    def link_failed(self, reason: str, now: Millis) -> None:
        """The link of OpenLink could not be opened, or has broken."""
        if self._phase in (
            ConnectionPhase.DIALING,
            ConnectionPhase.HANDSHAKING,
            ConnectionPhase.SERVING,
        ):
            self._reconnect(reason, now)

    def frame(self, data: bytes, now: Millis) -> None:
        """The server sent a frame."""
        if self._phase not in (ConnectionPhase.SERVING, ConnectionPhase.HANDSHAKING):
            return
        try:
            frame = decode_server_frame(data)
        except DECODE_ERRORS as error:
            self._drop_server(f"it sent a frame that cannot be decoded: {error}", now)
            return
        self._deadlines.on_received(now)
        if self._was_reported_lost:
            self._finish(SessionExpiredError())
        elif type(frame) is ServerFrame:
            self._on_server_frame(frame, now)
        elif type(frame) is ConnectReply:
            self._on_connected(frame, now)
        else:
            assert type(frame) is CloseFrame, frame
            self._on_ended(frame, now)

    def servers_listed(self, servers: Iterable[ServerId], now: Millis) -> None:
        """ListServers is done: these servers run, none if that could not be found out.

        Some may be no members, and refuse the client. One that is not there may come back.
        """
        self._is_listing = False
        if self._phase in (ConnectionPhase.FINISHED, ConnectionPhase.SERVING):
            return
        every = dict.fromkeys((*self._servers, *servers))
        is_any_new = self._host_provider.set_servers(every, new_first=True)
        if is_any_new and self._phase is ConnectionPhase.PAUSED:
            self._dial_next(now)

    def search_link_opened(self, now: Millis) -> None:
        """The link of OpenSearchLink is open."""
        assert self._search is not None
        self._search.on_opened(self.last_zxid, now, self.out)

    def search_link_failed(self, reason: str, now: Millis) -> None:
        """The link of OpenSearchLink could not be opened, or has broken."""
        assert self._search is not None, reason
        self._search.on_failed(now)

    def search_frame(self, data: bytes, now: Millis) -> None:
        """A frame came on the second link."""
        search = self._search
        if search is None:
            self.frame(data, now)  # an earlier frame of the same batch promoted the link
            return
        if self._was_reported_lost:
            self._finish(SessionExpiredError())
            return
        # The new server is as recent as all that the client has seen: a server without a leader
        # stands still, so the client saw nothing newer since it sent `last_zxid` with Connect.
        answer = search.on_frame(data, now, self.out)
        if isinstance(answer, KeeperError):
            self._finish(answer)
        elif answer is not None:
            self._search = None
            self._server, self._connect_sent_at = search.server, search.connect_sent_at
            self._outstanding.requeue()
            self._watches.on_disconnected()
            self._serve(answer, now)
            if answer.members is not None:
                self._learn_members(answer.members, now)

    def wake(self, now: Millis) -> None:
        """Act on deadlines that have passed."""
        if self._phase in (ConnectionPhase.FINISHED, ConnectionPhase.NEW):
            return
        if self._close_by is not None and now >= self._close_by:
            self._finish(None)
        elif self._is_expired(now):
            self._finish(SessionExpiredError())
        elif self._open_by is not None and now >= self._open_by:
            self._finish(ConnectionLossError("", self.explain()))
        else:
            detail = "" if self._phase is ConnectionPhase.SERVING else self.explain()
            self._fail_timed_out(detail, now)
            self._advance_phase(now)

    def close(self, now: Millis) -> None:
        """End the session after all submitted requests; give up those that take too long."""
        if self._phase is ConnectionPhase.FINISHED or self._close_by is not None:
            return
        if not self._handshake.owns_session():
            # A session that a server may have opened meanwhile ends by its timeout.
            self._finish(None)
            return
        self._outstanding.add(CloseSession(), CLOSE_TOKEN, now)
        bound = min(self._limits.request_timeout_ms, self._deadlines.timeout_ms)
        self._close_by = Millis(now + bound)
        self.flush(now)

    def abort(self, detail: str) -> None:
        """End the session: a caller was interrupted inside the core, whose state may be broken."""
        if self._phase is not ConnectionPhase.FINISHED:
            self._finish(SessionExpiredError("", detail))

    def deadline(self) -> Millis | None:
        """Return when `wake` is due, None for never."""
        phase, liveness = self._phase, self._deadlines
        if phase is ConnectionPhase.SERVING:
            due = min(liveness.heartbeat_at(), liveness.read_timeout_at())
        elif phase in (ConnectionPhase.FINISHED, ConnectionPhase.NEW):
            return None
        else:
            due = self._phase_until
        for at in (
            self._search.due_at if self._search is not None else None,
            liveness.expires_at,
            self._outstanding.times_out_at(),
            self._open_by,
            self._close_by,
        ):
            if at is not None and at < due:
                due = at
        return due

    @property
    def session_id(self) -> SessionId:
        """The id of the session, 0 before it is open."""
        return self._handshake.session_id

    @property
    def ensemble(self) -> str:
        """The uuid that salts keys, see `ConnectReply`; "" before a server accepts the client."""
        return self._handshake.ensemble

    @property
    def own_uuid(self) -> str:
        """The uuid that tells the ensemble from others; "" as long as `ensemble`."""
        return self._handshake.own_uuid

    @property
    def client_id(self) -> ClientId:
        """The id and password with which another handle takes the session over."""
        return self._handshake.client_id

    def is_lost(self, now: Millis) -> bool:
        """Return whether the session may be over by now, though `wake` was not called yet.

        A caller that was told so lets go, so nothing can save the session from then on. A session
        that is being closed counts as lost: the servers may have ended it before their reply comes.
        """
        return self._close_by is not None or self._is_expired(now)

    def _is_expired(self, now: Millis) -> bool:
        if self._deadlines.is_expired(now):
            self._was_reported_lost = True
        return self._was_reported_lost or self.state is ClientState.LOST

    def end_error(self) -> KeeperError:
        """Return the error of a request that comes after the end of the session."""
        return end_error(self._cause, "")

    def explain(self) -> str:
        """Return which servers failed since one served the client, and why."""
        return self._host_provider.explain()

    def _on_server_frame(self, frame: ServerFrame, now: Millis) -> None:
        if self._phase is not ConnectionPhase.SERVING:
            self._drop_server("it answered before it was connected", now)
            return
        self._deadlines.on_confirmed(frame.heartbeat_seq)
        if self._deadlines.is_expired(now):
            # The replies are too late: another client may hold the locks already.
            self._finish(SessionExpiredError())
            return
        if not self._has_received_frame:
            self._has_received_frame = True
            self._host_provider.on_connected()
            self._host_provider.set_servers(self._servers)  # without those that were only listed
        if frame.zxid > self.last_zxid:
            self.last_zxid = frame.zxid
        if frame.members is not None:
            self._learn_members(frame.members, now)
        self._outstanding.set_window(frame.window)
        self._host_provider.return_spread_ms = frame.return_spread_ms
        for item in frame.items:
            if type(item) is WatcherEvent:
                self.out += self._watches.on_event(item, self.state)
            elif not self._on_reply(item):
                self._drop_server(f"it sent an unexpected reply: {item}", now)
                return
        if self.state is ClientState.LOST:
            return  # the last reply answered CloseSession
        self._watches.on_received_up_to(self.last_zxid)
        if self._outstanding.has_queued() or self._outstanding.refused_count:
            self.flush(now)

    def _on_reply(self, item: SuccessReply | ErrorReply) -> bool:
        """Take a reply; return False unless it is the one that had to come next."""
        waiting = self._outstanding.take_answered(item)
        if waiting is None:
            if not self._outstanding.is_oldest_refused():
                return self._watches.is_set_watches_reply(item)
            self._fail_refused()
            return self._on_reply(item)
        if self._outstanding.is_paging:
            return True
        code = 0
        if type(item) is ErrorReply or (
            # An aborted transaction is a result: it tells the outcome of each operation.
            type(item) is WriteReply and item.code and item.results is None
        ):
            code = item.code
        if waiting.watcher is not None:
            code, told = self._watches.on_reply(waiting, item, code, self.state)
            self.out += told
        self.counts.count_answer(waiting.reply_type, code)
        token = waiting.token
        if token is None:
            return True
        if token is CLOSE_TOKEN:
            self._finish(None)
        elif code:
            detail = _refusal_detail(waiting, item, code)
            self.out.append(Fail(token, error_for(code, self._chroot.strip(waiting.path), detail)))
        else:
            assert type(item) is not ErrorReply, item
            if self._chroot.path:
                item = self._chroot.strip_reply(item)
            self.out.append(Complete(token, item))
        return True

    def _on_connected(self, answer: ConnectReply, now: Millis) -> None:
        if self._phase is not ConnectionPhase.HANDSHAKING:
            self._drop_server("it connected twice", now)
            return
        if answer.members is not None:
            self._learn_members(answer.members, now)
        if (end := self._handshake.session_error(answer)) is not None:
            self._finish(end)
        else:
            # Prefer a server with a leader: request each server once before taking one without.
            read_only = self._handshake.takes_read_only and self._host_provider.failed_cycles() > 0
            if reason := self._handshake.refusal_reason(answer, read_only=read_only):
                self._drop_server(reason, now)
            else:
                self._serve(answer, now)

    def _serve(self, answer: ConnectReply, now: Millis) -> None:
        self._phase = ConnectionPhase.SERVING
        self.counts.on_connected(now)
        self._has_received_frame = False
        self._open_by = None
        self._handshake.ensemble = answer.ensemble
        self._handshake.own_uuid = answer.own_uuid or answer.ensemble
        self._outstanding.set_window(answer.window)
        self._host_provider.return_spread_ms = answer.return_spread_ms
        self.last_zxid = max(self.last_zxid, answer.zxid)
        self._outstanding.is_read_only = answer.read_only
        if answer.read_only:
            self._deadlines.on_connected_read_only(self._connect_sent_at, now)
            self._search_others(now)
            self._change_state(ClientState.CONNECTED_READ_ONLY)
        else:
            if self._handshake.on_connected(answer):
                self._outstanding.continue_numbers_after(answer.last_number)
            self._deadlines.on_connected(answer.timeout_ms, self._connect_sent_at, now)
            self._change_state(ClientState.CONNECTED)
        bytes_max = self._limits.set_watches_bytes_max
        for request in self._watches.set_watches(self._outstanding.xids, bytes_max):
            self._send([request], now)
        self.flush(now)

    def _learn_members(self, members: MemberList, now: Millis) -> None:
        """Go to the servers of `members` from now on, if no newer list is known."""
        if self.members is not None and members.version <= self.members.version:
            return
        self.members = members
        servers = (*sorted(members.voters), *members.observers)
        if not self._learns_servers or sorted(servers) == sorted(self._servers):
            return
        self._servers = servers
        self._host_provider.set_servers(servers)
        self.out.append(KeepServers(servers))
        if self._outstanding.is_read_only and self._phase is ConnectionPhase.SERVING:
            self._search_others(now)

    def _search_others(self, now: Millis) -> None:
        """Search for a server with a leader among all but the one that serves the client."""
        others = [server for server in self._servers if server != self._server]
        if self._search is not None and others:
            self._search.set_servers(others)
        elif others:
            timeout_ms = self._deadlines.timeout_ms
            self._search = ReadWriteSearch(others, self._rng, self._handshake, timeout_ms, now)

    def _on_ended(self, ended: CloseFrame, now: Millis) -> None:
        if ended.code in (Code.SESSION_EXPIRED, Code.AUTH_FAILED):
            self._finish(error_for(ended.code))
        else:
            self._drop_server(str(error_for(ended.code)), now)

    def _send(self, requests: list[Request], now: Millis) -> None:
        self._heartbeat_seq += 1
        self._deadlines.on_sent(self._heartbeat_seq, now)
        self.out.append(SendFrame(encode_client_frame(ClientFrame(self._heartbeat_seq, requests))))

    def _advance_phase(self, now: Millis) -> None:
        """Act on the deadlines of this phase."""
        phase, liveness = self._phase, self._deadlines
        if phase is ConnectionPhase.SERVING:
            if now >= liveness.read_timeout_at():
                self._drop_server("it sent nothing for too long", now)
                return
            if now >= liveness.heartbeat_at():
                self._send([], now)
            if self._search is not None:
                self._search.wake(now, self.out)
        elif now >= self._phase_until:
            if phase is ConnectionPhase.PAUSED:
                self._dial_next(now)
            else:
                did = "accept a link" if phase is ConnectionPhase.DIALING else "take the session"
                self._drop_server(f"it did not {did} in time", now)

    def _dial_next(self, now: Millis) -> None:
        self._phase = ConnectionPhase.DIALING
        self._server = self._host_provider.next_server()
        self._phase_until = self._attempt_until(now)
        self.out.append(OpenLink(self._server))

    def _attempt_until(self, now: Millis) -> Millis:
        return Millis(now + self._host_provider.connect_timeout_ms(self._deadlines.timeout_ms))

    def _drop_server(self, reason: str, now: Millis) -> None:
        self.out.append(CloseLink(reason))
        self._reconnect(reason, now)

    def _reconnect(self, reason: str, now: Millis) -> None:
        """The link is gone: try the next server, at once or after a pause."""
        self._host_provider.on_failed(self._server, reason)
        pause_ms = self._host_provider.backoff_ms()
        has_cycle_failed = pause_ms > 0
        if self._phase is ConnectionPhase.SERVING:
            self._end_search()
            self._outstanding.requeue()
            self._watches.on_disconnected()
            self.counts.on_disconnected(now)
            self._change_state(ClientState.SUSPENDED)
            pause_ms = max(pause_ms, self._return_pause_ms(now))
        if pause_ms:
            self._phase = ConnectionPhase.PAUSED
            self._phase_until = Millis(now + pause_ms)
        else:
            self._dial_next(now)
        if has_cycle_failed and self._learns_servers and not self._is_listing:
            self._is_listing = True
            self.out.append(ListServers())

    def _return_pause_ms(self, now: Millis) -> Millis:
        deadlines = self._deadlines
        return self._host_provider.return_pause_ms(
            deadlines.left_ms(now), deadlines.unconfirmed_ms(now), deadlines.timeout_ms
        )

    def _end_search(self) -> None:
        if self._search is not None:
            self._search.end("the client looks for another server", self.out)
            self._search = None

    def _change_state(self, state: ClientState) -> None:
        self.state = state
        self.out.append(ChangeState(state))

    def _finish(self, cause: KeeperError | None) -> None:
        """End the handle: it is LOST because of `cause`, None if it was closed.

        The state changes first, so that holders let go; then every request and watcher ends.
        """
        if self._phase in (
            ConnectionPhase.DIALING,
            ConnectionPhase.HANDSHAKING,
            ConnectionPhase.SERVING,
        ):
            self.out.append(CloseLink("the session is over"))
        self._end_search()
        if self._close_by is not None and isinstance(cause, SessionExpiredError):
            cause = None  # closing the session was the aim
        self._phase = ConnectionPhase.FINISHED
        self._cause = cause
        self.state = ClientState.LOST
        self.counts.losses += isinstance(cause, SessionExpiredError)
        self.out.append(ChangeState(ClientState.LOST, cause))
        self._fail_all(cause)

    def _fail_refused(self) -> None:
        """Fail the refused writes whose turn has come."""
        while (waiting := self._outstanding.take_refused()) is not None:
            if waiting.token is not None:
                path = self._chroot.strip(waiting.path)
                self.out.append(Fail(waiting.token, NotReadOnlyError(path)))

    def _fail_timed_out(self, detail: str, now: Millis) -> None:
        """Fail the requests that have timed out by now; `detail` says what holds them up."""
        for waiting in self._outstanding.take_timed_out(now):
            path = self._chroot.strip(waiting.path)
            token = waiting.token
            if hasattr(token, "late"):
                # The token handles the outcome itself, whenever it comes.
                error = OperationTimeoutError(path, detail, definite=False)
                self.out.append(TimedOut(token, error))
                continue
            waiting.token = None
            definite = waiting.reply_type is not WriteReply
            self.out.append(Fail(token, OperationTimeoutError(path, detail, definite=definite)))

    def _fail_all(self, cause: KeeperError | None) -> None:
        """Fail all requests and end all watches: the session is over by `cause`, None if closed."""
        outstanding = self._outstanding
        for waiting in outstanding.take_all():
            if waiting.token is None or waiting.token is CLOSE_TOKEN:
                continue
            is_write = waiting.reply_type is WriteReply
            definite = not is_write or not outstanding.may_have_reached_server(waiting)
            error = end_error(cause, self._chroot.strip(waiting.path), definite=definite)
            self.out.append(Fail(waiting.token, error))
        for path, concerned in self._watches.tables.take_all().items():
            path = self._chroot.strip(path)
            event = WatchedEvent(EventType.NONE, ClientState.LOST, path, ZERO)
            self.out.append(CallWatchers(concerned, event))


def _refusal_detail(waiting: PendingRequest, item: SuccessReply | ErrorReply, code: int) -> str:
    """Return what a person should know of the error of a request."""
    if type(item) is WriteReply and item.path:
        return item.path  # the server's own words
    # Of all that can be refused for its arguments, only a transaction has no path.
    is_whole = code == Code.BAD_ARGUMENTS and not waiting.path
    return _TRANSACTION_REFUSED if is_whole else _REASONS.get(code, "")


def end_error(cause: KeeperError | None, path: str, *, definite: bool = True) -> KeeperError:
    """Return the error of a request that the end of the session leaves without a reply.

    It says whether the request certainly had no effect.
    """
    if cause is None:
        return ClosedError(path, "the client was closed", definite=definite)
    return type(cause)(path, cause.detail, definite=definite)
