"""What clients ask for beside the few requests that everybody uses all the time.

contract.py      which of these a session is into, and how often
transactions.py  several operations as one
guarded.py       access control lists and identities
mortal.py        containers, and znodes with a time to live
limited.py       quotas
watches.py       persistent watches, and the removal of all kinds
inquiries.py     reads of several znodes, and of what is not in one
"""
