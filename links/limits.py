"""Bounds and spans of the links. Units come last in the names."""

from typing import Final

PORTION_BYTES: Final = 90 << 10
"""Ray carries a value below 100 KiB inside its message; a larger one takes the object store."""
PORTIONS_MAX: Final = 8
"""Portions of one call; each is an argument of its own. Beyond it the object store is quicker."""
BATCH_BYTES_MAX: Final = 8 << 20
"""Frames of one call through the object store."""
FRAMES_MAX: Final = 4096
"""Frames of one portion."""
FRAME_BYTES_MAX: Final = 256 << 20
QUEUE_BYTES_MAX: Final = 128 << 20
"""What may wait on a link to a client before the link breaks."""
PEER_QUEUE_BYTES_MAX: Final = 512 << 20
"""What may wait on a link between servers: a follower that catches up is sent its DIFF at once."""
CLIENT_FRAME_BYTES_MAX: Final = QUEUE_BYTES_MAX
"""Of a frame that a client may announce on a stream: a larger one cannot wait at its end."""

EARLY_BYTES_MAX: Final = PEER_QUEUE_BYTES_MAX
"""Of batches that have overtaken another one, until the link breaks."""
EARLY_BATCHES_MAX: Final = 1 << 16
"""Their number; each takes a call, and a call that is overtaken is answered within seconds."""

GRACE_MS: Final = 1500
"""How long an answer to a call may take beyond the time it is parked on purpose."""
PEER_KEEPALIVE_MS: Final = 300
CLIENT_KEEPALIVE_MS: Final = 3000
KEEPALIVE_MS_MIN: Final = 10
KEEPALIVE_MS_MAX: Final = 20_000
CLOSE_MS: Final = 1500
"""How long the frames sent before a close may take to leave."""
HELLO_BYTES_MAX: Final = 4096

READ_BYTES: Final = 64 << 10
"""Of one read from a stream; room of this size costs the allocator little."""
TLS_RECORD_BYTES: Final = 16 << 10
"""Of one read in TLS: with less, the rest of a record would wait unseen."""
READS_MAX: Final = 16
"""Of one stream before others have their turn."""
WRITE_BYTES: Final = 256 << 10
"""Frames are handed to a stream in groups of about this size."""
WRITES_MAX: Final = 16
"""Of such groups before others have their turn."""
CLOSE_REASON_BYTES_MAX: Final = 1024
"""The reason for which an end of a stream closes."""
IO_IDLE_S: Final = 0.002
"""How long the loop leaves a stream to threads that use it, after it was last used by one."""
STREAM_OPEN_MS: Final = 1000
"""How long a stream may take to open until Ray calls are taken instead."""
STREAM_PAUSE_MS: Final = 5000
"""How long after such a failure no stream to the same server is tried."""
STREAM_PAUSE_MS_MAX: Final = 60_000
"""The pause doubles with every failure up to this."""
HANDSHAKE_MS: Final = 1500
"""How long whoever connects may take to prove that it may."""
HANDSHAKES_MAX: Final = 256
"""Connections that have not proved it yet; one more is closed at once."""

assert PORTION_BYTES * PORTIONS_MAX < BATCH_BYTES_MAX < QUEUE_BYTES_MAX < PEER_QUEUE_BYTES_MAX
assert CLIENT_FRAME_BYTES_MAX <= FRAME_BYTES_MAX <= PEER_QUEUE_BYTES_MAX
assert KEEPALIVE_MS_MIN <= PEER_KEEPALIVE_MS <= CLIENT_KEEPALIVE_MS <= KEEPALIVE_MS_MAX
# A server must notice a dead one within 2.5 s, and `IdleTimer` expires up to a quarter late.
assert (PEER_KEEPALIVE_MS + GRACE_MS) * 5 // 4 <= 2500
