"""Faults against a real ensemble under load, and the judge of what its clients saw.

history.py           what clients asked for and were told, and when
znode_steps.py       what the operations say of one znode
linearizability.py   whether one order of the operations explains every answer
"""
