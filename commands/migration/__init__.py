"""`raykeeper import` and `raykeeper export`: a tree moves from ZooKeeper, or to it.

The copying itself is that of `raykeeper copy` (client/subtree_copier.py).

migration.py           one import or export, step by step, and its numbers
sides.py               what a migration needs of either side, and the side of an ensemble of ours
zookeeper_side.py      the side of a ZooKeeper, through kazoo
zookeeper_session.py   the session there: addresses, errors, and why there is none
journal.py             the file that lets a later run go on where this one ended
errors.py              their errors
order.py               what a user asks for
command.py             what the commands print, and their progress
"""
