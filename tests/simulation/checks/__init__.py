"""Promises that must always hold, checked from outside against deliveries, disks and answers.

oracle.py      the one place to which the simulated world reports what happened
committed.py   checks of each committed transaction
clients.py     requests and answers of clients, each answer checked when it arrives
zab.py         the properties of Zab, under the names of Zab.tla; digests; epochs
durability.py  no acknowledged write is lost
truth.py       the tree and the sessions that the committed transactions make, with their past
execution.py   the transaction that a request must become: effects, errors, sequence numbers
multi_execution.py     the transaction that a multi request must become
multi_history.py    the evidence in a multi's answer for the linearizability check
acls.py      permissions by ACL
quotas.py      quotas
expiring_znodes.py     when containers and TTL znodes end
aux_reads.py   replies to reads other than get, exists and get_children
sessions.py    when sessions end, what they may do, their ephemerals
session_deadlines.py  when a client must let go, and until when a server may answer it
full_timeouts.py     the full timeouts that a session gets after a move or a loss
session_view.py        the requests and answers of one client session
reconfigs.py   steps of the member list that operators ask for: each is answered truly
transfers.py   transfers of the lead: nothing proposed meanwhile, the nominee has all
drains.py      drained servers take no clients
replicas.py    a replica's whole state against the truth
answers.py     answers to a client: their order, its own writes, the truth of its reads
watches.py     which watch events a client gets, when, and each once
persistent_watches.py     the same for persistent watches: every event, in order, grouped by
    transaction, with values
told_event.py  an event as a client's watchers receive it
event_visibility.py     which events a watcher may see
history_recorder.py       the history for the linearizability check
"""

from tests.simulation.checks.oracle import Checks

__all__ = ["Checks"]
