"""The effects of a step in the order in which the shell performs them.

Each link and the disk get theirs in the order of the step; among each other they have none. So the
messages to other servers leave first, before frames to perhaps thousands of clients: a write of any
client waits for them, several times over. The disk comes last: its thread takes the interpreter as
soon as it has work.
"""

from collections.abc import Iterable
from typing import Final, get_args

from msgspec import Struct

from raykeeper.actors.disk.storage import StorageEffect
from raykeeper.server.effects import Effect, Restart, SendClient, SendPeer
from raykeeper.server.peer_messages import PeerMessage
from raykeeper.zab.effects import BreakLink
from raykeeper.zab.ids import ServerId

DISK_EFFECTS: Final = frozenset(get_args(StorageEffect))


class StepEffects(Struct):
    """The effects of one step: first those on `peers`, then `others`, then `disk`."""

    peers: list[tuple[ServerId, list[PeerMessage] | BreakLink]] = []
    """Messages to one server, as many together as possible, or the end of its link."""
    others: list[Effect] = []
    """Those on clients, and on the actors beside the server."""
    disk: list[StorageEffect] = []
    restart: Restart | None = None
    """Ends the process after these. The other servers are told nothing more, and what the step
    wanted later is left out."""


def sort_effects(effects: Iterable[Effect]) -> StepEffects:
    """Sort the effects of a step."""
    found = StepEffects()
    others = found.others
    together: dict[ServerId, list[PeerMessage]] = {}
    for effect in effects:
        if isinstance(effect, SendClient):
            others.append(effect)
        elif isinstance(effect, SendPeer):
            messages = together.get(effect.peer)
            if messages is None:
                messages = together[effect.peer] = []
                found.peers.append((effect.peer, messages))
            messages.append(effect.message)
        elif type(effect) in DISK_EFFECTS:
            found.disk.append(effect)  # type: ignore[arg-type]
        elif isinstance(effect, BreakLink):
            together.pop(effect.peer, None)
            found.peers.append((effect.peer, effect))
        elif isinstance(effect, Restart):
            found.peers.clear()
            found.restart = effect
            break
        else:
            others.append(effect)
    return found
