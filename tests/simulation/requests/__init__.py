"""What clients ask for beside the few requests that everybody uses all the time.

contract.py      which of these a session is into, and how often
transactions.py  several operations as one
acls.py       access control lists and identities
expiring_znodes.py        containers, and znodes with a time to live
quotas.py       quotas
watches.py       persistent watches, and the removal of all kinds
aux_reads.py     reads of several znodes, and of what is not in one
"""
