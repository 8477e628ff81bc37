"""The meaning of what Zab orders: znodes, sessions, watches. Pure: no clock, no input or output.

What a client says and hears    requests  replies  errors  stat  paths  limits
What the ensemble agrees on     txns
The state it leads to           state = tree (children) + sessions, checked by digest
The leader's side of a write    preparation, against the tree as it will be (future)
Every server's own side         reads  watches
The state as a file             snapshot
Which sessions are overdue      expiry
How large subtrees may grow     quotas
"""
