"""Bounds and times of the links. The names end with the units."""

from typing import Final

PORTION_BYTES: Final = 90 << 10
"""Ray carries a value below 100 KiB inside its message; a larger one takes the object store."""
PORTIONS_MAX: Final = 8
"""Portions of one call, each an argument of its own. The object store is quicker beyond that."""
BATCH_BYTES_MAX: Final = 8 << 20
"""Size of one call through the object store."""
FRAMES_MAX: Final = 4096
"""Frames of one portion."""
FRAME_BYTES_MAX: Final = 256 << 20
QUEUE_BYTES_MAX: Final = 128 << 20
"""Bytes that may wait on a link to a client before the link breaks."""
PEER_QUEUE_BYTES_MAX: Final = 512 << 20
"""Bytes that may wait on a link between servers; a follower receives its whole DIFF at once."""
CLIENT_FRAME_BYTES_MAX: Final = QUEUE_BYTES_MAX
"""The largest frame that a client may announce; a larger one could not wait at its end."""

EARLY_BYTES_MAX: Final = PEER_QUEUE_BYTES_MAX
"""Bytes of batches that may overtake another one before the link breaks."""
EARLY_BATCHES_MAX: Final = 1 << 16
"""Their number; each takes a call, and a call that is overtaken is answered within seconds."""

GRACE_MS: Final = 1500
"""How long an answer may take beyond the time of its long poll, and a keepalive may be late."""
PEER_KEEPALIVE_MS: Final = 300
CLIENT_KEEPALIVE_MS_MAX: Final = 10_000
"""For a session with a shorter timeout it is the timeout, so that its heartbeats are enough."""
KEEPALIVE_MS_MIN: Final = 10
KEEPALIVE_MS_MAX: Final = 20_000
CLOSE_MS: Final = 1500
"""How long the frames sent before a close may take to leave."""
HELLO_BYTES_MAX: Final = 4096

READ_BYTES: Final = 64 << 10
"""Size of one read from a stream; a buffer of this size costs the allocator little."""
TLS_RECORD_BYTES: Final = 16 << 10
"""Size of one read in TLS; with less, the rest of a record would wait unseen."""
READS_MAX: Final = 16
"""Reads of one stream before others have their turn."""
WRITE_BYTES: Final = 256 << 10
"""Size of the groups in which frames are written to a stream, about."""
WRITES_MAX: Final = 16
"""Groups that one stream writes before others have their turn."""
CLOSE_REASON_BYTES_MAX: Final = 1024
"""Size of the reason in a close frame."""
IO_IDLE_S: Final = 0.002
"""How long the loop does not read from a stream after a thread last used it."""
STREAM_OPEN_MS: Final = 1000
"""How long a connection to a server, or a stream between servers, may take to open until Ray calls
are taken instead."""
STREAM_TURN_MS: Final = 3000
"""How long a client tries to open a stream to a server that it has reached, its waits included."""
STREAM_DIALS_MAX: Final = 64
"""Streams to one server that the clients of one process open at a time; others wait for theirs."""
STREAM_SILENCES_MAX: Final = 3
"""A server that let so many connections in a row wait for `STREAM_OPEN_MS` or longer, and said
nothing, is perhaps not what answers there: Ray calls are taken."""
BUSY_PAUSE_MS_MIN: Final = 200
"""The first wait of a client that was told to come again is up to this; it doubles each time."""
BUSY_PAUSE_MS_MAX: Final = 1600
STREAM_PAUSE_MS: Final = 5000
"""How long after such a failure no stream to the same server is tried."""
STREAM_PAUSE_MS_MAX: Final = 60_000
"""The pause doubles with every failure up to this."""
ADDRESS_MS_MIN: Final = 500
"""How long a server may take to tell its address, however long a dial has taken before."""
DIRECTORY_FIRST_MS: Final = 1000
"""How long after its first link a process knows the addresses of all servers, at the latest."""
DIRECTORY_RETRY_MS: Final = 1000
"""The pause after a server that was asked in the background did not answer; it doubles."""
LISTING_PAUSE_MS_MAX: Final = 30_000
"""A process whose clients find no server asks Ray which ones run, at once, then after
`DIRECTORY_RETRY_MS`, and with pauses that double up to this. Ray lists all named actors."""
DIRECTORY_REFRESH_MS: Final = 300_000
"""How often a server that answers is asked again. Each question costs the server 0.5 ms."""
HANDSHAKE_MS: Final = 1500
"""How long a dialer may take to say its first message, and from its turn on to prove its key."""
HANDSHAKES_MAX: Final = 256
"""Handshakes under way at one listener; other connections wait for their turn."""
HANDSHAKES_WAITING_MAX: Final = 1024
"""Connections that wait, each with an open file; one more is told to come again."""
ACCEPT_BACKLOG: Final = 4096
"""Connections that wait in the operating system to be accepted; Linux allows as many by default
(net.core.somaxconn). With more it answers nobody for a second."""
BUSY_REPORT_S: Final = 10.0
"""How often a listener tells at most how many dialers it has told to come again."""

assert PORTION_BYTES * PORTIONS_MAX < BATCH_BYTES_MAX < QUEUE_BYTES_MAX < PEER_QUEUE_BYTES_MAX
assert CLIENT_FRAME_BYTES_MAX <= FRAME_BYTES_MAX <= PEER_QUEUE_BYTES_MAX
assert KEEPALIVE_MS_MIN <= PEER_KEEPALIVE_MS <= CLIENT_KEEPALIVE_MS_MAX <= KEEPALIVE_MS_MAX
assert ADDRESS_MS_MIN <= STREAM_OPEN_MS < GRACE_MS
assert DIRECTORY_RETRY_MS <= LISTING_PAUSE_MS_MAX <= DIRECTORY_REFRESH_MS
# A server must notice a dead one within 2.5 s, and `IdleTimer` expires up to a quarter late.
assert (PEER_KEEPALIVE_MS + GRACE_MS) * 5 // 4 <= 2500
