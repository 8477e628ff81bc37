"""Identifiers as messages hold them: decoding checks the range of each."""

from typing import Annotated, Final

from msgspec import Meta

from raykeeper.zab.ids import EPOCH_MAX, SERVER_ID_MAX, ZXID_MAX, DiskId, Epoch, ServerId, Zxid

ROUND_MAX: Final = (1 << 63) - 1
"""The last round of an election: a peer cannot drive the number beyond what a frame holds."""

DISK_ID_CHARS_MAX: Final = 64

WireEpoch = Annotated[Epoch, Meta(ge=0, le=EPOCH_MAX)]
WireZxid = Annotated[Zxid, Meta(ge=0, le=ZXID_MAX)]
WireServerId = Annotated[ServerId, Meta(ge=0, le=SERVER_ID_MAX)]
WireRound = Annotated[int, Meta(ge=0, le=ROUND_MAX)]
WireDisk = Annotated[DiskId, Meta(max_length=DISK_ID_CHARS_MAX)]
