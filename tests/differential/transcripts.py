"""Runs as lines that are compared: values that may differ between two runs are masked.

| what | becomes |
|---|---|
| zxids in Stats and of writes | their rank among all of the run |
| session ids, ephemeral owners | `s0`, `s1`, … in the order of the sessions |
| passwords, times, zxids of reads and events | nothing |
| the root of the paths | nothing |
| the place of the answer to a ping | the end of the step |
| the order of children, of ephemerals, of identities | sorted |
| the order of events of an ended session, or of watches that are set again | sorted, each once |

ZooKeeper leaves the orders open, and reports what a deletion did to a data watch and a child watch
of one path twice when they are set again; a client tells its user once.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple, fields

from raykeeper.jute.fields import Record
from raykeeper.jute.multi import MultiResponse
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    ConnectResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetEphemeralsResponse,
    WatcherEvent,
    WhoAmIResponse,
)
from raykeeper.jute.schema import REPLIES
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.stat import Stat
from tests.differential.conversations import Told, Transcript
from tests.differential.programs import Ask, Program, Return

_SORTED: Final = (GetChildrenResponse, GetChildren2Response, GetEphemeralsResponse)
_WRITES: Final = (
    *(OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.DELETE),
    *(OpCode.SET_DATA, OpCode.SET_ACL, OpCode.MULTI, OpCode.CLOSE_SESSION),
)


class Line(NamedTuple):
    """One thing that a session was told in a step; equal runs have equal texts."""

    step: int
    session: int
    told: Told
    text: str


def lines_of(program: Program, transcript: Transcript) -> list[Line]:
    """Return a line for everything that was told in a program."""
    return _ordered(program, masked(transcript))


def masked(transcript: Transcript) -> list[Line]:
    """Return a line for everything that was told, by step and session, in order."""
    ranks = _ranks(transcript.told)
    owners = {each: f"s{number}" for number, each in enumerate(transcript.session_ids)}
    lines: list[Line] = []
    for told in transcript.told:
        text = _text(told, _Names(ranks, owners))
        if transcript.root:
            text = text.replace(transcript.root, "")
        lines.append(Line(told.step, told.session, told, text))
    lines.sort(key=lambda line: (line.step, line.session, line.told.opcode == OpCode.PING))
    return lines


class _Names(NamedTuple):
    ranks: Mapping[int, int]
    owners: Mapping[int, str]


def _ranks(told: list[Told]) -> dict[int, int]:
    zxids: set[int] = set()
    for each in told:
        if _names_its_write(each):
            zxids.add(each.zxid)
        for stat in _stats(each.body):
            zxids |= {stat.czxid, stat.mzxid, stat.pzxid}
    return {zxid: rank for rank, zxid in enumerate(sorted(zxids))}


def _names_its_write(told: Told) -> bool:
    """Return whether the zxid of a reply is that of the session's own change."""
    if told.opcode not in _WRITES or told.err:
        return False
    if isinstance(told.body, MultiResponse):
        return any(result.type > 0 for result in told.body.results)
    return True


def _stats(value: Any) -> list[Stat]:
    if isinstance(value, Stat):
        return [value]
    if isinstance(value, list):
        return [stat for each in value for stat in _stats(each)]
    if isinstance(value, Struct):
        return [stat for each in astuple(value) for stat in _stats(each)]
    return []


def _text(told: Told, names: _Names) -> str:
    request = "" if told.opcode == 0 else f"{_opcode_name(told.opcode)}{_plain(told.request)} -> "
    if told.fault:
        return f"{request}{told.fault}"
    if told.err:
        return f"{request}{told.err}"
    if isinstance(told.body, WatcherEvent):
        event = told.body
        return f"event {EventType(event.type).name} {event.path} state {event.state}"
    if isinstance(told.body, ConnectResponse):
        response = told.body
        return (
            f"connect -> {names.owners.get(response.session_id, response.session_id)}"
            f" version {response.protocol_version} timeout {response.timeout}"
            f" password of {len(response.password or b'')} read-only {response.read_only}"
        )
    zxid = f" at z{names.ranks[told.zxid]}" if _names_its_write(told) else ""
    return f"{request}ok{_shown(told.body, names)}{zxid}"


def _opcode_name(opcode: int) -> str:
    return OpCode(opcode).name if opcode in REPLIES else f"opcode {opcode}"


def _plain(record: Record | None) -> str:
    if record is None:
        return ""
    names = [field.name for field in fields(record) if field.name != "relative_zxid"]
    values = [getattr(record, name) for name in names]
    return f"({', '.join(map(_shown_value, values))})"


def _shown_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown_value, value))}]"
    if isinstance(value, bytes) and len(value) > 20:
        return f"{len(value)} bytes"
    if isinstance(value, Struct):
        name = _opcode_name(value.type) + " " if hasattr(value, "type") else ""
        inner = getattr(value, "body", value)
        return f"{name}({', '.join(_shown_value(getattr(inner, f.name)) for f in fields(inner))})"
    return repr(value)


def _shown(value: Any, names: _Names) -> str:
    """Return a part of a reply, with a space before it."""
    if isinstance(value, Stat):
        ranks = names.ranks
        owner = names.owners.get(value.ephemeral_owner, value.ephemeral_owner)
        return (
            f" Stat(czxid z{ranks[value.czxid]} mzxid z{ranks[value.mzxid]}"
            f" pzxid z{ranks[value.pzxid]} version {value.version} cversion {value.cversion}"
            f" aversion {value.aversion} owner {owner} length {value.data_length}"
            f" children {value.num_children})"
        )
    if isinstance(value, _SORTED):
        names_in = value.ephemerals if isinstance(value, GetEphemeralsResponse) else value.children
        stat = _shown(value.stat, names) if isinstance(value, GetChildren2Response) else ""
        return f" {None if names_in is None else sorted(names_in)}{stat}"
    if isinstance(value, WhoAmIResponse):
        return f" {sorted(f'{x.auth_scheme}:{x.user}' for x in value.client_info or ())}"
    if isinstance(value, list):
        return f" [{','.join(_shown(each, names) for each in value)} ]"
    if isinstance(value, Struct):
        return "".join(_shown(each, names) for each in astuple(value))
    return "" if value is None else f" {_shown_value(value)}"


def _ordered(program: Program, lines: list[Line]) -> list[Line]:
    """Sort each run of events in the steps whose events have no order."""
    ordered: list[Line] = []
    for (step, _), group in groupby(lines, key=lambda line: (line.step, line.session)):
        told = list(group)
        if not _has_order(program, step):
            told = [
                line
                for is_event, run in groupby(told, key=lambda line: line.text.startswith("event"))
                for line in (_each_once(list(run)) if is_event else run)
            ]
        ordered += told
    return ordered


def _each_once(events: list[Line]) -> list[Line]:
    by_text = {line.text: line for line in events}
    return [by_text[text] for text in sorted(by_text)]


def _has_order(program: Program, step: int) -> bool:
    if not 0 <= step < len(program.steps):
        return True
    taken = program.steps[step]
    if isinstance(taken, Return):
        return False
    return not isinstance(taken, Ask) or all(
        opcode != OpCode.CLOSE_SESSION for opcode, _ in taken.requests
    )
