"""Makes the state of one ensemble the first state of another: what a restore does.

It is as if a leader had committed one more transaction, `zxid`, which ends every session. What is
about the servers of the old ensemble goes, too: the votes of their disks, their addresses in
/zookeeper/config, and the subtrees that the caller names. All else stays as it was, with its zxids,
which are lower than any that the new ensemble will give. A recovery keeps more, because its
ensemble stays the same (new_history.py).

The hashes in ACLs of the scheme `scrypt` stay as well, so the state names the uuid that salts them:
the clients of the new ensemble salt their keys with it, and the passwords of the old one open it.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from raykeeper.zab.feature_levels import LEVEL_OF_ACL_SALTS
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.new_history import begin_new_history
from raykeeper.znodes.op_preparer import next_version
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import SetDataTxn
from raykeeper.znodes.znode import stat_of

SALTED_SCHEME = "scrypt"


def refound(state: State, zxid: Zxid, dropped: Iterable[str], origin_uuid: str) -> None:
    """Turn `state` into the first state of a new ensemble, as of `zxid`.

    It requires a feature level that knows salts: a program of before would forget the salt with its
    next snapshot.

    Args:
        state: A real state, not the mixture that a fuzzy snapshot loads.
        zxid: Higher than that of the state.
        dropped: Paths of subtrees that are deleted.
        origin_uuid: The uuid that the old ensemble was founded with. It salts the ACLs, unless the
            old one was restored itself: then the state names the salt already.
    """
    assert zxid > state.zxid >= state.consistent_at, (zxid, state.zxid, state.consistent_at)
    tree = state.tree
    state.zxid = state.consistent_at = zxid
    state.acl_salt = state.acl_salt or origin_uuid
    state.level = max(state.level, LEVEL_OF_ACL_SALTS)
    begin_new_history(state)
    for root in dropped:
        for path in reversed(_subtree(state, root)):
            tree.delete(zxid, path)
    config = tree.znodes[CONFIG_PATH]
    if config.value:
        stat = replace(stat_of(config), version=next_version(config.version), data_length=0)
        tree.set_data(zxid, state.time_ms, SetDataTxn(CONFIG_PATH, b"", stat))


def count_salted_acls(state: State) -> int:
    """Return how many znodes have an ACL entry of the scheme `scrypt`."""
    return sum(
        any(acl.scheme == SALTED_SCHEME for acl in znode.attributes.acls)
        for znode in state.tree.znodes.values()
        if znode.attributes is not None and znode.attributes.acls is not None
    )


def _subtree(state: State, root: str) -> list[str]:
    """Return the paths of a subtree, each behind its parent; none if there is no such znode."""
    znodes = state.tree.znodes
    paths = [root] if root in znodes else []
    for path in paths:  # it grows meanwhile
        paths.extend(znodes[path].children or ())
    return paths
