"""Whether servers with different settings make one ensemble for the time of a rolling change.

Most settings concern one server: its limits, its ports, its files. Two kinds concern both ends of a
link; for all others a mixed ensemble is as good as one of either kind:

- `links`: one server takes streams only, the other Ray calls only.
- `tick_ms` and `sync_limit`: a server leaves one that is silent for `tick_ms * sync_limit`, and a
  leader speaks to its followers every half tick of its own. The least `sync_limit` is 2, which
  leaves room for four such pings; a mix must leave as much. No safety depends on them: a quorum
  decides, never a clock; without room the servers would leave each other again and again.

`init_limit` bounds what each end waits for in a recovery, so the shorter one counts. Limits of
requests are those of the leader, which judges every write. A session keeps the timeout that it was
granted, whatever the bounds become; its client and its server both count by that.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

PINGS_MIN: Final = 4
"""So many pings of a leader fit at least into the silence after which it is left."""


def mixing_problem(every: Collection[Mapping[str, Any]]) -> str:
    """Return why servers with each of these settings make no ensemble; "" if they do.

    A setting that is missing in one of them is not known there.
    """
    carriers = {str(each["links"]) for each in every if "links" in each}
    if carriers >= {"ray", "direct"}:
        return "servers with links: ray and links: direct do not reach each other; go to auto first"
    timed = [each for each in every if "tick_ms" in each and "sync_limit" in each]
    return _timing_problem(timed) if timed else ""


def _timing_problem(every: Collection[Mapping[str, Any]]) -> str:
    patience = min(every, key=lambda each: each["tick_ms"] * each["sync_limit"])
    slowest = max(every, key=lambda each: each["tick_ms"])
    patience_ms = patience["tick_ms"] * patience["sync_limit"]
    ping_ms = slowest["tick_ms"] // 2
    if patience_ms >= PINGS_MIN * ping_ms:
        return ""
    return (
        f"a server with tick_ms {patience['tick_ms']} and sync_limit {patience['sync_limit']} "
        f"leaves one that is silent for {patience_ms} ms, and a leader with tick_ms "
        f"{slowest['tick_ms']} speaks every {ping_ms} ms: change them in smaller steps, so that "
        f"{PINGS_MIN} of the one fit into the other"
    )
