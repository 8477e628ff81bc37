"""The keeper's answer to `status` and the command line."""

from msgspec import Struct

from raykeeper.clusters.healing.vocabulary import Entry


class KeeperStatus(Struct, frozen=True, kw_only=True):
    """What the keeper tells. Instances can be pickled."""

    leads: bool
    """Whether it is elected; else another keeper is, or none."""
    problem: str = ""
    """Why it is not connected, or why a server that should move does not."""
    entries: list[Entry] = []
    """The newest decisions, as far as this keeper knows."""
    stale_folders: list[str] = []
    """What this keeper did with stale folders, each line with its node; the newest."""
