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
    that link only; nothing of it after CloseLink. The same for OpenSearch and the second link,
    until CloseSearch or TakeSearch.

What it owns: within the life of the session a lost connection reaches nobody. Unanswered requests
are sent again in order, watches are set again first, and reads never go backwards, because a
server answers Connect only when it is as recent as all that was seen. DESIGN section 7.

A client that may be served read-only takes such a server once every other has been asked in vain.
Then a second link looks for a server with a leader (client/core/search.py). An open session is not
kept alive meanwhile, so its deadline runs on; a handle that never had one has nothing to lose.

ZooKeeper: `ClientCnxn`. Exactly-once writes and the deadline to let go have no counterpart there.
"""

from enum import Enum
from random import Random

from raykeeper.client.core import endings
from raykeeper.client.core.chroot import ROOT, Chroot
from raykeeper.client.core.client_id import ClientId
from raykeeper.client.core.effects import (
    Answer,
    ChangeState,
    CloseLink,
    Complete,
    Effect,
    Fail,
    OpenLink,
    SendFrame,
)
from raykeeper.client.core.endings import CLOSING
from raykeeper.client.core.joining import Joining
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.liveness import Liveness
from raykeeper.client.core.outstanding import Ask, Outstanding, Unwatch, Watch, path_of
from raykeeper.client.core.rotation import Rotation
from raykeeper.client.core.search import Search
from raykeeper.client.core.states import ClientState
from raykeeper.client.core.watching import Watching
from raykeeper.zab.errors import MALFORMED
from raykeeper.zab.ids import ZERO, Millis, ServerId
from raykeeper.znodes.errors import (
    Code,
    ConnectionLossError,
    KeeperError,
    SessionExpiredError,
    error_for,
)
from raykeeper.znodes.replies import (
    Connected,
    Ended,
    ReadFailed,
    ServerFrame,
    WatchFired,
    Written,
    decode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Request,
    SessionId,
    encode_client_frame,
)


class Phase(Enum):
    """How far the client has come with a server."""

    NEW = "new"
    PAUSED = "paused"
    OPENING = "opening"
    JOINING = "joining"
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
        taken: ClientId | None = None,
        chroot: Chroot = ROOT,
        read_only: bool = False,
    ) -> None:
        """`password` is drawn at random for this handle.

        It names a new session until that has an id. `taken` is a session to take over from another
        handle instead, whose password this one then replaces; nothing may be submitted before it is
        open, for the numbers of its writes are not known. `read_only`: a server without a leader
        will do while there is no other.
        """
        self.out: list[Effect] = []
        self.state = ClientState.SUSPENDED
        self.last_zxid = ZERO
        """The newest transaction whose effect may have been seen."""
        self._chroot = chroot
        self._joining = Joining(password, session_timeout_ms, taken, read_only=read_only)
        self._limits = limits
        self._phase = Phase.NEW
        self._servers = servers
        self._rng = rng
        self._search: Search | None = None  # while a server serves us read-only
        self._rotation = Rotation(servers, rng)
        self._liveness = Liveness(session_timeout_ms)
        self._outstanding = Outstanding(limits)
        self._watching = Watching(chroot)
        self._beat = 0
        self._server = ServerId(0)
        self._phase_until = Millis(0)  # PAUSED, OPENING and JOINING end then
        self._connect_sent_at = Millis(0)
        self._open_by: Millis | None = None
        self._close_by: Millis | None = None
        self._cause: KeeperError | None = None
        self._is_doomed = False  # somebody was told that the session is lost
        self._is_proven = False  # this server has served us something

    def start(self, now: Millis) -> None:
        """Open the session. It has `request_timeout_ms` for that."""
        assert self._phase is Phase.NEW, self._phase
        self._open_by = Millis(now + self._limits.request_timeout_ms)
        self._open_next(now)

    def submit(self, ask: Ask, token: object, now: Millis) -> None:
        """Queue a request; `token` comes back with Complete or Fail, exactly once."""
        if self._phase is Phase.FINISHED or self._close_by is not None:
            path = path_of(ask)
            self.out.append(Fail(token, endings.end_error(self._cause, path)))
            return
        if self._chroot.path:
            ask = self._chroot.inside(ask)
        if type(ask) is Watch or type(ask) is Unwatch:
            ask = self._watching.submitted(ask)
        self._outstanding.add(ask, token, now)

    def flush(self, now: Millis) -> None:
        """Send what waits, as far as the bounds allow."""
        if self._outstanding.refused:
            self.out += endings.refused(self._outstanding, self._chroot)
        if self._phase is Phase.SERVING:
            while batch := self._outstanding.take_batch():
                self._send(batch, now)

    def link_opened(self, now: Millis) -> None:
        """The link asked for by OpenLink is open."""
        assert self._phase is Phase.OPENING, self._phase
        self._phase = Phase.JOINING
        self._connect_sent_at = now
        joining = self._joining
        connect = joining.connect(self.last_zxid, read_only=joining.takes_read_only)
        self.out.append(SendFrame(connect))

    def link_failed(self, reason: str, now: Millis) -> None:
        """The link asked for by OpenLink could not be opened, or has broken."""
        if self._phase in (Phase.OPENING, Phase.JOINING, Phase.SERVING):
            self._leave(reason, now)

    def frame(self, data: bytes, now: Millis) -> None:
        """A frame of the server came."""
        if self._phase not in (Phase.SERVING, Phase.JOINING):
            return
        try:
            frame = decode_server_frame(data)
        except MALFORMED as error:
            self._break(f"it sent what cannot be decoded: {error}", now)
            return
        self._liveness.heard(now)
        if self._is_doomed:
            self._finish(SessionExpiredError())
        elif type(frame) is ServerFrame:
            self._on_server_frame(frame, now)
        elif type(frame) is Connected:
            self._on_connected(frame, now)
        else:
            assert type(frame) is Ended, frame
            self._on_ended(frame, now)

    def search_opened(self, now: Millis) -> None:
        """The link asked for by OpenSearch is open."""
        assert self._search is not None
        self._search.opened(self.last_zxid, now, self.out)

    def search_failed(self, reason: str, now: Millis) -> None:
        """The link asked for by OpenSearch could not be opened, or has broken."""
        assert self._search is not None, reason
        self._search.failed(now)

    def search_frame(self, data: bytes, now: Millis) -> None:
        """A frame came on the second link."""
        search = self._search
        if search is None:
            self.frame(data, now)  # the one before it, of the same batch, made us take the link
            return
        if self._is_doomed:
            self._finish(SessionExpiredError())
            return
        # What the link shows is as recent as all that was seen: a server without a leader stands
        # still, so nothing newer was shown since `last_zxid` was sent with Connect.
        answer = search.heard(data, now, self.out)
        if isinstance(answer, KeeperError):
            self._finish(answer)
        elif answer is not None:
            self._search = None
            self._server, self._connect_sent_at = search.server, search.asked_at
            self._outstanding.unsend()
            self._watching.disconnected()
            self._serve(answer, now)

    def wake(self, now: Millis) -> None:
        """Do what the time demands."""
        if self._phase in (Phase.FINISHED, Phase.NEW):
            return
        if self._close_by is not None and now >= self._close_by:
            self._finish(None)
        elif self._is_over(now):
            self._finish(SessionExpiredError())
        elif self._open_by is not None and now >= self._open_by:
            self._finish(ConnectionLossError("", self.explain()))
        else:
            detail = "" if self._phase is Phase.SERVING else self.explain()
            self.out += endings.too_late(self._outstanding, self._chroot, detail, now)
            self._advance(now)

    def close(self, now: Millis) -> None:
        """End the session after all that was submitted. What cannot be done in time is given up."""
        if self._phase is Phase.FINISHED or self._close_by is not None:
            return
        if not self._joining.has_session():
            # What may have been opened on the server ends by its timeout.
            self._finish(None)
            return
        self._outstanding.add(CloseSession(), CLOSING, now)
        bound = min(self._limits.request_timeout_ms, self._liveness.timeout_ms)
        self._close_by = Millis(now + bound)
        self.flush(now)

    def abandon(self, detail: str) -> None:
        """The caller was interrupted in here: what the core holds is not to be trusted any more."""
        if self._phase is not Phase.FINISHED:
            self._finish(SessionExpiredError("", detail))

    def deadline(self) -> Millis | None:
        """When `wake` is due; None when nothing is awaited."""
        phase, liveness = self._phase, self._liveness
        if phase is Phase.SERVING:
            due = min(liveness.heartbeat_at(), liveness.silent_at())
        elif phase in (Phase.FINISHED, Phase.NEW):
            return None
        else:
            due = self._phase_until
        for at in (
            self._search.due if self._search is not None else None,
            liveness.let_go_at,
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
        return self._joining.session_id

    @property
    def ensemble(self) -> str:
        """The uuid of the ensemble, known once a server has taken the client."""
        return self._joining.ensemble

    @property
    def client_id(self) -> ClientId:
        """What another handle needs to take the session over."""
        return self._joining.client_id

    def is_lost(self, now: Millis) -> bool:
        """Whether the session may be over by now, though `wake` was not called yet.

        Who was told so has let go, so from then on nothing can save the session any more. So has
        who closes it: the servers may have ended it long before they are heard to have.
        """
        return self._close_by is not None or self._is_over(now)

    def _is_over(self, now: Millis) -> bool:
        if self._liveness.is_over(now):
            self._is_doomed = True
        return self._is_doomed or self.state is ClientState.LOST

    def end_error(self) -> KeeperError:
        """What a request is told that comes after the end of the session."""
        return endings.end_error(self._cause, "")

    def explain(self) -> str:
        """Which servers were tried since one served us, and what came of it."""
        return self._rotation.explain()

    def _on_server_frame(self, frame: ServerFrame, now: Millis) -> None:
        if self._phase is not Phase.SERVING:
            self._break("it answered before it was connected", now)
            return
        self._liveness.confirmed(frame.beat)
        if self._liveness.is_over(now):
            # These answers are too late: somebody else may hold our locks already.
            self._finish(SessionExpiredError())
            return
        if not self._is_proven:
            self._is_proven = True
            self._rotation.succeeded()
        if frame.zxid > self.last_zxid:
            self.last_zxid = frame.zxid
        self._outstanding.set_window(frame.window)
        for item in frame.items:
            if type(item) is WatchFired:
                self.out += self._watching.fired(item, self.state)
            elif not self._on_reply(item):
                self._break(f"it answered what was not asked: {item}", now)
                return
        if self.state is ClientState.LOST:
            return  # the last reply was that to CloseSession
        self._watching.seen(self.last_zxid)
        if self._outstanding.has_queued() or self._outstanding.refused:
            self.flush(now)

    def _on_reply(self, item: Answer | ReadFailed) -> bool:
        """Whether it was the reply that had to come next."""
        waiting = self._outstanding.answered(item)
        if waiting is None:
            if not self._outstanding.is_refused_next():
                return self._watching.is_set(item)
            self.out += endings.refused(self._outstanding, self._chroot)
            return self._on_reply(item)
        if self._outstanding.is_paging:
            return True
        code = 0
        if type(item) is ReadFailed or (
            # A transaction that was aborted is an answer: it tells of each operation.
            type(item) is Written and item.code and item.results is None
        ):
            code = item.code
        if waiting.watcher is not None:
            code, told = self._watching.answered(waiting, item, code, self.state)
            self.out += told
        token = waiting.token
        if token is None:
            return True
        if token is CLOSING:
            self._finish(None)
        elif code:
            self.out.append(Fail(token, error_for(code, self._chroot.shown(waiting.path))))
        else:
            assert type(item) is not ReadFailed, item
            self.out.append(Complete(token, self._chroot.answer(item)))
        return True

    def _on_connected(self, answer: Connected, now: Millis) -> None:
        if self._phase is not Phase.JOINING:
            self._break("it connected twice", now)
        elif (end := self._joining.end_by(answer)) is not None:
            self._finish(end)
        else:
            # A server with a leader is preferred: each is asked once before another one is taken.
            read_only = self._joining.takes_read_only and self._rotation.vain_cycles() > 0
            if reason := self._joining.objection_to(answer, read_only=read_only):
                self._break(reason, now)
            else:
                self._serve(answer, now)

    def _serve(self, answer: Connected, now: Millis) -> None:
        self._phase = Phase.SERVING
        self._is_proven = False
        self._open_by = None
        self._joining.ensemble = answer.ensemble
        self._outstanding.set_window(answer.window)
        self.last_zxid = max(self.last_zxid, answer.zxid)
        self._outstanding.is_read_only = answer.read_only
        if answer.read_only:
            self._liveness.connected_read_only(self._connect_sent_at, now)
            if others := [server for server in self._servers if server != self._server]:
                timeout_ms = self._liveness.timeout_ms
                self._search = Search(others, self._rng, self._joining, timeout_ms, now)
            self._change_state(ClientState.CONNECTED_READ_ONLY)
        else:
            if self._joining.joined(answer):
                self._outstanding.go_on_after(answer.last_number)
            self._liveness.connected(answer.timeout_ms, self._connect_sent_at, now)
            self._change_state(ClientState.CONNECTED)
        bytes_max = self._limits.set_watches_bytes_max
        for request in self._watching.set_again(self._outstanding.xids, bytes_max):
            self._send([request], now)
        self.flush(now)

    def _on_ended(self, ended: Ended, now: Millis) -> None:
        if ended.code in (Code.SESSION_EXPIRED, Code.AUTH_FAILED):
            self._finish(error_for(ended.code))
        else:
            self._break(str(error_for(ended.code)), now)

    def _send(self, requests: list[Request], now: Millis) -> None:
        self._beat += 1
        self._liveness.sent(self._beat, now)
        self.out.append(SendFrame(encode_client_frame(ClientFrame(self._beat, requests))))

    def _advance(self, now: Millis) -> None:
        """Do what the time demands of this phase."""
        phase, liveness = self._phase, self._liveness
        if phase is Phase.SERVING:
            if now >= liveness.silent_at():
                self._break("nothing was heard of it for too long", now)
                return
            if now >= liveness.heartbeat_at():
                self._send([], now)
            if self._search is not None:
                self._search.wake(now, self.out)
        elif now >= self._phase_until:
            if phase is Phase.PAUSED:
                self._open_next(now)
            else:
                did = "accept a link" if phase is Phase.OPENING else "take the session"
                self._break(f"it did not {did} in time", now)

    def _open_next(self, now: Millis) -> None:
        self._phase = Phase.OPENING
        self._server = self._rotation.next()
        self._phase_until = Millis(now + self._rotation.attempt_ms(self._liveness.timeout_ms))
        self.out.append(OpenLink(self._server))

    def _break(self, reason: str, now: Millis) -> None:
        self.out.append(CloseLink(reason))
        self._leave(reason, now)

    def _leave(self, reason: str, now: Millis) -> None:
        """There is no link any more: try the next server, at once or after a pause."""
        self._rotation.failed(self._server, reason)
        if self._phase is Phase.SERVING:
            self._end_search()
            self._outstanding.unsend()
            self._watching.disconnected()
            self._change_state(ClientState.SUSPENDED)
        pause_ms = self._rotation.pause_ms()
        if pause_ms:
            self._phase = Phase.PAUSED
            self._phase_until = Millis(now + pause_ms)
        else:
            self._open_next(now)

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
        if self._phase in (Phase.OPENING, Phase.JOINING, Phase.SERVING):
            self.out.append(CloseLink("the session is over"))
        self._end_search()
        if self._close_by is not None and isinstance(cause, SessionExpiredError):
            cause = None  # that is what close wanted
        self._phase = Phase.FINISHED
        self._cause = cause
        self.state = ClientState.LOST
        self.out.append(ChangeState(ClientState.LOST, cause))
        watchers = self._watching.watchers
        self.out += endings.with_session(self._outstanding, watchers, self._chroot, cause)
