"""A proxy between clients and a server that writes down every frame, in an order of causes.

A frame is written down before it goes on. So it stands behind all that its sender can have known.
A recording has one line for each frame: the connection, `>` to the server or `<` to the client, and
the payload in hexadecimal digits; `1 >` and nothing else when the client ends the connection.
"""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final

from raykeeper.jute.frames import FrameReader

TO_SERVER, TO_CLIENT = ">", "<"
_FRAME_BYTES_MAX: Final = 1 << 24
_CHUNK: Final = 1 << 16


class Recorder:
    """Listens at `address` while the context lasts; `lines` is the recording."""

    def __init__(self, server: str) -> None:
        """`server` is the address to which the connections go on."""
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.lines: list[str] = []
        self._lock = threading.Lock()
        self._count = 0
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self) -> "Recorder":
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        pumps: list[threading.Thread] = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            server = socket.create_connection(self._server)
            word = client.recv(4, socket.MSG_PEEK)
            is_recorded = not word.isalpha()  # a four-letter word has no frames
            self._count += is_recorded
            number = self._count if is_recorded else 0
            for way in ((TO_SERVER, client, server), (TO_CLIENT, server, client)):
                pumps.append(threading.Thread(target=self._pump, args=(number, *way)))
                pumps[-1].start()
        for pump in pumps:
            pump.join()

    def _pump(
        self, number: int, direction: str, source: socket.socket, sink: socket.socket
    ) -> None:
        reader = FrameReader(_FRAME_BYTES_MAX)
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if number:
                    reader.feed(data)
                while (payload := reader.next()) is not None:
                    self._write(f"{number} {direction} {payload.hex()}")
                sink.sendall(data)
        if number and direction == TO_SERVER:
            self._write(f"{number} {direction}")
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def _write(self, line: str) -> None:
        with self._lock:
            self.lines.append(line)
