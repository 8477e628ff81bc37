"""The handshake: Connect asks a server for the session, Connected answers.

The first connection, every later one and the second link of a read-only client all use it.

ZooKeeper: `ClientCnxn.SendThread.primeConnection` and `onConnected`.
"""

from raykeeper.client.core.public_types import ClientId
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import Code, KeeperError, SessionMovedError, error_for
from raykeeper.znodes.replies import ConnectReply
from raykeeper.znodes.requests import PASSWORD_BYTES, Connect, SessionId, encode_client_frame


class SessionHandshake:
    """The session's id and password, as the client shows them to servers."""

    def __init__(
        self,
        password: bytes,
        timeout_ms: Millis,
        takeover: ClientId | None,
        *,
        read_only: bool,
        identity: bytes = b"",
    ) -> None:
        """Ask for `timeout_ms`; for the others see `ClientCore`."""
        assert len(password) == PASSWORD_BYTES, len(password)
        self.session_id = SessionId(0) if takeover is None else takeover.session_id
        self.ensemble = self.own_uuid = ""
        self.takes_read_only = read_only
        self._password = password
        self._takeover = takeover  # None again once it is ours
        self._timeout_ms = timeout_ms
        self._attempt = 0
        self._identity = identity

    @property
    def client_id(self) -> ClientId:
        """The id and password with which another handle takes the session over."""
        return ClientId(self.session_id, self._password)

    def owns_session(self) -> bool:
        """Return whether this client has opened a session, or has taken one over."""
        return bool(self.session_id) and self._takeover is None

    def encode_connect(self, last_zxid: Zxid, *, read_only: bool) -> bytes:
        """Return the first frame of a connection."""
        self._attempt += 1
        password, new = self._password, b""
        if self._takeover is not None:
            password, new = self._takeover.password, password
        session_id, wished, attempt = self.session_id, self._timeout_ms, self._attempt
        return encode_client_frame(
            Connect(
                session_id, password, wished, last_zxid, attempt, new, read_only, self._identity
            )
        )

    def session_error(self, answer: ConnectReply) -> KeeperError | None:
        """Return why the session is over, None unless the server says so."""
        if answer.code == Code.AUTH_FAILED and self.owns_session():
            # The password was right before, so another client has taken the session over.
            return SessionMovedError()
        is_over = answer.code in (Code.SESSION_EXPIRED, Code.AUTH_FAILED)
        return error_for(answer.code) if is_over else None

    def refusal_reason(self, answer: ConnectReply, *, read_only: bool) -> str:
        """Return why this server cannot serve the client now, "" if it can.

        `read_only`: a server without a leader is acceptable.
        """
        if answer.code != Code.OK:
            return answer.detail or str(error_for(answer.code))
        if answer.read_only:
            return "" if read_only else "it has no leader"
        if self.session_id not in (0, answer.session_id):
            return f"it connected us to session {answer.session_id:#x}"
        return ""

    def on_connected(self, answer: ConnectReply) -> bool:
        """Record that the session is open; return whether it has just been taken over."""
        self.session_id = answer.session_id
        was_taken = self._takeover is not None
        self._takeover = None
        return was_taken
