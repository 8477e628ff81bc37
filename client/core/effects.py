"""The effects that the client core asks its driver for: a closed union, performed in list order."""

from msgspec import Struct

from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.replies import (
    AuxReply,
    EmptyReply,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    WriteReply,
)

SuccessReply = WriteReply | GetDataReply | ExistsReply | GetChildrenReply | EmptyReply | AuxReply


class Complete(Struct, frozen=True, gc=False):
    """The request of `token` succeeded."""

    token: object
    reply: SuccessReply


class Fail(Struct, frozen=True, gc=False):
    """The request of `token` failed."""

    token: object
    error: KeeperError


class TimedOut(Struct, frozen=True):
    """The request of `token` got no reply in time. Complete or Fail follows in the end.

    Only for tokens that have a method `late`; other tokens get Fail, and never the outcome.
    """

    token: object
    error: KeeperError


class CallWatchers(Struct, frozen=True):
    """Call each of these watchers once."""

    watchers: list[object]
    event: WatchedEvent


class SendFrame(Struct, frozen=True, gc=False):
    """Send on the open link."""

    data: bytes


class OpenLink(Struct, frozen=True):
    """Open the link to `server`; there is none now. Completion: link_opened or link_failed."""

    server: ServerId


class CloseLink(Struct, frozen=True):
    """Close the link, or stop opening it; it delivers no further input."""

    reason: str


class OpenSearchLink(Struct, frozen=True):
    """Open a second link, to `server`. Completion: search_opened or search_failed."""

    server: ServerId


class SendSearchFrame(Struct, frozen=True):
    """Send on the second link."""

    data: bytes


class CloseSearchLink(Struct, frozen=True):
    """Close the second link, or stop opening it; it delivers no further input."""

    reason: str


class PromoteSearchLink(Struct, frozen=True):
    """Close the link; the second one takes its place."""


class KeepServers(Struct, frozen=True):
    """These are the members from now on: keep known where they are, and forget all others."""

    servers: tuple[ServerId, ...]


class ListServers(Struct, frozen=True):
    """Find out which servers there are: all that were known have failed. Not asked again before its
    completion: servers_listed."""


class ChangeState(Struct, frozen=True):
    """The state of the handle changed. `cause` says why it is LOST, None if it was closed."""

    state: ClientState
    cause: KeeperError | None = None


SearchEffect = OpenSearchLink | SendSearchFrame | CloseSearchLink | PromoteSearchLink
Effect = (
    Complete
    | Fail
    | TimedOut
    | CallWatchers
    | SendFrame
    | OpenLink
    | CloseLink
    | ChangeState
    | KeepServers
    | ListServers
    | SearchEffect
)
