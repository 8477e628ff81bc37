"""Faults against a real ensemble under load, and the judge of what its clients saw.

run.py               `raykeeper chaos`: rounds for as long as wanted, progress, the verdict
round.py             one round: load and faults, rest, the last look, the judgement
client_pool.py             the clients of the load: started, replaced, stopped
load_client.py              one client: a Ray actor with one session after the other
workload.py          what it asks next, from a seed
recorded_session.py  a session whose every request, answer and watch is written down
fault_plan.py              which faults come when, from a seed
fault_injector.py           the processes they meet, and the signals
history.py           what clients asked for and were told, and when
judge.py         every check of a history, and the numbers of the verdict
session_checks.py    what holds within each session
write_checks.py      what holds of all writes
linearizability.py   whether one order of the operations explains every answer
znode_steps.py       what the operations say of one znode
"""
