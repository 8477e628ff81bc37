"""Faults against a real ensemble under load, and the judge of what its clients saw.

run.py               `raykeeper chaos`: rounds for some minutes, progress, the report
round.py             one round: load and faults, rest, a final read of all znodes, the judgement
client_pool.py       the client processes: started, replaced, stopped
load_client.py       one client: a Ray actor that opens one session after another
workload.py          the next request of a client, from a seed
recorded_session.py  a session that records every request, answer and watch event
history_file.py      the files of the records, and of the faults
fault_plan.py        which faults come when, from a seed
fault_injector.py    finds the processes of a fault, and sends the signals
orderly_faults.py    begins what an operator does, such as a transfer, beside the signals
operator_process.py  the process that does it, which may be killed
lose_nodes.py        `raykeeper chaos --lose-nodes`: nodes are lost for good and come back
upgrade.py           `raykeeper chaos --upgrade-from`: servers of an earlier program are upgraded
local_nodes.py       a Ray cluster of several nodes on this machine
checks/              the checks that judge a history; the simulator uses them too
"""
