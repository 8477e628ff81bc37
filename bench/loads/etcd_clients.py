"""etcd over gRPC, with the few messages that a load needs encoded by hand.

No etcd client for Python is well maintained, and the messages are only fields of bytes. A session
stays with one server. `create` is a transaction that refuses an existing key, as ZooKeeper does;
`get` is a serializable range, from the connected server; `get_linearizable` is the default range.

Source: etcd's `rpc.proto`.
"""

import queue
import threading
from collections.abc import Callable, Iterator

import grpc

from raykeeper.bench.loads.clients import Done, call_done

_RANGE, _PUT = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put"
_TXN, _DELETE = "/etcdserverpb.KV/Txn", "/etcdserverpb.KV/DeleteRange"
_WATCH = "/etcdserverpb.Watch/Watch"
_IF_VERSION_IS_0 = bytes([4 << 3, 0])
_SERIALIZABLE = bytes([7 << 3, 1])


def field(number: int, value: bytes) -> bytes:
    """Encode a protobuf field of bytes."""
    length, size = len(value), bytearray()
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + value


def put(path: str, value: bytes) -> bytes:
    """Encode a PutRequest."""
    return field(1, path.encode()) + field(2, value)


def create(path: str, value: bytes) -> bytes:
    """Encode a TxnRequest that puts a value unless the key exists."""
    compare = field(3, path.encode()) + _IF_VERSION_IS_0
    return field(1, compare) + field(2, field(2, put(path, value)))


def key(path: str) -> bytes:
    """Encode a RangeRequest or DeleteRangeRequest."""
    return field(1, path.encode())


class _Etcd:
    def __init__(self, where: str, number: int) -> None:
        servers = where.split(",")
        self._channel = grpc.insecure_channel(servers[number % len(servers)])
        self._range = self._channel.unary_unary(_RANGE)
        self._put = self._channel.unary_unary(_PUT)
        self._txn = self._channel.unary_unary(_TXN)
        self._delete = self._channel.unary_unary(_DELETE)


class BlockingEtcd(_Etcd):
    """One call at a time."""

    def create(self, path: str, value: bytes) -> object:
        """See `BlockingClient`."""
        return self._txn(create(path, value))

    def set(self, path: str, value: bytes) -> object:
        """See `BlockingClient`."""
        return self._put(put(path, value))

    def get(self, path: str) -> object:
        """See `BlockingClient`."""
        return self._range(key(path) + _SERIALIZABLE)

    def get_linearizable(self, path: str) -> object:
        """See `BlockingClient`."""
        return self._range(key(path))

    def delete_nowait(self, path: str) -> object:
        """See `BlockingClient`."""
        return self._delete.future(key(path))

    def watch(self, path: str, told: Callable[[], object]) -> None:
        """See `BlockingClient`."""
        asked: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        asked.put(field(1, key(path)))

        def requests() -> Iterator[bytes]:
            while (request := asked.get()) is not None:
                yield request

        answers = self._channel.stream_stream(_WATCH)(requests())
        next(answers)  # the watch is set

        def wait() -> None:
            next(answers)
            told()
            asked.put(None)
            answers.cancel()

        threading.Thread(target=wait, daemon=True).start()

    def close(self) -> None:
        """See `BlockingClient`."""
        self._channel.close()


class PipelinedEtcd(_Etcd):
    """Requests as futures of gRPC; answers arrive on its threads."""

    def create(self, path: str, value: bytes, done: Done) -> None:
        """See `PipelinedClient`."""
        self._txn.future(create(path, value)).add_done_callback(call_done(done))

    def set(self, path: str, value: bytes, done: Done) -> None:
        """See `PipelinedClient`."""
        self._put.future(put(path, value)).add_done_callback(call_done(done))

    def get(self, path: str, done: Done) -> None:
        """See `PipelinedClient`."""
        answer = self._range.future(key(path) + _SERIALIZABLE)
        answer.add_done_callback(call_done(done))

    def delete(self, path: str, done: Done) -> None:
        """See `PipelinedClient`."""
        self._delete.future(key(path)).add_done_callback(call_done(done))

    async def close(self) -> None:
        """See `PipelinedClient`."""
        self._channel.close()
