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
    that link only; nothing of it after CloseLink.

What it owns: within the life of the session a lost connection reaches nobody. Unanswered requests
are sent again in order, watches are set again first, and reads never go backwards, because a
server answers Connect only when it is as recent as all that was seen. DESIGN section 7.

ZooKeeper: `ClientCnxn`. Exactly-once writes and the deadline to let go have no counterpart there.
"""

from collections import deque
from enum import Enum
from random import Random

from raykeeper.client.chroot import ROOT, Chroot
from raykeeper.client.client_id import ClientId
from raykeeper.client.effects import (
    Answer,
    ChangeState,
    CloseLink,
    Complete,
    Effect,
    Fail,
    FireWatch,
    OpenLink,
    SendFrame,
)
from raykeeper.client.limits import ClientLimits
from raykeeper.client.liveness import Liveness
from raykeeper.client.outstanding import Ask, Outstanding, path_of
from raykeeper.client.rotation import Rotation
from raykeeper.client.states import ClientState
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.client.watchers import Watchers
from raykeeper.zab.errors import MALFORMED
from raykeeper.zab.ids import ZERO, Millis, ServerId
from raykeeper.znodes.errors import (
    Code,
    ConnectionLossError,
    KeeperError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    error_for,
)
from raykeeper.znodes.replies import (
    Connected,
    Done,
    Ended,
    EventType,
    ReadFailed,
    ServerFrame,
    WatchFired,
    Written,
    decode_server_frame,
)
from raykeeper.znodes.requests import (
    PASSWORD_BYTES,
    ClientFrame,
    CloseSession,
    Connect,
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


_CLOSING = object()  # the token of CloseSession


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
    ) -> None:
        """`password` is drawn at random for this handle.

        It names a new session until that has an id. `taken` is a session to take over from another
        handle instead, whose password this one then replaces; nothing may be submitted before it is
        open, for the numbers of its writes are not known.
        """
        assert len(password) == PASSWORD_BYTES, len(password)
        self.out: list[Effect] = []
        self.state = ClientState.SUSPENDED
        self.session_id = SessionId(0) if taken is None else taken.session_id
        self.ensemble = ""
        """The uuid of the ensemble, known once a server has taken the session."""
        self.last_zxid = ZERO
        """The newest transaction whose effect may have been seen."""
        self._password = password
        self._taken = taken  # None again once it is ours
        self._chroot = chroot
        self._wished_timeout_ms = session_timeout_ms
        self._limits = limits
        self._phase = Phase.NEW
        self._rotation = Rotation(servers, rng)
        self._liveness = Liveness(session_timeout_ms)
        self._outstanding = Outstanding(limits)
        self._watchers = Watchers()
        self._beat = 0
        self._attempt = 0
        self._server = ServerId(0)
        self._failures: dict[ServerId, str] = {}
        # Up to here every watch event was received. It stands still from Connected until the
        # watches are set again: else an event between the two would be lost for good if the
        # connection broke there.
        self._events_zxid = ZERO
        self._set_watches_xids: deque[int] = deque()
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
            self.out.append(Fail(token, self._end_error(path)))
            return
        if self._chroot.path:
            ask = self._chroot.inside(ask)
        self._outstanding.add(ask, token, now)

    def flush(self, now: Millis) -> None:
        """Send what waits, as far as the bounds allow."""
        if self._phase is Phase.SERVING:
            while batch := self._outstanding.take_batch():
                self._send(batch, now)

    def link_opened(self, now: Millis) -> None:
        """The link asked for by OpenLink is open."""
        assert self._phase is Phase.OPENING, self._phase
        self._phase = Phase.JOINING
        self._connect_sent_at = now
        self._attempt += 1
        timeout_ms, attempt = self._wished_timeout_ms, self._attempt
        password, new = self._password, b""
        if self._taken is not None:
            password, new = self._taken.password, password
        zxid = self.last_zxid
        connect = Connect(self.session_id, password, timeout_ms, zxid, attempt, new)
        self.out.append(SendFrame(encode_client_frame(connect)))

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

    def wake(self, now: Millis) -> None:
        """Do what the time demands."""
        if self._phase in (Phase.FINISHED, Phase.NEW):
            return
        if self._close_by is not None and now >= self._close_by:
            self._finish(None)
        elif self.is_lost(now):
            self._finish(SessionExpiredError())
        elif self._open_by is not None and now >= self._open_by:
            self._finish(ConnectionLossError("", self.explain()))
        else:
            self._fail_timed_out(now)
            self._advance(now)

    def close(self, now: Millis) -> None:
        """End the session after all that was submitted. What cannot be done in time is given up."""
        if self._phase is Phase.FINISHED or self._close_by is not None:
            return
        if not self.session_id or self._taken is not None:
            # What may have been opened on the server ends by its timeout.
            self._finish(None)
            return
        self._outstanding.add(CloseSession(), _CLOSING, now)
        bound = min(self._limits.request_timeout_ms, self._liveness.timeout_ms)
        self._close_by = Millis(now + bound)
        self.flush(now)

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
            liveness.let_go_at,
            self._outstanding.times_out_at(),
            self._open_by,
            self._close_by,
        ):
            if at is not None and at < due:
                due = at
        return due

    @property
    def client_id(self) -> ClientId:
        """What another handle needs to take the session over."""
        return ClientId(self.session_id, self._password)

    def is_lost(self, now: Millis) -> bool:
        """Whether the session may be over by now, though `wake` was not called yet.

        Who was told so has let go, so from then on nothing can save the session any more.
        """
        if self._liveness.is_over(now):
            self._is_doomed = True
        return self._is_doomed or self.state is ClientState.LOST

    def explain(self) -> str:
        """Which servers were tried since one served us, and what came of it."""
        if not self._failures:
            return "no server has answered yet"
        return "; ".join(f"server {s}: {why}" for s, why in sorted(self._failures.items()))

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
            self._failures.clear()
            self._rotation.succeeded()
        if frame.zxid > self.last_zxid:
            self.last_zxid = frame.zxid
        for item in frame.items:
            if isinstance(item, WatchFired):
                self._on_watch_fired(item)
            elif not self._on_reply(item):
                self._break(f"it answered what was not asked: {item}", now)
                return
        if self.state is ClientState.LOST:
            return  # the last reply was that to CloseSession
        if not self._set_watches_xids:
            self._events_zxid = self.last_zxid
        if self._outstanding.has_queued():
            self.flush(now)

    def _on_reply(self, item: Answer | ReadFailed) -> bool:
        """Whether it was the reply that had to come next."""
        waiting = self._outstanding.answered(item)
        if waiting is None:
            return self._on_watches_set(item)
        token = waiting.token
        if token is None:
            return True
        if token is _CLOSING:
            self._finish(None)
        elif isinstance(item, ReadFailed) or (
            # A transaction that was aborted is an answer: it tells of each operation.
            isinstance(item, Written) and item.code and item.results is None
        ):
            self.out.append(Fail(token, error_for(item.code, self._chroot.shown(waiting.path))))
        else:
            if waiting.watcher is not None:
                self._watchers.add(waiting.watcher, waiting.path, item)
            self.out.append(Complete(token, self._chroot.answer(item)))
        return True

    def _on_watches_set(self, item: Answer | ReadFailed) -> bool:
        """Whether it answers the oldest SetWatches, which go first on a connection."""
        xids = self._set_watches_xids
        if not isinstance(item, Done) or not xids or item.xid != xids[0]:
            return False
        xids.popleft()
        return True

    def _on_watch_fired(self, fired: WatchFired) -> None:
        watchers = self._watchers.take(fired.kind, fired.path)
        if watchers:
            path = self._chroot.shown(fired.path)
            event = WatchedEvent(fired.kind, self.state, path, fired.zxid)
            self.out.append(FireWatch(watchers, event))

    def _on_connected(self, answer: Connected, now: Millis) -> None:
        if self._phase is not Phase.JOINING:
            self._break("it connected twice", now)
        elif answer.code == Code.AUTH_FAILED and self.session_id and self._taken is None:
            # The password was right before: whoever has the session now has changed it.
            self._finish(SessionMovedError())
        elif answer.code in (Code.SESSION_EXPIRED, Code.AUTH_FAILED):
            self._finish(error_for(answer.code))
        elif answer.code != Code.OK:
            self._break(str(error_for(answer.code)), now)
        elif self.session_id not in (0, answer.session_id):
            self._break(f"it connected us to session {answer.session_id:#x}", now)
        else:
            self._serve(answer, now)

    def _serve(self, answer: Connected, now: Millis) -> None:
        self._phase = Phase.SERVING
        self._is_proven = False
        self._open_by = None
        self.session_id = answer.session_id
        self.ensemble = answer.ensemble
        if self._taken is not None:
            self._taken = None
            self._outstanding.go_on_after(answer.last_number)
        self.last_zxid = max(self.last_zxid, answer.zxid)
        self._liveness.connected(answer.timeout_ms, self._connect_sent_at, now)
        self._change_state(ClientState.CONNECTED)
        bytes_max = self._limits.set_watches_bytes_max
        for request in self._watchers.set_again(
            self._events_zxid, self._outstanding.xids, bytes_max
        ):
            self._set_watches_xids.append(request.xid)
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

    def _fail_timed_out(self, now: Millis) -> None:
        for waiting in self._outstanding.take_timed_out(now):
            definite = waiting.answer is not Written
            token, waiting.token = waiting.token, None
            detail = "" if self._phase is Phase.SERVING else self.explain()
            path = self._chroot.shown(waiting.path)
            error = OperationTimeoutError(path, detail, definite=definite)
            self.out.append(Fail(token, error))

    def _advance(self, now: Millis) -> None:
        """Do what the time demands of this phase."""
        phase, liveness = self._phase, self._liveness
        if phase is Phase.SERVING:
            if now >= liveness.silent_at():
                self._break("nothing was heard of it for too long", now)
            elif now >= liveness.heartbeat_at():
                self._send([], now)
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
        self._failures[self._server] = reason
        if self._phase is Phase.SERVING:
            self._outstanding.unsend()
            self._set_watches_xids.clear()
            self._change_state(ClientState.SUSPENDED)
        pause_ms = self._rotation.pause_ms()
        if pause_ms:
            self._phase = Phase.PAUSED
            self._phase_until = Millis(now + pause_ms)
        else:
            self._open_next(now)

    def _change_state(self, state: ClientState) -> None:
        self.state = state
        self.out.append(ChangeState(state))

    def _finish(self, cause: KeeperError | None) -> None:
        """The handle is LOST, because of `cause` or because it was closed.

        First of all its owner is told to let go; then every request and every watcher gets its end.
        """
        if self._phase in (Phase.OPENING, Phase.JOINING, Phase.SERVING):
            self.out.append(CloseLink("the session is over"))
        if self._close_by is not None and isinstance(cause, SessionExpiredError):
            cause = None  # that is what close wanted
        self._phase = Phase.FINISHED
        self._cause = cause
        self.state = ClientState.LOST
        self.out.append(ChangeState(ClientState.LOST, cause))
        for waiting in self._outstanding.take_all():
            if waiting.token is not None and waiting.token is not _CLOSING:
                definite = waiting.answer is not Written or not self._outstanding.ever_left(waiting)
                error = self._end_error(self._chroot.shown(waiting.path), definite)
                self.out.append(Fail(waiting.token, error))
        for path, watchers in self._watchers.take_all().items():
            shown = self._chroot.shown(path)
            event = WatchedEvent(EventType.NONE, ClientState.LOST, shown, ZERO)
            self.out.append(FireWatch(watchers, event))

    def _end_error(self, path: str, definite: bool = True) -> KeeperError:
        """Why a request has no answer and never will."""
        cause = self._cause
        if cause is None:
            return ConnectionLossError(path, "the handle is closed", definite=definite)
        return type(cause)(path, cause.detail, definite=definite)
