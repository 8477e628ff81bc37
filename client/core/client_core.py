"""The client without its IO: one session, from its opening to its end, over many connections.

    NEW ─start─> OPENING ─link_opened─> JOINING ─Connected─> SERVING
                  ^  │ failed, or too slow │                    │ link lost, silent server
                  │  v                     v                    v
                 PAUSED <─(after a vain cycle)─ the next server ┘     any ──> FINISHED

The same rules as in the pure rooms: no clock, no IO; every input tells the time, and its effects
are appended to `out`. The driver's duties, in this order:

1.  Give each input as it comes, and then carry out `out` in order and clear it.
2.  Call `flush` once after a round of `submit`; what was submitted leaves in one frame.
3.  Call `wake` when `deadline` has come. A call too early does nothing.
4.  After OpenLink report `link_opened` or `link_failed`, and frames and a later `link_failed` of
    that link only; nothing of it after CloseLink. The same for OpenSearchLink and the second link,
    until CloseSearchLink or PromoteSearchLink.

What it owns: within the life of the session a lost connection reaches nobody. Unanswered requests
are sent again in order, watches are set again first, and reads never go backwards, because a
server answers Connect only when it is as recent as all that was seen. DESIGN section 7.

A client that may be served read-only takes such a server once every other has been asked in vain.
Then a second link looks for a server with a leader (client/core/read_write_search.py). An open
session is not kept alive meanwhile, so its deadline runs on; a handle that never had one has
nothing to lose.

ZooKeeper: `ClientCnxn`. Exactly-once writes and the deadline to let go have no counterpart there.
"""

from enum import Enum
from random import Random

from raykeeper.client.core import endings
from raykeeper.client.core.chroot import ROOT, Chroot
from raykeeper.client.core.client_id import ClientId
from raykeeper.client.core.effects import (
    ChangeState,
    CloseLink,
    Complete,
    Effect,
    Fail,
    OpenLink,
    SendFrame,
    SuccessReply,
)
from raykeeper.client.core.endings import CLOSE_TOKEN
from raykeeper.client.core.host_provider import HostProvider
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import (
    NewRequest,
    OutstandingRequests,
    WatchAddition,
    WatchRemoval,
    path_of,
)
from raykeeper.client.core.read_write_search import ReadWriteSearch
from raykeeper.client.core.session_deadlines import SessionDeadlines
from raykeeper.client.core.session_handshake import SessionHandshake
from raykeeper.client.core.session_watches import SessionWatches
from raykeeper.client.core.states import ClientState
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ZERO, Millis, ServerId
from raykeeper.znodes.errors import (
    Code,
    ConnectionLossError,
    KeeperError,
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


class ConnectionPhase(Enum):
    """How far the client has come with a server."""

    NEW = "new"
    PAUSED = "paused"
    DIALING = "opening"
    HANDSHAKING = "joining"
    SERVING = "serving"
    FINISHED = "finished"


class ClientCore:
    """One session of one client. It finishes once, and is of no more use then."""

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
    ) -> None:
        """`password` is drawn at random for this handle.

        It names a new session until that has an id. `takeover` is a session to take over from
        another handle instead, whose password this one then replaces; nothing may be submitted
        before it is open, for the numbers of its writes are not known. `read_only`: a server
        without a leader will do while there is no other.
        """
        self.out: list[Effect] = []
        self.state = ClientState.SUSPENDED
        self.last_zxid = ZERO
        """The newest transaction whose effect may have been seen."""
        self._chroot = chroot
        self._handshake = SessionHandshake(
            password, session_timeout_ms, takeover, read_only=read_only
        )
        self._limits = limits
        self._phase = ConnectionPhase.NEW
        self._servers = servers
        self._rng = rng
        self._search: ReadWriteSearch | None = None  # while a server serves us read-only
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
        self._was_reported_lost = False  # somebody was told that the session is lost
        self._has_received_frame = False  # this server has served us something

    def start(self, now: Millis) -> None:
        """Open the session. It has `request_timeout_ms` for that."""
        assert self._phase is ConnectionPhase.NEW, self._phase
        self._open_by = Millis(now + self._limits.request_timeout_ms)
        self._dial_next(now)

    def submit(self, ask: NewRequest, token: object, now: Millis) -> None:
        """Queue a request; `token` comes back with Complete or Fail, exactly once."""
        if self._phase is ConnectionPhase.FINISHED or self._close_by is not None:
            path = path_of(ask)
            self.out.append(Fail(token, endings.end_error(self._cause, path)))
            return
        if self._chroot.path:
            ask = self._chroot.prepend(ask)
        if type(ask) is WatchAddition or type(ask) is WatchRemoval:
            ask = self._watches.on_submit(ask)
        self._outstanding.add(ask, token, now)

    def flush(self, now: Millis) -> None:
        """Send what waits, as far as the bounds allow."""
        if self._outstanding.refused_count:
            self.out += endings.fail_refused(self._outstanding, self._chroot)
        if self._phase is ConnectionPhase.SERVING:
            while batch := self._outstanding.take_batch():
                self._send(batch, now)

    def link_opened(self, now: Millis) -> None:
        """The link asked for by OpenLink is open."""
        assert self._phase is ConnectionPhase.DIALING, self._phase
        self._phase = ConnectionPhase.HANDSHAKING
        self._connect_sent_at = now
        joining = self._handshake
        connect = joining.encode_connect(self.last_zxid, read_only=joining.takes_read_only)
        self.out.append(SendFrame(connect))

    def link_failed(self, reason: str, now: Millis) -> None:
        """The link asked for by OpenLink could not be opened, or has broken."""
        if self._phase in (
            ConnectionPhase.DIALING,
            ConnectionPhase.HANDSHAKING,
            ConnectionPhase.SERVING,
        ):
            self._reconnect(reason, now)

    def frame(self, data: bytes, now: Millis) -> None:
        """A frame of the server came."""
        if self._phase not in (ConnectionPhase.SERVING, ConnectionPhase.HANDSHAKING):
            return
        try:
            frame = decode_server_frame(data)
        except DECODE_ERRORS as error:
            self._drop_server(f"it sent what cannot be decoded: {error}", now)
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

    def search_link_opened(self, now: Millis) -> None:
        """The link asked for by OpenSearchLink is open."""
        assert self._search is not None
        self._search.on_opened(self.last_zxid, now, self.out)

    def search_link_failed(self, reason: str, now: Millis) -> None:
        """The link asked for by OpenSearchLink could not be opened, or has broken."""
        assert self._search is not None, reason
        self._search.on_failed(now)

    def search_frame(self, data: bytes, now: Millis) -> None:
        """A frame came on the second link."""
        search = self._search
        if search is None:
            self.frame(data, now)  # the one before it, of the same batch, made us take the link
            return
        if self._was_reported_lost:
            self._finish(SessionExpiredError())
            return
        # What the link shows is as recent as all that was seen: a server without a leader stands
        # still, so nothing newer was shown since `last_zxid` was sent with Connect.
        answer = search.on_frame(data, now, self.out)
        if isinstance(answer, KeeperError):
            self._finish(answer)
        elif answer is not None:
            self._search = None
            self._server, self._connect_sent_at = search.server, search.connect_sent_at
            self._outstanding.requeue()
            self._watches.on_disconnected()
            self._serve(answer, now)

    def wake(self, now: Millis) -> None:
        """Do what the time demands."""
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
            self.out += endings.fail_timed_out(self._outstanding, self._chroot, detail, now)
            self._advance_phase(now)

    def close(self, now: Millis) -> None:
        """End the session after all that was submitted. What cannot be done in time is given up."""
        if self._phase is ConnectionPhase.FINISHED or self._close_by is not None:
            return
        if not self._handshake.owns_session():
            # What may have been opened on the server ends by its timeout.
            self._finish(None)
            return
        self._outstanding.add(CloseSession(), CLOSE_TOKEN, now)
        bound = min(self._limits.request_timeout_ms, self._deadlines.timeout_ms)
        self._close_by = Millis(now + bound)
        self.flush(now)

    def abort(self, detail: str) -> None:
        """The caller was interrupted in here: what the core holds is not to be trusted any more."""
        if self._phase is not ConnectionPhase.FINISHED:
            self._finish(SessionExpiredError("", detail))

    def deadline(self) -> Millis | None:
        """When `wake` is due; None when nothing is awaited."""
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
        """0 before a session was opened."""
        return self._handshake.session_id

    @property
    def ensemble(self) -> str:
        """The uuid of the ensemble, known once a server has taken the client."""
        return self._handshake.ensemble

    @property
    def client_id(self) -> ClientId:
        """What another handle needs to take the session over."""
        return self._handshake.client_id

    def is_lost(self, now: Millis) -> bool:
        """Whether the session may be over by now, though `wake` was not called yet.

        Who was told so has let go, so from then on nothing can save the session any more. So has
        who closes it: the servers may have ended it long before they are heard to have.
        """
        return self._close_by is not None or self._is_expired(now)

    def _is_expired(self, now: Millis) -> bool:
        if self._deadlines.is_expired(now):
            self._was_reported_lost = True
        return self._was_reported_lost or self.state is ClientState.LOST

    def end_error(self) -> KeeperError:
        """What a request is told that comes after the end of the session."""
        return endings.end_error(self._cause, "")

    def explain(self) -> str:
        """Which servers were tried since one served us, and what came of it."""
        return self._host_provider.explain()

    def _on_server_frame(self, frame: ServerFrame, now: Millis) -> None:
        if self._phase is not ConnectionPhase.SERVING:
            self._drop_server("it answered before it was connected", now)
            return
        self._deadlines.on_confirmed(frame.heartbeat_seq)
        if self._deadlines.is_expired(now):
            # These answers are too late: somebody else may hold our locks already.
            self._finish(SessionExpiredError())
            return
        if not self._has_received_frame:
            self._has_received_frame = True
            self._host_provider.on_connected()
        if frame.zxid > self.last_zxid:
            self.last_zxid = frame.zxid
        self._outstanding.set_window(frame.window)
        for item in frame.items:
            if type(item) is WatcherEvent:
                self.out += self._watches.on_event(item, self.state)
            elif not self._on_reply(item):
                self._drop_server(f"it answered what was not asked: {item}", now)
                return
        if self.state is ClientState.LOST:
            return  # the last reply was that to CloseSession
        self._watches.on_received_up_to(self.last_zxid)
        if self._outstanding.has_queued() or self._outstanding.refused_count:
            self.flush(now)

    def _on_reply(self, item: SuccessReply | ErrorReply) -> bool:
        """Whether it was the reply that had to come next."""
        waiting = self._outstanding.take_answered(item)
        if waiting is None:
            if not self._outstanding.is_oldest_refused():
                return self._watches.is_set_watches_reply(item)
            self.out += endings.fail_refused(self._outstanding, self._chroot)
            return self._on_reply(item)
        if self._outstanding.is_paging:
            return True
        code = 0
        if type(item) is ErrorReply or (
            # A transaction that was aborted is an answer: it tells of each operation.
            type(item) is WriteReply and item.code and item.results is None
        ):
            code = item.code
        if waiting.watcher is not None:
            code, told = self._watches.on_reply(waiting, item, code, self.state)
            self.out += told
        token = waiting.token
        if token is None:
            return True
        if token is CLOSE_TOKEN:
            self._finish(None)
        elif code:
            self.out.append(Fail(token, error_for(code, self._chroot.strip(waiting.path))))
        else:
            assert type(item) is not ErrorReply, item
            self.out.append(Complete(token, self._chroot.strip_reply(item)))
        return True

    def _on_connected(self, answer: ConnectReply, now: Millis) -> None:
        if self._phase is not ConnectionPhase.HANDSHAKING:
            self._drop_server("it connected twice", now)
        elif (end := self._handshake.session_error(answer)) is not None:
            self._finish(end)
        else:
            # A server with a leader is preferred: each is asked once before another one is taken.
            read_only = self._handshake.takes_read_only and self._host_provider.failed_cycles() > 0
            if reason := self._handshake.refusal_reason(answer, read_only=read_only):
                self._drop_server(reason, now)
            else:
                self._serve(answer, now)

    def _serve(self, answer: ConnectReply, now: Millis) -> None:
        self._phase = ConnectionPhase.SERVING
        self._has_received_frame = False
        self._open_by = None
        self._handshake.ensemble = answer.ensemble
        self._outstanding.set_window(answer.window)
        self.last_zxid = max(self.last_zxid, answer.zxid)
        self._outstanding.is_read_only = answer.read_only
        if answer.read_only:
            self._deadlines.on_connected_read_only(self._connect_sent_at, now)
            if others := [server for server in self._servers if server != self._server]:
                timeout_ms = self._deadlines.timeout_ms
                self._search = ReadWriteSearch(others, self._rng, self._handshake, timeout_ms, now)
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
        """Do what the time demands of this phase."""
        phase, liveness = self._phase, self._deadlines
        if phase is ConnectionPhase.SERVING:
            if now >= liveness.read_timeout_at():
                self._drop_server("nothing was heard of it for too long", now)
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
        self._phase_until = Millis(
            now + self._host_provider.connect_timeout_ms(self._deadlines.timeout_ms)
        )
        self.out.append(OpenLink(self._server))

    def _drop_server(self, reason: str, now: Millis) -> None:
        self.out.append(CloseLink(reason))
        self._reconnect(reason, now)

    def _reconnect(self, reason: str, now: Millis) -> None:
        """There is no link any more: try the next server, at once or after a pause."""
        self._host_provider.on_failed(self._server, reason)
        if self._phase is ConnectionPhase.SERVING:
            self._end_search()
            self._outstanding.requeue()
            self._watches.on_disconnected()
            self._change_state(ClientState.SUSPENDED)
        pause_ms = self._host_provider.backoff_ms()
        if pause_ms:
            self._phase = ConnectionPhase.PAUSED
            self._phase_until = Millis(now + pause_ms)
        else:
            self._dial_next(now)

    def _end_search(self) -> None:
        if self._search is not None:
            self._search.end("another server is looked for", self.out)
            self._search = None

    def _change_state(self, state: ClientState) -> None:
        self.state = state
        self.out.append(ChangeState(state))

    def _finish(self, cause: KeeperError | None) -> None:
        """The handle is LOST, because of `cause` or because it was closed.

        First of all its owner is told to let go; then every request and every watcher gets its end.
        """
        if self._phase in (
            ConnectionPhase.DIALING,
            ConnectionPhase.HANDSHAKING,
            ConnectionPhase.SERVING,
        ):
            self.out.append(CloseLink("the session is over"))
        self._end_search()
        if self._close_by is not None and isinstance(cause, SessionExpiredError):
            cause = None  # that is what close wanted
        self._phase = ConnectionPhase.FINISHED
        self._cause = cause
        self.state = ClientState.LOST
        self.out.append(ChangeState(ClientState.LOST, cause))
        watchers = self._watches.tables
        self.out += endings.fail_all(self._outstanding, watchers, self._chroot, cause)
