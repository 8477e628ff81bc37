"""The clients of ZooKeeper's protocol: bytes in, and when they may be read on.

A connection reads no further while its window of requests is full and enough bytes wait, or while
it waits for its session: memory stays bounded, and no request is dropped. A client without a recent
heartbeat is sent nothing (`ClientSendQueues`), and its heartbeats are the bytes that it sends; so a
connection reads a little even then.

ZooKeeper: `NIOServerCnxn`, `ZooKeeperServer.shouldThrottle`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from raykeeper.jute.errors import JuteError
from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.connection import Connection, Phase
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import CloseClient, PauseReading, ResumeReading
from raykeeper.server.four_letter_words import FourLetterWords
from raykeeper.server.jute_translator import JuteTranslator, ToServer
from raykeeper.znodes.errors import Code

WORD_BYTES: Final = 4
"""A word is no length of a frame: as a number it is above any bound."""
READ_AHEAD_BYTES: Final = 64 << 10
"""Bytes that may wait before a connection is read no further."""


class JuteClients:
    """The translators of one server, by connection number."""

    def __init__(
        self,
        context: ServerContext,
        words: FourLetterWords,
        open_connection: Callable[[Connection], None],
        take_requests: Callable[[Connection, int, Sequence[ToServer]], None],
        close_connection: Callable[[Connection, Code], None],
    ) -> None:
        """The three callables are those of `ClientRequests`."""
        self.words = words
        self._context = context
        self._open_connection = open_connection
        self._take_requests = take_requests
        self._close_connection = close_connection
        self._by_number: dict[int, JuteTranslator] = {}
        # Translators that can go on without an event: requests that waited, or an end to be made.
        self._ready: dict[int, None] = {}

    @property
    def has_work(self) -> bool:
        """Whether a connection can go on right now."""
        return bool(self._ready)

    def on_connected(self, number: int, host: str, port: int, password: bytes) -> None:
        """Begin a connection; nothing has arrived on it."""
        self._by_number[number] = JuteTranslator(
            self._context, number, host, port, password, self._schedule
        )

    def on_bytes(self, number: int, data: bytes) -> None:
        """Take bytes as they arrived."""
        translator = self._by_number.get(number)
        if translator is not None:
            translator.feed(data)
            self._advance(translator, has_arrived=True)
            if number in self._by_number:
                translator.note_kept()

    def discard(self, number: int) -> None:
        """Forget a connection that is closed, if it is one of these."""
        self._by_number.pop(number, None)
        self._ready.pop(number, None)
        self._context.jute_buffers.discard(number)
        self.words.discard(number)

    def resume(self) -> None:
        """Go on with all connections that can."""
        ready, self._ready = self._ready, {}
        for number in ready:
            translator = self._by_number[number]
            connection = translator.connection
            if translator.is_over:
                assert connection is not None, "only a connection is sent something"
                self._close_connection(connection, Code.CONNECTION_LOSS)
            else:
                self._advance(translator, has_arrived=False)
                if number in self._by_number:
                    translator.note_kept()

    def close_largest(self) -> None:
        """Close the connections that keep the most, until the others keep what they may."""
        buffers = self._context.jute_buffers
        for number in buffers.largest():
            connection = self._by_number[number].connection
            most = f"the setting zookeeper_buffer_bytes is {buffers.bytes_max}"
            reason = f"what all clients make it keep: {most}"
            self._context.trace(trace_events.CLIENT_LIMITED, (number, reason))
            assert connection is not None, "a first frame is shorter than what is not counted"
            self._close_connection(connection, Code.CONNECTION_LOSS)

    def _advance(self, translator: JuteTranslator, *, has_arrived: bool) -> None:
        """Take what waits, as far as it can be taken; arrived bytes alone are a heartbeat."""
        connection = translator.connection or self._open(translator)
        if connection is None:
            return
        if connection.phase in (Phase.CONNECTED, Phase.READ_ONLY):
            requests = translator.take_requests(connection)
            if requests or has_arrived:
                self._take_requests(connection, translator.heartbeat_seq, requests)
        if connection.phase is Phase.CLOSED:
            return
        if translator.fault:
            self._context.trace(
                trace_events.CLIENT_MALFORMED, (translator.number, translator.fault)
            )
            self._close_connection(connection, Code.CONNECTION_LOSS)
        else:
            self._regulate(translator, connection, has_arrived=has_arrived)

    def _schedule(self, number: int) -> None:
        self._ready[number] = None

    def _open(self, translator: JuteTranslator) -> Connection | None:
        number = translator.number
        if self.words.take(number, translator.reader.peek(WORD_BYTES)):
            # Nothing else is read of it, however long its answer takes.
            del self._by_number[number]
            return None
        try:
            connect = translator.take_connect()
        except JuteError as error:
            self._context.trace(trace_events.CLIENT_MALFORMED, (number, str(error)))
            self._context.out.append(CloseClient(number))
            self.discard(number)
            return None
        if connect is None:
            return None
        connection = Connection(number, connect, translator.host)
        connection.translator = translator
        translator.connection = connection
        self._open_connection(connection)
        return connection

    def _regulate(
        self, translator: JuteTranslator, connection: Connection, *, has_arrived: bool
    ) -> None:
        """Pause reading when more has arrived than can be taken; resume it when it can be."""
        waits = connection.phase is Phase.CONNECTING or translator.is_full
        if not waits or len(translator.reader) <= READ_AHEAD_BYTES:
            self._set_paused(translator, False)
        elif has_arrived:
            self._set_paused(translator, True)
        elif not translator.has_recent_heartbeat() and connection.confirmed_heartbeat >= (
            connection.heartbeat_seq
        ):
            # No heartbeat is under way whose confirmation would let the replies leave.
            self._set_paused(translator, False)

    def _set_paused(self, translator: JuteTranslator, is_paused: bool) -> None:
        if translator.is_reading_paused is is_paused:
            return
        translator.is_reading_paused = is_paused
        effect = PauseReading if is_paused else ResumeReading
        self._context.out.append(effect(translator.number))
