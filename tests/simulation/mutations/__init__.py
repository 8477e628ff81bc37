"""Deliberate faults: the proof that the checks can fail.

mutation.py      the class Mutation
elections.py     elections and discovery: Z1, Z2
broadcast.py     acks and commits: Z3, Z6, Z7, the order on disk
reads.py         read points, watches after a snapshot: Z4, Z5
disks.py         D1 to D6, and digests
exactly_once.py  each sentence of DESIGN section 7, "Exactly once"
session_deadlines.py  each sentence of "When a client must let go", and expiry proposals
snapshots.py     the fuzzy snapshot and its publication
dead_clients.py  sessions that end with their process
tree_and_watches.py   the tree, sessions and watches
persistent_watches.py persistent watches: missed events, values, transactions, hidden znodes
contract.py      transactions, access control, expiring znodes, quotas, aux reads
recipes.py       one or two of each recipe, found by its scenario (tests/simulation/recipes)
upgrades.py      feature levels, found by the world of upgrades (tests/simulation/upgrades)
transfers.py     transfers of the lead (tests/simulation/transfers)
members.py       members that change, found by their own world (tests/simulation/members)
keepers.py       the rules of the keeper, found by its own world (tests/simulation/keepers)
"""
