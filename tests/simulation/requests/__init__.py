"""The rarer requests of clients, beside the few that every program sends.

contract.py      which of these a session sends, and how often
transactions.py  multis
acls.py       access control lists and identities
expiring_znodes.py        containers, and znodes with a time to live
quotas.py       quotas
watches.py       persistent watches, and the removal of all kinds
aux_reads.py     reads of several znodes, and of data that is not in one znode
"""
