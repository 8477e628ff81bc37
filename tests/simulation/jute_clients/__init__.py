"""Clients of ZooKeeper's protocol in the simulated world, beside native ones: bytes in and out.

requests.py      a request of the workload as a record of this protocol, and its reply back
watch_tables.py  the watches that such a client keeps, and sets again on its next connection
core.py          the client as a pure state machine: connections, pings, timeouts, the order of xids
client.py        a simulated client that runs it, reads slowly, and takes sessions over
server_end.py    a server's end of a connection: bytes cut anywhere, pauses of reading
plans.py         the plan of a seed: some of its clients speak this protocol
"""
