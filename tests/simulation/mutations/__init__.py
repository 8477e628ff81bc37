"""Deliberate faults: the proof that the checks can fail.

mutation.py      what a fault is
elections.py     who may lead: Z1, Z2, discovery
broadcast.py     what is acknowledged and committed: Z3, Z6, Z7, the order on disk
reads.py         read points, watches after a snapshot: Z4, Z5
disks.py         D1 to D6, and digests
exactly_once.py  each sentence of DESIGN section 7, "Exactly once"
session_deadlines.py    each sentence of "When a client must let go", the tracker's verdicts
snapshots.py     the fuzzy snapshot and its publication
meaning.py       the tree, sessions and watches
persistent_watches.py       persistent watches: what is missed, values, transactions, hidden
    znodes
contract.py      transactions, access control, what ends by itself, quotas, inquiries
recipes.py       one or two of each recipe, found by its scenario (tests/simulation/recipes)
"""
