"""Each sentence of DESIGN section 7, "Exactly once", broken."""

from typing import Any

from msgspec.structs import replace

from raykeeper.client.core import client_core
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import Fail
from raykeeper.client.core.outstanding import OutstandingRequests, Query
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.peer_messages import WriteGap
from raykeeper.znodes import prep_request_processor, sessions
from raykeeper.znodes.errors import Code, ConnectionLossError, KeeperError
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.requests import Delete, GetData, SessionId, Write, decode_op
from raykeeper.znodes.sessions import SessionTable
from raykeeper.znodes.txns import ErrorTxn, Txn
from tests.simulation.mutations.mutation import Mutation, instead


def _prepare_whatever_comes(right: Any) -> Any:
    def writes(self: LeaderRequestProcessor, sender: Any, writes: Any) -> Any:
        for forwarded in writes:
            session = self.prep._session(forwarded.session_id)
            if session is not None:
                session.last_number = forwarded.write.number - 1
        return right(self, sender, writes)

    return writes


def _skip_a_lower_number_only(right: Any) -> Any:
    def writes(self: LeaderRequestProcessor, sender: Any, writes: Any) -> Any:
        for forwarded in writes:
            session = self.prep._session(forwarded.session_id)
            if session is not None and forwarded.write.number > session.last_number + 1:
                session.last_number = forwarded.write.number - 1
        return right(self, sender, writes)

    return writes


def _without_owner(right: Any) -> Any:
    def writes(self: LeaderRequestProcessor, sender: Any, writes: Any) -> Any:
        present = []
        for forwarded in writes:
            owner = self.prep.owner_zxid_of(forwarded.session_id)
            present.append(forwarded if owner is None else replace(forwarded, owner_zxid=owner))
        return right(self, sender, present)

    return writes


def _a_repeat_is_not_answered(right: Any) -> Any:
    def repeat(self: ClientRequests, connection: Any, write: Any) -> bool:
        session = self._context.state.sessions.get(connection.session_id)
        return session is not None and write.number <= session.last_number

    return repeat


def _reads_take_numbers(right: Any) -> Any:
    def add(self: OutstandingRequests, ask: Any, token: Any, now: Any) -> None:
        if type(ask) is Query:
            self._number += 1
        right(self, ask, token, now)

    return add


def _forget_as_the_server_likes(right: Any) -> Any:
    def requests(self: ClientRequests, connection: Any, heartbeat_seq: int, requests: Any) -> None:
        session = self._context.state.sessions.get(connection.session_id)
        for request in requests:
            if session is not None and type(request) is Write and request.acked > session.acked:
                session.acked = request.acked
        right(self, connection, heartbeat_seq, requests)

    return requests


def _a_session_stays_in_the_table(right: Any) -> Any:
    def close(self: SessionTable, session_id: Any) -> None:
        pass

    return close


def _remember_only_the_number(right: Any) -> Any:
    def record(self: SessionTable, session: Any, number: int, acked: int, outcome: Any) -> None:
        right(self, session, number, number, outcome)
        session.reply_cache.clear()

    return record


def _forget_one_too_many(right: Any) -> Any:
    def record(self: SessionTable, session: Any, number: int, acked: int, outcome: Any) -> None:
        right(self, session, number, min(acked + 1, number - 1), outcome)

    return record


def _outcome_of_the_next_attempt(right: Any) -> Any:
    def repeat(self: ClientRequests, connection: Any, write: Any) -> bool:
        session = self._context.state.sessions.get(connection.session_id)
        if session is None or write.number > session.last_number:
            return False
        newest = session.reply_cache.get(session.last_number)
        if newest is None or write.number not in session.reply_cache:
            return bool(right(self, connection, write))
        answer = WriteReply(write.number, newest.zxid, newest.code, newest.path, newest.stat)
        self._push(connection, answer)
        return True

    return repeat


def _refuse_without_a_number(right: Any) -> Any:
    def encode(txn: Txn) -> bytes:
        if type(txn.body) is ErrorTxn:
            txn = Txn(SessionId(0), 0, 0, txn.time_ms, txn.body)
        return right(txn)  # type: ignore[no-any-return]

    return encode


def _break_at_a_bad_request(right: Any) -> Any:
    def writes(self: LeaderRequestProcessor, sender: Any, writes: Any) -> Any:
        for forwarded in writes:
            op = decode_op(forwarded.write.op)
            if type(op) is Delete and op.path == "/":
                return [WriteGap(forwarded.session_id, forwarded.owner_zxid)]
        return right(self, sender, writes)

    return writes


def _closing_sessions_write(right: Any) -> Any:
    def session(self: PrepRequestProcessor, session_id: Any) -> Any:
        found = right(self, session_id)
        return self._sessions.get(session_id) if found is None else found

    return session


def _forget_what_was_sent(right: Any) -> Any:
    def requeue(self: OutstandingRequests) -> None:
        right(self)
        # Requests that were on the wire come after those that waited.
        self._queued.rotate(1)

    return requeue


def _new_numbers_when_sent_again(right: Any) -> Any:
    def requeue(self: OutstandingRequests) -> None:
        right(self)
        for waiting in self._queued:
            if waiting.reply_type is WriteReply:
                self._number += 1
                waiting.number_or_xid = self._number

    return requeue


def _nothing_is_sent_again(right: Any) -> Any:
    def requeue(self: OutstandingRequests) -> None:
        self._sent.clear()
        right(self)

    return requeue


def _fail_on_connection_loss(right: Any) -> Any:
    def leave(self: ClientCore, reason: str, now: Any) -> None:
        for waiting in self._outstanding._sent:
            if not isinstance(waiting.request, GetData):
                break
            if waiting.token is not None:
                self.out.append(Fail(waiting.token, ConnectionLossError(waiting.path)))
                waiting.token = None
        right(self, reason, now)

    return leave


def _a_repeated_close_has_expired(right: Any) -> Any:
    def finish(self: ClientCore, cause: Any) -> None:
        self._close_by = None
        right(self, cause)

    return finish


def _a_session_for_each_connect(right: Any) -> Any:
    return lambda self, password: 0


def _definite_when_expired(right: Any) -> Any:
    def end_error(cause: KeeperError | None, path: str, *, definite: bool = True) -> KeeperError:
        return right(cause, path)  # type: ignore[no-any-return]

    return end_error


def _answer_before_it_is_applied(right: Any) -> Any:
    def requests(self: ClientRequests, connection: Any, heartbeat_seq: int, requests: Any) -> None:
        session = self._context.state.sessions.get(connection.session_id)
        for request in requests:
            number = getattr(request, "number", 0)
            if session is not None and number and number <= connection.last_forwarded:
                self._push(
                    connection, WriteReply(number, self._context.state.zxid, Code.OK, "", None)
                )
        right(self, connection, heartbeat_seq, requests)

    return requests


def _not_forwarded_to_the_next_leader(right: Any) -> Any:
    def forward_again(self: ClientRequests, connection: Any) -> None:
        for request, _ in connection.requests:
            if hasattr(request, "read_index") and request.read_index is None:
                self._leader_outbox.add_sync(request)

    return forward_again


MUTATIONS = [
    Mutation(
        "exactly once",
        "reads take numbers",
        [(OutstandingRequests, "add", _reads_take_numbers)],
    ),
    Mutation(
        "exactly once",
        "a lower number is not answered",
        [(ClientRequests, "_reply_to_repeated_write", _a_repeat_is_not_answered)],
    ),
    Mutation(
        "exactly once",
        "a server forgets outcomes by received acks and not by transactions",
        [(ClientRequests, "take_requests", _forget_as_the_server_likes)],
    ),
    Mutation(
        "exactly once",
        "the table holds fewer outcomes than a client may have outstanding",
        [(sessions, "REPLY_CACHE_MAX", instead(3))],
    ),
    Mutation(
        "exactly once",
        "an ended session stays in the table",
        [(SessionTable, "close", _a_session_stays_in_the_table)],
    ),
    Mutation(
        "exactly once",
        "a request that the client library would refuse breaks the link",
        [(LeaderRequestProcessor, "prepare_writes", _break_at_a_bad_request)],
    ),
    Mutation(
        "exactly once",
        "a closing session goes on writing",
        [(PrepRequestProcessor, "session", _closing_sessions_write)],
        500,
    ),
    Mutation(
        "exactly once",
        "unanswered requests are not sent again",
        [(OutstandingRequests, "requeue", _nothing_is_sent_again)],
    ),
    Mutation(
        "exactly once",
        "a repeated close is reported as an expiry",
        [(ClientCore, "_finish", _a_repeated_close_has_expired)],
    ),
    Mutation(
        "exactly once",
        "the leader prepares a lower number again",
        [(LeaderRequestProcessor, "prepare_writes", _prepare_whatever_comes)],
    ),
    Mutation(
        "exactly once",
        "the leader prepares a number that skips one",
        [(LeaderRequestProcessor, "prepare_writes", _skip_a_lower_number_only)],
        200,
    ),
    Mutation(
        "exactly once",
        "a write under an earlier owner number is prepared",
        [(LeaderRequestProcessor, "prepare_writes", _without_owner)],
        300,
    ),
    Mutation(
        "exactly once",
        "the table keeps the number and not the outcome",
        [(SessionTable, "record", _remember_only_the_number)],
        100,
    ),
    Mutation(
        "exactly once",
        "an outcome is forgotten before the client has it",
        [(SessionTable, "record", _forget_one_too_many)],
        100,
    ),
    Mutation(
        "exactly once",
        "a repeat is answered with another write's outcome",
        [(ClientRequests, "_reply_to_repeated_write", _outcome_of_the_next_attempt)],
    ),
    Mutation(
        "exactly once",
        "a refusal does not use up the number",
        [(prep_request_processor, "encode_txn", _refuse_without_a_number)],
    ),
    Mutation(
        "exactly once",
        "unanswered requests are sent again in another order",
        [(OutstandingRequests, "requeue", _forget_what_was_sent)],
    ),
    Mutation(
        "exactly once",
        "requests sent again get new numbers",
        [(OutstandingRequests, "requeue", _new_numbers_when_sent_again)],
    ),
    Mutation(
        "exactly once",
        "a lost connection fails the call",
        [(ClientCore, "_reconnect", _fail_on_connection_loss)],
    ),
    Mutation(
        "exactly once",
        "a repeated createSession makes another session",
        [(PrepRequestProcessor, "_with_password", _a_session_for_each_connect)],
        200,
    ),
    Mutation(
        "exactly once",
        "writes that fail with an expired session claim to be definite",
        [(client_core, "end_error", _definite_when_expired)],
        100,
    ),
    Mutation(
        "exactly once",
        "a repeat is answered before its outcome is applied",
        [(ClientRequests, "take_requests", _answer_before_it_is_applied)],
        500,
    ),
    Mutation(
        "exactly once",
        "outstanding writes are not forwarded to the next leader",
        [(ClientRequests, "_forward_again", _not_forwarded_to_the_next_leader)],
    ),
]
