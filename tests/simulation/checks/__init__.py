"""What must always hold, judged from outside: by what was delivered, promised, stored and answered.

oracle.py      the one place that the simulated world tells what happened
committed.py   what the committed transactions say, judged one by one
clients.py     what clients ask for and are told, judged answer by answer
zab.py         the properties of Zab, under the names of Zab.tla; digests; epochs
durability.py  no acknowledged write is lost
truth.py       the tree and the sessions as the committed transactions make them, with their past
execution.py   what a request must become: answers, refusals, sequence numbers
multi_execution.py     what a transaction of several operations must become
multi_history.py    what its answer says to the judge of linearizability
acls.py      who may do what
quotas.py      quotas
expiring_znodes.py     when containers and znodes with a time to live end
aux_reads.py   answers to what is not one of the three usual reads
sessions.py    when sessions end, what they may do, ephemerals
session_deadlines.py  when a client must let go, and may be answered
full_timeouts.py     the full timeouts that a session is given
session_view.py        what a client has asked and was told in one session
replicas.py    a replica's whole state against the truth
answers.py     what a client may be told: its order, its own writes, the truth of what it reads
watches.py     which events a client is told, when, and once
persistent_watches.py     the same for persistent watches: everything, in order, together, with its
    values
told_event.py  an event as a client's watchers are told it
event_visibility.py     which events may be told to whom
history_recorder.py       the history for the judge of linearizability
"""

from tests.simulation.checks.oracle import Checks

__all__ = ["Checks"]
