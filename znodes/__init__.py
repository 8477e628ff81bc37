"""The meaning of what Zab orders: znodes, sessions, watches. Pure: no clock, no input or output.

The messages of clients          requests  replies  errors  stat  acl  paths  limits
The transactions                 txns
The replicated state             state = tree (znode  children  quotas) + sessions; digest
The leader's side of a write     prep_request_processor  op_preparer  multi_preparer, against the
                                 tree as it will be (outstanding_changes)
Reads and watches, per server    reads  pages  watches  change_log  watch_replay
The state as a file              snapshot
The expiry of sessions           expiry
"""
