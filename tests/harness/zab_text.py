"""What servers do in Zab, each act as a line: `S3 -> S1 NEWLEADER 2 upto 1:3`, `S1 appends 1:4`.

Messages bear ZooKeeper's packet names, which are our class names in capitals.
"""

from collections.abc import Callable, Iterable
from typing import Any

from raykeeper.zab import effects, messages
from raykeeper.zab.effects import Effect
from raykeeper.zab.ids import ServerId, Zxid, format_zxid
from raykeeper.zab.messages import Vote, ZabMessage


def name_of(server_id: ServerId | None) -> str:
    return f"S{server_id}"


def format_span(first: Zxid, count: int) -> str:
    """Return `1:4..1:6` for three transactions that begin at 1:4, `1:4` for one."""
    last = Zxid(first + count - 1)
    return format_zxid(first) if count == 1 else f"{format_zxid(first)}..{format_zxid(last)}"


def format_zxids(zxids: Iterable[Zxid]) -> str:
    """Return `1:1..1:3 2:1` for four zxids, `nothing` for none."""
    spans: list[tuple[Zxid, int]] = []
    for zxid in zxids:
        if spans and zxid == sum(spans[-1]):
            spans[-1] = spans[-1][0], spans[-1][1] + 1
        else:
            spans.append((zxid, 1))
    return " ".join(format_span(*span) for span in spans) or "nothing"


def format_vote(vote: Vote) -> str:
    return f"{name_of(vote.leader)} with {format_zxid(vote.zxid)} of epoch {vote.epoch}"


def format_message(message: ZabMessage) -> str:
    name = type(message).__name__.upper()
    details = MESSAGES.get(type(message), lambda _: "")(message)
    return f"{name} {details}".rstrip()


def format_effect(server_id: ServerId, effect: Effect) -> str | None:
    """Return what a server does as a line; None if it is not an act of the protocol."""
    me = name_of(server_id)
    if isinstance(effect, effects.Send):
        return f"{me} -> {name_of(effect.peer)} {format_message(effect.message)}"
    act = EFFECTS.get(type(effect))
    return f"{me} {act(effect)}" if act is not None else None


MESSAGES: dict[type, Callable[[Any], str]] = {
    messages.Notification: lambda m: (
        f"{m.state.name} in round {m.round}, votes {format_vote(m.vote)}"
    ),
    messages.FollowerInfo: lambda m: f"promised {m.accepted_epoch}",
    messages.LeaderInfo: lambda m: f"{m.epoch}",
    messages.AckEpoch: lambda m: (
        f"log {format_zxid(m.last_zxid)} of epoch {m.current_epoch}"
        f"{'' if m.promised else ', promised before'}{', uncertain' if m.is_uncertain else ''}"
    ),
    messages.Trunc: lambda m: format_zxid(m.upto),
    messages.Snapshot: lambda m: format_zxid(m.zxid),
    messages.SnapshotEnd: lambda m: format_zxid(m.consistent_at),
    messages.NewLeader: lambda m: f"{m.epoch} upto {format_zxid(m.last)}",
    messages.AckNewLeader: lambda m: f"{m.epoch}",
    messages.UpToDate: lambda m: format_zxid(m.commit),
    messages.Proposals: lambda m: format_span(m.first, len(m.txns)),
    messages.Ack: lambda m: format_zxid(m.upto),
    messages.Commit: lambda m: format_zxid(m.upto),
    messages.Ping: lambda m: f"{m.number}",
    messages.Pong: lambda m: f"{m.number}",
}

EFFECTS: dict[type, Callable[[Any], str]] = {
    effects.BreakLink: lambda e: f"breaks the link to {name_of(e.peer)}: {e.reason}",
    effects.Append: lambda e: f"appends {format_span(e.first, len(e.txns))}",
    effects.Truncate: lambda e: f"cuts its log after {format_zxid(e.upto)}",
    effects.SaveEpochs: lambda e: f"saves epochs {e.accepted}/{e.current}",
    effects.ReadLog: lambda e: (
        f"reads its log after {format_zxid(e.after)} upto {format_zxid(e.upto)} "
        f"for {name_of(e.learner)}"
    ),
    effects.DiscardSnapshot: lambda _: "discards the snapshot",
    effects.InstallSnapshot: lambda e: f"installs the snapshot of {format_zxid(e.zxid)}",
    effects.Deliver: lambda e: f"delivers {format_span(e.first, len(e.txns))}",
    effects.RoleChanged: lambda e: (
        f"is {e.role.value}"
        f"{f' of {name_of(e.leader)}' if e.role is not effects.Role.LOOKING else ''}"
    ),
    effects.Activated: lambda e: f"is active as {e.role.value} in epoch {e.epoch}",
    effects.HandOverBegun: lambda e: f"hands over to {name_of(e.nominee)}",
    effects.TransferAbandoned: lambda e: f"goes on to lead: {e.reason}",
    effects.ReadIndex: lambda e: f"may read at {format_zxid(e.zxid)}",
}
