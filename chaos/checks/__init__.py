"""The checks that judge a history: what clients requested, what they were answered, and when.

Chaos runs and the simulator (tests/simulation) use these checks. They are pure: no clock, no disk,
no Ray.

history.py          the records, and the history that they form
judge.py            all checks together, and the numbers of the report
faults.py           the faults of a round, and what each kind cost
client_errors.py    what counts as an error of a client
write_gaps.py       the times without an acknowledged write
goals.py            figures of a run beside their goals
node_losses.py      what lost nodes cost, beside its goals
sessions.py         what holds within each session
writes.py           what holds of all writes
linearizability.py  whether one order of the operations explains every answer
znode_steps.py      the steps that the operations take on each znode
"""
